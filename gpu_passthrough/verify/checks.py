"""What the cluster says of each layer, held against the stack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_passthrough import cards, compatibility, gfd, placement
from gpu_passthrough.checks.finding import Evidence, Finding, Layer
from gpu_passthrough.config import Stack
from gpu_passthrough.verify.state import State, allocatable, is_ready

TOO_MANY: Final = 3
"""Restarts within an hour that nobody does on purpose."""
EXTENSION: Final = "extensions.talos.dev/"
MODULES: Final = {"nonfree": "nonfree-kmod-nvidia", "open": "nvidia-open-gpu-kernel-modules"}


@dataclass(frozen=True)
class Check:
    """One check: its id, what it claims, and its layer."""

    id: str
    title: str
    layer: Layer

    def passed(self, subject: str, found: str) -> Finding:
        """It is as it has to be."""
        return Finding(
            id=self.id,
            title=self.title,
            status="passed",
            layer=self.layer,
            subject=subject,
            cause=found,
        )

    def failed(
        self, subject: str, cause: str, consequence: str, fix: str, asked: str, answered: object
    ) -> Finding:
        """It is not as it has to be."""
        return Finding(
            id=self.id,
            title=self.title,
            status="failed",
            layer=self.layer,
            subject=subject,
            cause=cause,
            consequence=consequence,
            fix=fix,
            evidence=(Evidence(asked, str(answered)[:400]),),
        )

    def unknown(self, subject: str, why: str, *, best_effort: bool = True) -> Finding:
        """It cannot be told."""
        return Finding(
            id=self.id,
            title=self.title,
            status="could-not-tell",
            layer=self.layer,
            subject=subject,
            cause=why,
            best_effort=best_effort,
        )


NODE: Final = Check("node", "The machine has joined the cluster and is ready", "talos")
TALOS: Final = Check("talos-version", "The node runs the stack's Talos", "talos")
DRIVER: Final = Check("driver", "The node's image has the stack's NVIDIA driver", "talos")
OPERANDS: Final = Check("operands", "The GPU Operator's operands are healthy", "operator")
ALLOCATABLE: Final = Check("allocatable", "The node offers its GPUs to pods", "operator")
LABELS: Final = Check("labels", "The node's labels describe its card", "operator")
CLASS: Final = Check("runtime-class", "The RuntimeClass names the right handler", "runtime-class")
RESTARTS: Final = Check("restarts", "The machine does not restart again and again", "talos")
APP: Final = Check("app", "The app's pods run on a card that fits", "app")
VOLUMES: Final = Check("volumes", "The app's volumes are bound and its strategy fits them", "app")


def nodes(stack: Stack, state: State) -> Iterator[Finding]:
    """Every machine of the stack is a ready node."""
    for name in stack.members:
        node = state.nodes.get(name)
        ask = f"kubectl get node {name}"
        if node is None:
            yield NODE.failed(
                name,
                "there is no such node",
                "None of its cards can be used.",
                "Look at the machine: is its VM running (`qm list` on the host), does Talos answer"
                f" (`talosctl -n {stack.members[name].address} health`)? Another cluster's secrets"
                " keep it out for ever.",
                ask,
                f"nodes: {', '.join(sorted(state.nodes))}",
            )
        elif not is_ready(node):
            yield NODE.failed(
                name,
                f"it is not ready: {_reason(node)}",
                "Kubernetes starts nothing there, and removes what runs after five minutes.",
                "Its kubelet has fallen silent: look at the VM's power and at `talosctl dmesg`. A"
                " machine with NVIDIA extensions and without a card restarts again and again.",
                ask,
                _reason(node),
            )
        else:
            yield NODE.passed(name, "is ready")


def _reason(node: Mapping[str, Any]) -> str:
    conditions = node["status"].get("conditions") or []
    ready: dict[str, Any] = next((one for one in conditions if one["type"] == "Ready"), {})
    return str(ready.get("message") or ready.get("reason") or "no condition Ready")


def talos(stack: Stack, state: State) -> Iterator[Finding]:
    """Talos' version and extensions, as Talos itself writes them on the node."""
    if stack.cluster is None:
        return
    extensions = stack.cluster.extensions
    module = f"{EXTENSION}{MODULES[extensions.kernel_modules]}-{extensions.channel}"
    for name, machine in stack.members.items():
        node = state.nodes.get(name)
        if node is None:
            continue
        image = str(node["status"]["nodeInfo"]["osImage"])
        wanted = f"Talos ({stack.cluster.talos_version})"
        if image != wanted:
            yield TALOS.failed(
                name,
                f"it runs {image}, not {wanted}",
                "Compatibility was judged for another release.",
                f"talosctl -n {machine.address} upgrade, with the installer of the stack's"
                " schematic; or write the running version into the stack.",
                f"kubectl get node {name} -o jsonpath={{.status.nodeInfo.osImage}}",
                image,
            )
        else:
            yield TALOS.passed(name, image)
        if machine.gpus:
            yield _driver(name, node, module, extensions.driver)


