"""The machines as nodes: there, with the right image, quiet, and open for pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpu_passthrough.checks.finding import Finding
from gpu_passthrough.config import Machine, Stack
from gpu_passthrough.verify.check import Check
from gpu_passthrough.verify.state import State, is_ready

NODE: Final = Check("node", "The machine has joined the cluster and is ready", "talos")
TALOS: Final = Check("talos-version", "The node runs the stack's Talos", "talos")
DRIVER: Final = Check("driver", "The node's image has the stack's NVIDIA driver", "talos")
RESTARTS: Final = Check("restarts", "The machine does not restart again and again", "talos")
TAINTS: Final = Check("taints", "Nothing keeps the stack's pods off the node", "kubernetes")
TOO_MANY: Final = 3
"""Restarts within 15 minutes that nobody does on purpose."""
EXTENSION: Final = "extensions.talos.dev/"
MODULES: Final = {"nonfree": "nonfree-kmod-nvidia", "open": "nvidia-open-gpu-kernel-modules"}


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
                f"Look at the machine: does it run, does its system answer{_health(stack, name)}?"
                " Another cluster's secrets keep it out for ever.",
                ask,
                f"nodes: {', '.join(sorted(state.nodes))}",
            )
        elif not is_ready(node):
            yield NODE.failed(
                name,
                f"it is not ready: {_reason(node)}",
                "Kubernetes starts nothing there, and removes what runs after five minutes.",
                f"Its kubelet has fallen silent: does the machine run{_health(stack, name)}? One"
                " with NVIDIA extensions and without a card restarts again and again.",
                ask,
                _reason(node),
            )
        else:
            yield NODE.passed(name, "is ready")


def _address(machine: Machine) -> str:
    return machine.address or "ADDRESS"


def _health(stack: Stack, name: str) -> str:
    """How to ask a machine that runs Talos."""
    if stack.cluster is None:
        return ""
    return f" (`talosctl -n {_address(stack.members[name])} health`)"


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
                f"talosctl -n {_address(machine)} upgrade, with the installer of the stack's"
                " schematic; or write the running version into the stack.",
                f"kubectl get node {name} -o jsonpath={{.status.nodeInfo.osImage}}",
                image,
            )
        else:
            yield TALOS.passed(name, image)
        if machine.gpus:
            yield _driver(name, _address(machine), node, module, extensions.driver)


def restarts(stack: Stack, state: State) -> Iterator[Finding]:
    """Machines that restart again and again, as their kubelets tell."""
    for name in stack.members:
        count = state.reboots(name)
        if count < TOO_MANY:
            yield RESTARTS.passed(name, f"{count} in the last 15 minutes")
            continue
        yield RESTARTS.failed(
            name,
            f"it restarted {count} times in the last 15 minutes",
            "What runs on it ends each time, and its GPUs are gone until the operands are back.",
            "A machine with NVIDIA extensions and without a card does that: is the card in the VM?"
            " Otherwise look at talosctl dmesg, and at the host's memory.",
            "kubectl get events -n default --field-selector reason=Rebooted",
            f"{count} events for {name}",
        )


def _driver(
    name: str, address: str, node: Mapping[str, Any], module: str, driver: str | None
) -> Finding:
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
        "The machine was booted or upgraded with another schematic. Its machine configuration"
        f" names the right installer (machine.install.image): talosctl -n {address} upgrade --image"
        " INSTALLER",
        f"kubectl get node {name} -o json | jq .metadata.labels",
        others or "no Talos extensions",
    )


TOLERATED: Final = "nvidia.com/gpu"
"""Taint that operands and apps tolerate always."""
CORDONED: Final = "node.kubernetes.io/unschedulable"
KEEPS_OFF: Final = ("NoSchedule", "NoExecute")
OF_KUBERNETES: Final = "node.kubernetes.io/"
"""Prefix of taints that say what the check of the node says already."""


def taints(stack: Stack, state: State) -> Iterator[Finding]:
    """No taint of somebody else on a GPU node."""
    own = {TOLERATED, stack.gpu_taint.key if stack.gpu_taint else ""}
    for name in stack.gpu_nodes:
        node = state.nodes.get(name)
        if node is None:
            continue
        found = [one for one in node["spec"].get("taints") or () if one["effect"] in KEEPS_OFF]
        strange = [one for one in found if one["key"] not in own and not _said_elsewhere(one)]
        if not strange:
            yield TAINTS.passed(name, "open for the stack's pods")
            continue
        keys = ", ".join(f"{one['key']}:{one['effect']}" for one in strange)
        yield TAINTS.failed(
            name,
            f"it has the taint {keys}, and the stack knows nothing of it",
            "Neither the operator's operands nor the apps start there.",
            f"{'; '.join(_remove(name, one) for one in strange)}. One that is there on purpose"
            " belongs into the stack as gpuTaint: operands and apps tolerate that one.",
            f"kubectl get node {name} -o jsonpath={{.spec.taints}}",
            strange,
        )


def _said_elsewhere(taint: Mapping[str, Any]) -> bool:
    return str(taint["key"]).startswith(OF_KUBERNETES) and taint["key"] != CORDONED


def _remove(node: str, taint: Mapping[str, Any]) -> str:
    if taint["key"] == CORDONED:
        return f"kubectl uncordon {node}"
    return f"kubectl taint node {node} {taint['key']}:{taint['effect']}-"
