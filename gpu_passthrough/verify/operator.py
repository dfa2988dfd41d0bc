"""The GPU Operator: its ClusterPolicy, itself, and each operand by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpu_passthrough.checks.finding import Finding
from gpu_passthrough.config import Stack
from gpu_passthrough.verify.check import Check
from gpu_passthrough.verify.state import State

OPERANDS: Final = Check("operands", "The GPU Operator's operands are healthy", "operator")


def operator(stack: Stack, state: State) -> Iterator[Finding]:
    """Whatever explains the others comes first; what the policy says of itself comes last."""
    namespace = stack.gpu_operator.namespace
    yield from _label(stack, state)
    yield from _itself(stack, state)
    for policy in state.policies:
        yield from _switches(stack, policy)
    for one in sorted(state.daemon_sets, key=lambda one: one["metadata"]["name"] not in OF_TALOS):
        yield _operand(stack, one)
    yield from _policies(state, namespace)


def _policies(state: State, namespace: str) -> Iterator[Finding]:
    if not state.policies:
        yield OPERANDS.failed(
            "ClusterPolicy",
            "there is none",
            "The operator makes nothing.",
            f"Look at its release: helm -n {namespace} status gpu-operator.",
            "kubectl get clusterpolicies",
            "nothing",
        )
    for policy in state.policies:
        found = str((policy.get("status") or {}).get("state", "without a state"))
        name = f"ClusterPolicy {policy['metadata']['name']}"
        if found == "ready":
            yield OPERANDS.passed(name, "ready")
            continue
        yield OPERANDS.failed(
            name,
            f"it is {found}{_condition(policy)}",
            "One of the operands does not come up.",
            "Look at the lowest operand that fails: validator and driver first.",
            "kubectl get clusterpolicies -o yaml",
            found,
        )


MANAGER: Final = "app.kubernetes.io/managed-by"
ENFORCE: Final = "pod-security.kubernetes.io/enforce"


def _label(stack: Stack, state: State) -> Iterator[Finding]:
    """Talos lets in privileged pods only where the namespace says so."""
    if state.namespace is None or stack.cluster is None:
        return
    name = state.namespace["metadata"]["name"]
    found = (state.namespace["metadata"].get("labels") or {}).get(ENFORCE)
    if found == "privileged":
        return
    yield OPERANDS.failed(
        f"namespace {name}",
        f"its label {ENFORCE} is {found or 'absent'}, not privileged",
        "Talos enforces the level baseline: the API server refuses every new pod of an operand.",
        f"`pulumi up --refresh`, or kubectl label --overwrite namespace {name}"
        f" {ENFORCE}=privileged",
        f"kubectl get namespace {name} -o jsonpath={{.metadata.labels}}",
        state.namespace["metadata"].get("labels"),
    )


def _itself(stack: Stack, state: State) -> Iterator[Finding]:
    """The release's own Deployments: the operator, and node feature discovery."""
    namespace = stack.gpu_operator.namespace
    for one in state.deployments:
        meta, status = one["metadata"], one.get("status") or {}
        if meta["namespace"] != namespace or (meta.get("labels") or {}).get(MANAGER) != "Helm":
            continue
        wanted, ready = one["spec"].get("replicas", 1), status.get("readyReplicas", 0)
        if wanted and ready >= wanted:
            yield OPERANDS.passed(meta["name"], f"{ready} of {wanted} ready")
            continue
        describe = f"kubectl -n {namespace} describe pods; kubectl -n {namespace} get events"
        yield OPERANDS.failed(
            meta["name"],
            f"{ready} of its pods are ready, {wanted} are wanted",
            "Nobody makes operands, labels and RuntimeClass again, or follows a change.",
            describe
            if wanted
            else f"kubectl -n {namespace} scale deployment {meta['name']} --replicas 1",
            f"kubectl -n {namespace} get deployment {meta['name']}",
            status,
        )


SWITCHES: Final = {
    "devicePlugin": "device_plugin",
    "gfd": "gfd",
    "dcgmExporter": "dcgm_exporter",
}
"""Operands that a ClusterPolicy can leave out, and the stack's word for each."""