def restarts(stack: Stack, state: State) -> Iterator[Finding]:
    """Machines that restart again and again; Kubernetes keeps such events for an hour."""
    for name in stack.members:
        count = state.reboots(name)
        if count < TOO_MANY:
            yield RESTARTS.passed(name, f"{count} in the last hour")
            continue
        yield RESTARTS.failed(
            name,
            f"it restarted {count} times in the last hour",
            "What runs on it ends each time, and its GPUs are gone until the operands are back.",
            "A machine with NVIDIA extensions and without a card does that: is the card in the VM?"
            " Otherwise look at talosctl dmesg, and at the host's memory.",
            "kubectl get events -n default --field-selector reason=Rebooted",
            f"{count} events for {name}",
        )


def _driver(name: str, node: Mapping[str, Any], module: str, driver: str | None) -> Finding:
    meta = node["metadata"]
    known = {**(meta.get("annotations") or {}), **(meta.get("labels") or {})}
    found = str(known.get(module, ""))
    if found and (driver is None or found.startswith(driver)):
        return DRIVER.passed(name, f"{module.removeprefix(EXTENSION)} {found}")
    others = {key: text for key, text in known.items() if key.startswith(EXTENSION)}
    return DRIVER.failed(
        name,
        f"its image has {module.removeprefix(EXTENSION)} {found or 'not at all'}, the stack says"
        f" driver {driver}",
        "Without the kernel module there is no GPU; with another driver the toolkit's libraries do"
        " not fit.",
        "The machine was booted or upgraded with another schematic. Upgrade it with the installer"
        " that `pulumi stack output` and the machine configuration name.",
        f"kubectl get node {name} -o json | jq .metadata.labels",
        others or "no Talos extensions",
    )


def operator(stack: Stack, state: State) -> Iterator[Finding]:
    """The ClusterPolicy and each daemon set of the operator."""
    namespace = stack.gpu_operator.namespace
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
        else:
            yield OPERANDS.failed(
                name,
                f"it is {found}{_condition(policy)}",
                "One of the operands below does not come up.",
                "Look at the lowest operand that fails: validator and driver first.",
                "kubectl get clusterpolicies -o yaml",
                found,
            )
        yield from _switches(stack, policy)
    for one in state.daemon_sets:
        yield _operand(one, namespace, len(stack.gpu_nodes))


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
            "`pulumi up --refresh` puts the stack's value back; or kubectl patch clusterpolicy"
            f" {policy['metadata']['name']} --type merge"
            f' -p \'{{"spec":{{"{key}":{{"enabled":true}}}}}}\'',
            f"kubectl get clusterpolicies -o jsonpath={{.items[*].spec.{key}}}",
            spec.get(key),
        )


def _condition(policy: Mapping[str, Any]) -> str:
    conditions = (policy.get("status") or {}).get("conditions") or []
    texts = [str(one["message"]) for one in conditions if one.get("message")]
    return f": {texts[0]}" if texts else ""


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


def _operand(one: Mapping[str, Any], namespace: str, gpu_nodes: int) -> Finding:
    name, status = one["metadata"]["name"], one.get("status") or {}
    if (switch := OF_TALOS.get(name)) is not None:
        return OPERANDS.failed(
            name,
            f"the ClusterPolicy has {switch}.enabled: true, and Talos brings its own {switch}",
            "Its pods cannot work on a system that is an image, and the policy never gets ready.",
            f"Set {switch}.enabled: false, as the stack does: `pulumi up --refresh`, or kubectl"
            " patch clusterpolicy cluster-policy --type merge"
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
        f"kubectl -n {namespace} describe pods -l app={name}; operands wait for each other, so the"
        " validator's first init container that does not end is the cause.",
        f"kubectl -n {namespace} get daemonset {name}",
        status,
    )


