"""The least-privilege role: what the program and these checks need, and why.

Privileges: pveum(1) and the API viewer of Proxmox VE; the provider's notes on download-url.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

ROLE: Final = "GpuPassthrough"
USER: Final = "pulumi@pve"
TOKEN_NAME: Final = "gpu-passthrough"  # noqa: S105 - a name


@dataclass(frozen=True)
class Need:
    """Privileges that are needed on a path."""

    path: str
    privileges: tuple[str, ...]
    why: str


NEEDS: Final = (
    Need("/", ("Sys.Audit",), "to read devices, IOMMU groups and mappings, and to download images"),
    Need("/nodes", ("Sys.Audit",), "to read the hosts' memory and network"),
    Need("/nodes", ("Sys.AccessNetwork",), "to let a host download the boot image"),
    Need("/mapping/pci", ("Mapping.Audit", "Mapping.Modify", "Mapping.Use"), "for PCI mappings"),
    Need(
        "/storage",
        ("Datastore.Audit", "Datastore.AllocateSpace", "Datastore.AllocateTemplate"),
        "for boot images and disks",
    ),
    Need("/storage", ("Datastore.Allocate",), "to delete boot images"),
    Need("/sdn/zones", ("SDN.Use",), "to put network cards on a bridge"),
    Need(
        "/vms",
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
    ),
)


def privileges() -> list[str]:
    """Every privilege of the role."""
    return sorted({one for need in NEEDS for one in need.privileges})


def commands() -> str:
    """What a person runs as root on a host, to make role, user and token."""
    return "\n".join(
        (
            f'pveum role add {ROLE} --privs "{" ".join(privileges())}"',
            f"pveum user add {USER}",
            f"pveum acl modify / --users {USER} --roles {ROLE}",
            f"pveum user token add {USER} {TOKEN_NAME} --privsep 0",
        )
    )


def missing(permissions: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[Need, list[str]]]:
    """What a token lacks, need by need.

    Args:
        permissions: path to privileges, as /access/permissions lists them.
    """
    for need in NEEDS:
        held = _held(permissions, need.path)
        if lacking := [one for one in need.privileges if one not in held]:
            yield need, lacking


def _held(permissions: Mapping[str, Mapping[str, Any]], path: str) -> set[str]:
    """Privileges on a path: its own, or those that the nearest listed path above hands down."""
    if path in permissions:
        return set(permissions[path])
    steps = path.strip("/").split("/")
    for length in range(len(steps) - 1, -1, -1):
        above = "/" + "/".join(steps[:length])
        if above in permissions:
            return {name for name, propagates in permissions[above].items() if propagates}
    return set()