def _switches(stack: Stack, policy: Mapping[str, Any]) -> Iterator[Finding]:
    """Somebody switched an operand off that the stack has on."""
    spec = policy.get("spec") or {}
    for key, field in SWITCHES.items():
        is_on = (spec.get(key) or {}).get("enabled", True)
        if is_on or not getattr(stack.gpu_operator, field).enabled:
            continue
        yield OPERANDS.failed(
            f"ClusterPolicy {policy['metadata']['name']}",
            f"it has {key}.enabled: false, and the stack has it on",
            "Without the device plugin no node offers a GPU, without GFD none has labels, without"
            " the exporter none has metrics.",
            f"{NOT_PULUMI}: kubectl patch clusterpolicy"
            f" {policy['metadata']['name']} --type merge"
            f' -p \'{{"spec":{{"{key}":{{"enabled":true}}}}}}\'',
            f"kubectl get clusterpolicies -o jsonpath={{.items[*].spec.{key}}}",
            spec.get(key),
        )


def _condition(policy: Mapping[str, Any]) -> str:
    conditions = (policy.get("status") or {}).get("conditions") or []
    texts = [str(one["message"]) for one in conditions if one.get("message")]
    return f": {texts[0]}" if texts else ""


NOT_PULUMI: Final = (
    "Set it back by hand; a release is compared by its values, so Pulumi does not see what was"
    " changed in its objects"
)
OF_TALOS: Final = {
    "nvidia-driver-daemonset": "driver",
    "nvidia-container-toolkit-daemonset": "toolkit",
}
"""Operands whose work Talos' own image does; on Talos they can only fail."""


EVERYWHERE: Final = frozenset(
    {
        "gpu-feature-discovery",
        "nvidia-dcgm-exporter",
        "nvidia-device-plugin-daemonset",
        "nvidia-operator-validator",
    }
)
"""Operands that run on every GPU node; none wanted means that nothing tolerates their taint."""


def _operand(stack: Stack, one: Mapping[str, Any]) -> Finding:
    name, status = one["metadata"]["name"], one.get("status") or {}
    namespace, gpu_nodes = stack.gpu_operator.namespace, len(stack.gpu_nodes)
    if stack.cluster is not None and (switch := OF_TALOS.get(name)) is not None:
        return OPERANDS.failed(
            name,
            f"the ClusterPolicy has {switch}.enabled: true, and Talos brings its own {switch}",
            "Its pods cannot work on a system that is an image, and the policy never gets ready.",
            f"{NOT_PULUMI}: kubectl patch clusterpolicy cluster-policy --type merge"
            f' -p \'{{"spec":{{"{switch}":{{"enabled":false}}}}}}\'',
            f"kubectl -n {namespace} get daemonset {name}",
            status,
        )
    wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
    if name in EVERYWHERE and gpu_nodes and not wanted:
        return OPERANDS.failed(
            name,
            f"it wants no pod, and the stack has {gpu_nodes} GPU nodes",
            "Nothing of the operator runs there: no GPU is offered.",
            "The nodes have a taint that the operands do not tolerate (gpuTaint in the stack), or"
            " lack the label nvidia.com/gpu.present: look at node feature discovery.",
            f"kubectl -n {namespace} get daemonset {name}",
            status,
        )
    if ready >= wanted:
        return OPERANDS.passed(name, f"{ready} of {wanted} ready")
    return OPERANDS.failed(
        name,
        f"{ready} of {wanted} pods are ready",
        "Without the device plugin no node offers a GPU, without GFD none has labels.",
        f"kubectl -n {namespace} describe pods -l {_selector(one)}; operands wait for each other,"
        " so the validator's first init container that does not end is the cause.",
        f"kubectl -n {namespace} get daemonset {name}",
        status,
    )


def _selector(daemon_set: Mapping[str, Any]) -> str:
    """The labels of its pods, as kubectl takes them."""
    labels = ((daemon_set.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    return ",".join(f"{key}={text}" for key, text in labels.items())