def gpus(stack: Stack, state: State) -> Iterator[Finding]:
    """What each node offers, and how it is described."""
    sharing = stack.gpu_operator.sharing
    slots = sharing.replicas if sharing else 1
    for name, machine in stack.members.items():
        node = state.nodes.get(name)
        if node is None:
            continue
        wanted, found = len(machine.gpus) * slots, allocatable(node)
        if found != wanted:
            yield ALLOCATABLE.failed(
                name,
                f"it offers {found} GPUs, the stack says {wanted}",
                "Pods that claim a GPU stay Pending, or land where the stack does not expect them.",
                "Is the card in the VM (`qm config` on the host), do the kernel modules load"
                " (`talosctl dmesg | grep -i nvidia`), is the device plugin healthy? It serves 0"
                " until it has registered again after a restart.",
                f"kubectl get node {name} -o jsonpath={{.status.allocatable}}",
                node["status"].get("allocatable"),
            )
        elif machine.gpus:
            yield ALLOCATABLE.passed(name, f"{found}")
        if machine.gpus:
            yield _labels(stack, name, node, [gpu.card for gpu in machine.gpus], slots)


def _labels(
    stack: Stack, name: str, node: Mapping[str, Any], kinds: list[str], slots: int
) -> Finding:
    if len(set(kinds)) > 1:
        return LABELS.unknown(name, "it has cards of several kinds; GFD describes only one")
    card = cards.find(kinds[0])
    if card is None:
        return LABELS.unknown(name, f"{kinds[0]} is not in the catalogue")
    version = compatibility.gfd_version(stack.gpu_operator.version)
    wanted = gfd.labels(card, len(kinds), gfd=version, slots=slots)
    have = node["metadata"].get("labels") or {}
    wrong = {k: (have.get(k), text) for k, text in wanted.items() if have.get(k) != text}
    if not wrong:
        return LABELS.passed(name, have.get(gfd.PRODUCT, f"{len(wanted)} labels"))
    said = "; ".join(f"{k} is {found}, not {text}" for k, (found, text) in sorted(wrong.items()))
    return LABELS.failed(
        name,
        said,
        "Selectors by label choose another card, or none.",
        "Is another card in the VM than the stack says? Is GPU feature discovery healthy?",
        f"kubectl get node {name} -o json | jq '.metadata.labels'",
        {k: text for k, text in have.items() if k.startswith("nvidia.com/gpu")},
    )


def runtime_class(stack: Stack, state: State) -> Iterator[Finding]:
    """The RuntimeClass of the stack."""
    name, handler = stack.runtime_class.name, stack.runtime_class.handler
    found = state.runtime_classes.get(name)
    if found is None:
        yield CLASS.failed(
            name,
            "it does not exist",
            "Pods that name it are rejected at admission: a Deployment makes none.",
            "The operator makes it at its next round: restart its pod, or `pulumi up`.",
            f"kubectl get runtimeclass {name}",
            f"there are {', '.join(state.runtime_classes) or 'none'}",
        )
    elif found["handler"] != handler:
        yield CLASS.failed(
            name,
            f"its handler is {found['handler']}, not {handler}",
            "containerd knows no such runtime: pods stay in ContainerCreating.",
            f"kubectl delete runtimeclass {name}; then `pulumi up`.",
            f"kubectl get runtimeclass {name} -o yaml",
            found["handler"],
        )
    else:
        yield CLASS.passed(name, f"handler {handler}")


