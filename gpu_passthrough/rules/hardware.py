"""VM ids and physical devices: each belongs to one VM, and is what it is called."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_passthrough import cards, tables
from gpu_passthrough.config import Gpu, Node, Stack
from gpu_passthrough.problems import Path, Problem

NVIDIA = "10de"


def _gpus(stack: Stack) -> Iterator[tuple[Path, str, Node, Gpu]]:
    for name, node in stack.nodes.items():
        for position, gpu in enumerate(node.gpus):
            yield ("nodes", name, "gpus", position), name, node, gpu


def duplicate_vm_ids(stack: Stack) -> Iterator[Problem]:
    """A VM id is unique in a Proxmox cluster, over all hosts."""
    seen: dict[int, str] = {}
    for name, node in stack.nodes.items():
        other = seen.setdefault(node.vm_id, name)
        if other != name:
            yield Problem(
                ("nodes", name, "vmId"),
                f"VM id {node.vm_id} belongs to {other} and to {name}.",
                why="A VM id is unique in a Proxmox cluster: the second VM cannot be created.",
                fix="Give one of them a free id.",
                also=(("nodes", other, "vmId"),),
            )


def duplicate_devices(stack: Stack) -> Iterator[Problem]:
    """A physical device belongs to one VM."""
    seen: dict[tuple[str, str], tuple[Path, str]] = {}
    for path, name, node, gpu in _gpus(stack):
        device = (node.host, gpu.path)
        if device not in seen:
            seen[device] = ((*path, "path"), name)
            continue
        other_path, other = seen[device]
        who = f"{other} twice" if other == name else f"{other} and {name}"
        yield Problem(
            (*path, "path"),
            f"Device {gpu.path} of host {node.host} ({gpu.card}) is claimed by {who}.",
            why="A device belongs to one running VM: the second one does not start.",
            fix="Give each VM a device of its own.",
            also=(other_path,),
        )


def shared_groups(stack: Stack) -> Iterator[Problem]:
    """An IOMMU group goes to one VM as a whole."""
    seen: dict[tuple[str, int], tuple[Path, str, Gpu]] = {}
    for path, name, node, gpu in _gpus(stack):
        other_path, other, card = seen.setdefault(
            (node.host, gpu.iommu_group), ((*path, "iommuGroup"), name, gpu)
        )
        if other != name and card.path != gpu.path:
            yield Problem(
                (*path, "iommuGroup"),
                f"IOMMU group {gpu.iommu_group} of host {node.host} is given to {other}"
                f" ({card.path}) and to {name} ({gpu.path}).",
                why="Proxmox takes the whole group for the first VM that starts; the second one"
                " does not start.",
                fix="Put both cards into one VM, or one of them into another slot.",
                also=(other_path,),
            )


def unknown_cards(stack: Stack) -> Iterator[Problem]:
    """Every card is in the catalogue."""
    for top, members in (("nodes", stack.nodes), ("machines", stack.machines)):
        for name, machine in members.items():
            for position, gpu in enumerate(machine.gpus):
                if cards.find(gpu.card) is None:
                    yield _unknown((top, name, "gpus", position, "card"), gpu.card, gpu)


def _unknown(path: Path, name: str, gpu: object) -> Problem:
    by_id = [card.name for card in cards.of_device(gpu.id)] if isinstance(gpu, Gpu) else []
    names = by_id or cards.near(name)
    told = f"The PCI id is that of: {', '.join(by_id)}. " if by_id else ""
    meant = (
        f"Did you mean {' or '.join(repr(one) for one in names)}?"
        if names
        else ("The catalogue has NVIDIA's cards from Maxwell to Blackwell.")
    )
    return Problem(
        path,
        f"{name!r} is not a card of the catalogue.",
        why="Kernel modules, driver and labels follow from the card; they cannot be guessed.",
        fix=told + meant,
    )


def mismatched_ids(stack: Stack) -> Iterator[Problem]:
    """The PCI id is that of the card."""
    for path, name, _, gpu in _gpus(stack):
        card = cards.find(gpu.card)
        vendor, _, device = gpu.id.partition(":")
        others = cards.of_device(gpu.id)
        if card is None or (device in card.pci_ids and vendor == NVIDIA):
            continue
        if (kind := _companion(device)) and vendor == NVIDIA:
            text = f"{gpu.id} in {name} is the id of a card's {kind} function, not of the GPU."
        elif vendor != NVIDIA:
            text = f"{gpu.id} of {gpu.card} in {name} is not a device of NVIDIA ({NVIDIA})."
        elif others:
            text = f"{gpu.id} is {others[0].name}, but {name} calls it {gpu.card}."
        else:
            continue
        yield Problem(
            (*path, "id"),
            text,
            why="Proxmox compares the id at every start; a wrong card is checked as another one.",
            fix="Give the id of the card's function 0; lspci -nn on the host shows it.",
            also=((*path, "card"),),
        )


def _companion(device: str) -> str | None:
    """What a function beside the GPU is, such as audio; None for other devices."""
    kinds = {row["device"]: row["kind"] for row in tables.rows("companions")}
    return kinds.get(device)


def mapping_names(stack: Stack) -> Iterator[Problem]:
    """A node with cards has a name that Proxmox takes for their mappings (PVE, pve-configid)."""
    for name, node in stack.nodes.items():
        if node.gpus and not name[0].isalpha():
            yield Problem(
                ("nodes", name),
                f"Node {name} has cards, and its name does not begin with a letter.",
                why="Its resource mappings are called after it, and Proxmox takes only names that"
                " begin with a letter.",
                fix=f"Call it node-{name}, for example.",
            )


def unscheduled_cards(stack: Stack) -> Iterator[Problem]:
    """Cards are on nodes where the operator's operands may run (NVIDIA/gpu-operator#26)."""
    if stack.cluster is None:
        return
    for name, machine in stack.gpu_nodes.items():
        if machine.role == "controlplane" and not stack.cluster.schedule_on_control_planes:
            top = "nodes" if stack.nodes else "machines"
            yield Problem(
                (top, name, "gpus"),
                f"Node {name} has cards, and pods do not run on control plane nodes.",
                why="The operator's operands do not tolerate the control plane's taint, so the"
                " cards are never offered, and the stack would wait for them in vain.",
                fix="Set cluster.scheduleOnControlPlanes: true, or move the cards to a worker.",
                also=(("cluster", "scheduleOnControlPlanes"),),
            )
