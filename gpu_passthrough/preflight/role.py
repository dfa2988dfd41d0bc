"""The least-privilege role: what the program and these checks need, where, and why.

Privileges: pveum(1) and the API viewer of Proxmox VE; the provider's notes on download-url.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

from gpu_passthrough.config import Proxmox, Stack

ROLE: Final = "GpuPassthrough"
USER: Final = "pulumi@pve"
TOKEN_NAME: Final = "gpu-passthrough"  # noqa: S105 - a name
SHOWN_PATHS: Final = 4
"""Paths of one kind that a message names; a fleet has thousands."""

Paths = Callable[[Stack, Proxmox], list[str]]


@dataclass(frozen=True)
class Need:
    """Privileges that are needed on paths of one kind."""

    kind: str
    """Ends the name of the role that holds no more than this."""
    privileges: tuple[str, ...]
    why: str
    paths: Paths
    """Where a stack needs them."""
    propagates: bool = True
    """Whether the paths below need them as well."""


def _hosts(stack: Stack, site: Proxmox) -> list[str]:
    return sorted({f"/nodes/{node.host}" for node in stack.nodes.values()})


def _mappings(stack: Stack, site: Proxmox) -> list[str]:
    return ["/mapping/pci"] if any(node.gpus for node in stack.nodes.values()) else []


def _bridge(stack: Stack, site: Proxmox) -> list[str]:
    network = site.network
    path = f"/sdn/zones/localnetwork/{network.bridge}"
    return [f"{path}/{network.vlan}" if network.vlan else path]


def _vms(stack: Stack, site: Proxmox) -> list[str]:
    return [f"/vms/{vm_id}" for vm_id in sorted(node.vm_id for node in stack.nodes.values())]


BRIDGE: Final = Need("Bridge", ("SDN.Use",), "to put network cards on a bridge", _bridge)
NEEDS: Final = (
    Need(
        "Devices",
        ("Sys.Audit",),
        "to read PCI devices and IOMMU groups",
        lambda stack, site: ["/"],
        propagates=False,
    ),
    Need(
        "Host",
        ("Sys.AccessNetwork", "Sys.Audit"),
        "to let a host download the boot image, and to read its memory",
        _hosts,
    ),
    Need(
        "Mappings",
        ("Mapping.Audit", "Mapping.Modify", "Mapping.Use"),
        "to make PCI mappings and give them to VMs",
        _mappings,
    ),
    Need(
        "Images",
        (
            "Datastore.Allocate",
            "Datastore.AllocateSpace",
            "Datastore.AllocateTemplate",
            "Datastore.Audit",
        ),
        "to store boot images and delete them",
        lambda stack, site: [f"/storage/{site.image_datastore}"],
    ),
    Need(
        "Disks",
        ("Datastore.AllocateSpace", "Datastore.Audit"),
        "to make disks",
        lambda stack, site: [f"/storage/{site.disk_datastore}"],
    ),
    BRIDGE,
    Need(
        "Vms",
        (
            "VM.Allocate",
            "VM.Audit",
            "VM.Config.CDROM",
            "VM.Config.CPU",
            "VM.Config.Cloudinit",
            "VM.Config.Disk",
            "VM.Config.HWType",
            "VM.Config.Memory",
            "VM.Config.Network",
            "VM.Config.Options",
            "VM.PowerMgmt",
        ),
        "to create, change, start and stop the VMs",
        _vms,
    ),
)


def privileges() -> list[str]:
    """Every privilege of the role."""
    return sorted({one for need in NEEDS for one in need.privileges})


def _role(name: str, held: Collection[str]) -> str:
    return f'pveum role add {name} --privs "{" ".join(sorted(held))}"'


def _user() -> list[str]:
    return [f"pveum user add {USER}"]


def _token() -> list[str]:
    return [f"pveum user token add {USER} {TOKEN_NAME} --privsep 0"]


def commands() -> str:
    """What a person runs as root on a host, to make role, user and token for any stack."""
    everywhere = f"pveum acl modify / --users {USER} --roles {ROLE}"
    return "\n".join((_role(ROLE, privileges()), *_user(), everywhere, *_token()))


@dataclass(frozen=True)
class Grant:
    """A role on a path."""

    path: str
    role: str
    propagates: bool


def grants(stack: Stack, site: Proxmox) -> tuple[dict[str, frozenset[str]], list[Grant]]:
    """The roles that a stack needs, by name, and where: on its own paths and nowhere else.

    An entry replaces what its path inherits, so that each holds all that is needed there. A path
    with several needs, such as a storage of both disks and images, gets each of their roles.
    """
    wanted = [(need, need.paths(stack, site)) for need in NEEDS]
    roles = {f"{ROLE}{need.kind}": frozenset(need.privileges) for need, paths in wanted if paths}
    found = [
        Grant(path, f"{ROLE}{need.kind}", need.propagates)
        for need, paths in wanted
        for path in paths
    ]
    return roles, found


def narrow_commands(stack: Stack, site: Proxmox) -> str:
    """What a person runs as root on a host, for a token that reaches nothing but this stack."""
    roles, found = grants(stack, site)
    lines = [_role(name, held) for name, held in roles.items()]
    acl = [
        f"pveum acl modify {one.path} --users {USER} --roles {one.role}"
        + ("" if one.propagates else " --propagate 0")
        for one in found
    ]
    return "\n".join((*lines, *_user(), *acl, *_token()))


@dataclass(frozen=True)
class Lack:
    """Privileges that a token lacks on paths of one kind."""

    need: Need
    privileges: tuple[str, ...]
    paths: tuple[str, ...]

    def __str__(self) -> str:
        more = len(self.paths) - SHOWN_PATHS
        paths = ", ".join(self.paths[:SHOWN_PATHS]) + (f" and {more} more" if more > 0 else "")
        return f"{', '.join(self.privileges)} on {paths} ({self.need.why})"


def missing(stack: Stack, site: Proxmox, held: Callable[[str], Collection[str]]) -> Iterator[Lack]:
    """What a token lacks, need by need.

    Args:
        stack: what is to be built.
        site: where.
        held: the privileges that Proxmox VE itself computes for a path.
    """
    for need in NEEDS:
        lacking: dict[tuple[str, ...], list[str]] = {}
        for path in need.paths(stack, site):
            have = held(path)
            if gone := tuple(one for one in need.privileges if one not in have):
                lacking.setdefault(gone, []).append(path)
        for gone, paths in lacking.items():
            yield Lack(need, gone, tuple(paths))