def apps(stack: Stack, state: State, only: str | None) -> Iterator[Finding]:
    """Each app's pods and volumes."""
    for name, app in stack.apps.items():
        if only not in (None, name):
            continue
        pods = state.pods_of(app.namespace, name)
        ready = [pod for pod in pods if is_ready(pod)]
        if len(ready) < app.replicas:
            yield APP.failed(
                name,
                f"{len(ready)} of {app.replicas} pods are ready{_waiting(pods)}",
                "The app does not serve.",
                f"kubectl -n {app.namespace} describe pods -l app.kubernetes.io/name={name}",
                f"kubectl -n {app.namespace} get pods",
                [pod["status"].get("phase") for pod in pods],
            )
        elif len(pods) > app.replicas:
            yield APP.failed(
                name,
                f"a rollout does not end: {len(pods)} pods for {app.replicas}{_waiting(pods)}",
                "The old version serves, and no change reaches it.",
                f"kubectl -n {app.namespace} get events; a Multi-Attach error means that the new"
                " pod waits for a volume of the old one: strategy Recreate.",
                f"kubectl -n {app.namespace} rollout status deployment/{name}",
                [pod["status"].get("phase") for pod in pods],
            )
        elif misplaced := _misplaced(stack, name, ready):
            yield APP.failed(
                name,
                "; ".join(misplaced.values()),
                "It ends with an error at the first call, or when the card's memory is full.",
                "Pin the app to a card that fits: nodeSelector nvidia.com/gpu.product in the stack"
                " file; `python -m gpu_passthrough plan` says which do.",
                f"kubectl -n {app.namespace} get pods -o wide",
                sorted(misplaced),
            )
        else:
            places = ", ".join(sorted({pod["spec"]["nodeName"] for pod in ready}))
            yield APP.passed(name, f"{len(ready)} on {places}" if places else "no replicas asked")
        claims = [f"{name}-{volume}" for volume in app.volumes]
        for claim in claims:
            yield _volume(state, app.namespace, claim)
        if claims:
            yield _strategy(state, app.namespace, name, claims)


def _misplaced(stack: Stack, name: str, pods: list[Any]) -> dict[str, str]:
    """Nodes of an app's pods whose cards do not fit it, each with why; unknown cards fit."""
    kinds = {offer.node: offer.kind for offer in placement.offers(stack)}
    places = sorted({pod["spec"]["nodeName"] for pod in pods} & set(kinds))
    reasons = {
        node: placement.reason_against(stack.apps[name], node, kinds[node]) for node in places
    }
    return {node: f"{node}: {reason}" for node, reason in reasons.items() if reason}


def _strategy(state: State, namespace: str, name: str, claims: list[str]) -> Finding:
    """A rolling update never ends where old and new pod want the same volume on two nodes."""
    deployment = state.deployment(namespace, name)
    kind = ((deployment or {}).get("spec", {}).get("strategy") or {}).get("type", "absent")
    single = [
        one["metadata"]["name"]
        for one in state.claims
        if one["metadata"]["namespace"] == namespace
        and one["metadata"]["name"] in claims
        and "ReadWriteMany" not in one["spec"]["accessModes"]
    ]
    if kind != "RollingUpdate" or not single:
        return VOLUMES.passed(f"deployment {name}", f"strategy {kind}")
    return VOLUMES.failed(
        f"deployment {name}",
        f"its strategy is RollingUpdate, and {', '.join(single)} attaches to one node at a time",
        "The next rollout waits for ever as soon as the new pod lands on another node.",
        "Set strategy Recreate; `pulumi up --refresh` puts the stack's own back.",
        f"kubectl -n {namespace} get deployment {name} -o jsonpath={{.spec.strategy}}",
        kind,
    )


def _waiting(pods: list[Any]) -> str:
    """Why pods are not ready, in the words of scheduler and kubelet."""
    said: list[str] = []
    for pod in pods:
        if is_ready(pod):
            continue
        said += [
            str(one.get("message"))
            for one in pod["status"].get("conditions") or ()
            if one["type"] == "PodScheduled" and one["status"] != "True"
        ]
        for one in pod["status"].get("containerStatuses") or ():
            waiting = one["state"].get("waiting") or {}
            said += [str(text) for text in (waiting.get("reason"), waiting.get("message")) if text]
    texts = list(dict.fromkeys(text for text in said if text != "None"))
    return f": {'; '.join(texts)}" if texts else ""


def _volume(state: State, namespace: str, name: str) -> Finding:
    found = next(
        (
            one
            for one in state.claims
            if (one["metadata"]["namespace"], one["metadata"]["name"]) == (namespace, name)
        ),
        None,
    )
    phase = (found or {}).get("status", {}).get("phase", "absent")
    if phase == "Bound":
        return VOLUMES.passed(name, "bound")
    return VOLUMES.failed(
        name,
        f"the claim is {phase}",
        "The pod waits for its volume.",
        "Does the storage class exist, and can its provisioner make volumes?"
        f" kubectl -n {namespace} describe pvc {name}",
        f"kubectl -n {namespace} get pvc {name}",
        phase,
    )
