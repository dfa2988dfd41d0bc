"""What became of a resource that was being created when the engine ended.

The engine cannot know. Who can is asked: Proxmox VE for what lives there, the Kubernetes API for
what lives in the cluster. What exists is taken into the state under its own id, what does not
exist is forgotten and made by the next update.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Inputs = Mapping[str, Any]


@dataclass(frozen=True)
class Pending:
    """An operation that the state says was under way."""

    urn: str
    type: str
    kind: str
    """creating, updating, deleting, …"""
    inputs: Inputs

    @property
    def name(self) -> str:
        """Type and name, short enough for a line."""
        return f"{self.type.rpartition(':')[2]} {self.urn.rpartition('::')[2]}"


@dataclass(frozen=True)
class Verdict:
    """What becomes of a pending operation."""

    pending: Pending
    found: str = ""
    """The existing thing's id; empty where there is none."""
    why: str = ""
    """What was asked and answered, in words."""
    is_read: bool = False
    """The state has the thing, and what it says is read anew."""
    is_clear: bool = True
    """It is known what to do; otherwise `why` says what keeps it open."""


class Proxmox(Protocol):
    """What is asked of Proxmox VE."""

    def vm(self, node: str, vmid: int) -> Mapping[str, Any] | None:
        """Status of a VM on a host; None where there is none. `lock` is set while it changes."""

    def mapping(self, name: str) -> bool:
        """Whether a PCI mapping of that name exists."""

    def volume(self, node: str, storage: str, volume: str) -> bool:
        """Whether a storage holds a volume."""


class Kubernetes(Protocol):
    """What is asked of the cluster."""

    def answers(self) -> bool:
        """Whether the API server is there."""

    def exists(self, api_version: str, kind: str, namespace: str, name: str) -> bool:
        """Whether an object exists."""

    def release(self, namespace: str, name: str) -> str:
        """Status of a Helm release's newest revision; empty where there is none."""


@dataclass(frozen=True)
class World:
    """Everyone who can be asked; None where the stack has no such layer or it cannot be reached."""

    proxmox: Proxmox | None
    kubernetes: Kubernetes | None


def pending_operations(exported: Mapping[str, Any]) -> list[Pending]:
    """The pending operations of an exported state."""
    operations = exported["deployment"].get("pending_operations") or []
    return [
        Pending(
            urn=one["resource"]["urn"],
            type=one["resource"]["type"],
            kind=one["type"],
            inputs=one["resource"].get("inputs") or {},
        )
        for one in operations
    ]


def judge(pending: Pending, world: World) -> Verdict:
    """Find out what became of an operation."""
    if pending.kind != "creating":
        return _begun(pending, world)
    if pending.type.startswith("kubernetes:"):
        return _kubernetes(pending, world)
    return _FINDERS.get(pending.type, _repeatable)(pending, world)


def _begun(pending: Pending, world: World) -> Verdict:
    """A change or a deletion may be over or not: who has the thing says what it is now."""
    if pending.type.startswith("kubernetes:") and world.kubernetes is None:
        return Verdict(pending, why=f"{pending.kind}; its cluster does not answer")
    return Verdict(pending, is_read=True, why=f"{pending.kind}, and read anew")


def _repeatable(pending: Pending, world: World) -> Verdict:
    return Verdict(pending, why="making it once more gives the same")


def _vm(pending: Pending, world: World) -> Verdict:
    node, vmid = str(pending.inputs["nodeName"]), int(pending.inputs["vmId"])
    if world.proxmox is None:
        return _unasked(pending, "Proxmox VE")
    found = world.proxmox.vm(node, vmid)
    if found is None:
        return Verdict(pending, why=f"host {node} has no VM {vmid}")
    if found.get("lock"):
        why = (
            f"VM {vmid} on {node} is locked ({found['lock']}): its creation goes on, or broke off."
            f" Wait for its task, or remove what is left: qm unlock {vmid} && qm destroy {vmid}"
        )
        return Verdict(pending, why=why, is_clear=False)
    wanted = pending.inputs.get("name")
    if wanted and found.get("name") != wanted:
        why = (
            f"VM {vmid} on {node} is called {found.get('name')}, not {wanted}: it is somebody"
            " else's. Give the node another vmId"
        )
        return Verdict(pending, why=why, is_clear=False)
    return Verdict(pending, found=str(vmid), why=f"VM {vmid} exists on {node}")


