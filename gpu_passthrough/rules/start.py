"""Where the chain starts, and what that start needs."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_passthrough.config import Stack
from gpu_passthrough.problems import Problem

NEEDS = {
    "hardware": ("proxmox", "cluster", "nodes"),
    "vms": ("cluster", "machines"),
    "talos": ("talos", "cluster", "machines"),
    "kubernetes": ("kubernetes",),
}
ALLOWED = {
    "hardware": ("proxmox", "cluster", "nodes"),
    "vms": ("cluster", "machines"),
    "talos": ("talos", "cluster", "machines"),
    "kubernetes": ("kubernetes", "cluster", "machines"),
}
MEANS = {
    "hardware": "The stack builds the VMs itself",
    "vms": "The stack starts at VMs that exist, because it has machines and no proxmox",
    "talos": "The stack starts at a Talos cluster that exists, because it has talos",
    "kubernetes": "The stack starts at a Kubernetes cluster that exists, because it has kubernetes",
}
DECIDES = {"hardware": "nodes", "vms": "machines", "talos": "talos", "kubernetes": "kubernetes"}
"""The section from which the start follows."""
STARTS = (
    "proxmox and nodes build VMs; machines are VMs that exist; talos is a Talos cluster that"
    " exists; kubernetes is any cluster with a kubeconfig."
)


def _given(stack: Stack) -> list[str]:
    sections = ("proxmox", "cluster", "nodes", "machines", "talos", "kubernetes")
    return [name for name in sections if getattr(stack, name)]


def sections(stack: Stack) -> Iterator[Problem]:
    """The sections that the start needs are there, and no others."""
    start, given = stack.starts_at, _given(stack)
    for name in NEEDS[start]:
        if name not in given:
            text = f"{MEANS[start]}, so it needs {name}."
            yield Problem((name,), text, why=STARTS, fix=f"Add {name}.")
    for name in given:
        if name not in ALLOWED[start]:
            text = f"{MEANS[start]}; {name} does not belong to it."
            yield Problem(
                (name,), text, why=STARTS, fix="Remove one of the two.", also=((DECIDES[start],),)
            )


def addresses(stack: Stack) -> Iterator[Problem]:
    """Talos is reached at an address: a machine that exists has one already."""
    if stack.starts_at not in {"vms", "talos"}:
        return
    for name, machine in stack.machines.items():
        if machine.address is None:
            yield Problem(
                ("machines", name, "address"),
                f"Machine {name} has no address.",
                why="Its configuration is delivered there. The address has to be set already, by"
                " nocloud network data or a reservation.",
                fix="Add the address where Talos answers.",
            )
