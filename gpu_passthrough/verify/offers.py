"""What the cluster offers to pods: GPUs, their labels, and the RuntimeClass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpu_passthrough import cards, compatibility, gfd
from gpu_passthrough.checks.finding import Finding
from gpu_passthrough.config import Stack
from gpu_passthrough.verify.check import Check
from gpu_passthrough.verify.state import State, allocatable

ALLOCATABLE: Final = Check("allocatable", "The node offers its GPUs to pods", "operator")
LABELS: Final = Check("labels", "The node's labels describe its card", "operator")
CLASS: Final = Check("runtime-class", "The RuntimeClass names the right handler", "runtime-class")


def gpus(stack: Stack, state: State) -> Iterator[Finding]:
    """What each node offers, and how it is described."""
    slots = stack.slots_per_card
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
    sharing = stack.gpu_operator.sharing
    renamed = bool(sharing and sharing.rename)
    wanted = gfd.labels(card, len(kinds), gfd=version, slots=slots, renamed=renamed)
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