def _mapping(pending: Pending, world: World) -> Verdict:
    name = str(pending.inputs["name"])
    if world.proxmox is None:
        return _unasked(pending, "Proxmox VE")
    there = world.proxmox.mapping(name)
    why = f"the PCI mapping {name} {'exists' if there else 'does not exist'}"
    return Verdict(pending, found=name if there else "", why=why)


def _file(pending: Pending, world: World) -> Verdict:
    inputs = pending.inputs
    node, storage = str(inputs["nodeName"]), str(inputs["datastoreId"])
    volume = f"{storage}:{inputs['contentType']}/{inputs['fileName']}"
    if world.proxmox is None:
        return _unasked(pending, "Proxmox VE")
    there = world.proxmox.volume(node, storage, volume)
    why = f"{volume} {'exists' if there else 'does not exist'} on {node}"
    return Verdict(pending, found=volume if there else "", why=why)


def _bootstrap(pending: Pending, world: World) -> Verdict:
    """A second bootstrap would be refused until its time is over."""
    if world.kubernetes is not None and world.kubernetes.answers():
        why = "the Kubernetes API answers, so the cluster was bootstrapped"
        return Verdict(pending, found="machine_bootstrap", why=why)
    return Verdict(pending, why="no Kubernetes API answers, so it is bootstrapped once more")


_CLEARED_KINDS = {
    "RuntimeClassPatch": "a patch is applied once more",
}


def _kubernetes(pending: Pending, world: World) -> Verdict:
    kind = pending.type.rpartition(":")[2]
    if kind in _CLEARED_KINDS:
        return Verdict(pending, why=_CLEARED_KINDS[kind])
    if world.kubernetes is None:
        return _unasked(pending, "the Kubernetes API")
    if kind == "Release":
        return _release(pending, world.kubernetes)
    metadata = pending.inputs.get("metadata") or {}
    namespace, name = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
    version = str(pending.inputs.get("apiVersion", ""))
    path = f"{namespace}/{name}" if namespace else name
    if not name or not world.kubernetes.exists(version, kind, namespace, name):
        return Verdict(pending, why=f"{kind} {path} does not exist")
    return Verdict(pending, found=path, why=f"{kind} {path} exists")


def _release(pending: Pending, kubernetes: Kubernetes) -> Verdict:
    inputs = pending.inputs
    namespace, name = str(inputs.get("namespace", "default")), str(inputs.get("name", ""))
    status = kubernetes.release(namespace, name)
    if status == "deployed":
        return Verdict(pending, found=f"{namespace}/{name}", why=f"the release {name} is deployed")
    text = f"the release {name} is {status}" if status else f"there is no release {name}"
    return Verdict(pending, why=text)


def _unasked(pending: Pending, whom: str) -> Verdict:
    return Verdict(pending, why=f"{whom} cannot be asked about it", is_clear=False)


Finder = Callable[[Pending, World], Verdict]

_FINDERS: dict[str, Finder] = {
    "proxmoxve:index/vmLegacy:VmLegacy": _vm,
    "proxmoxve:hardware/mapping/pci:Pci": _mapping,
    "proxmoxve:download/file:File": _file,
    "talos:machine/bootstrap:Bootstrap": _bootstrap,
}
"""Types whose creation must not be repeated blindly."""

ON_THE_HOST = tuple(kind for kind in _FINDERS if kind.startswith("proxmoxve:"))
"""What can exist on the host though no state knows of it: its plugin ended before it answered."""
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""What stands in a plan for a value that is not known yet."""


def strays(planned: Iterable[Mapping[str, Any]]) -> list[Pending]:
    """What a plan would create on the host, and what may be there already."""
    return [
        Pending(one["urn"], one["type"], "creating", one.get("inputs") or {})
        for one in planned
        if one["type"] in ON_THE_HOST and UNKNOWN not in json.dumps(one.get("inputs"))
    ]
