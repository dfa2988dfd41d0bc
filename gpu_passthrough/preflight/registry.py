"""The checks in their order: from the way in to the machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from gpu_passthrough.checks.finding import Layer
from gpu_passthrough.preflight import access, devices, resources
from gpu_passthrough.preflight.findings import Check

Work = Callable[[Check], Iterator[None]]


@dataclass(frozen=True)
class Entry:
    """One check."""

    title: str
    layer: Layer
    work: Work


CHECKS: Final[dict[str, Entry]] = {
    "version": Entry("The API is a Proxmox VE that has what is needed", "api", access.version),
    "token": Entry("The API accepts the token", "api", access.token),
    "permissions": Entry("The token may do what the program does", "api", access.permissions),
    "host": Entry("The host exists and is online", "host", access.hosts),
    "iommu": Entry("The host's IOMMU is on", "host", devices.iommu),
    "device": Entry("The card is where the stack says", "host", devices.present),
    "iommu-group": Entry("The card is alone in its IOMMU group", "host", devices.groups),
    "device-free": Entry("No other VM has the card", "host", devices.free),
    "mapping": Entry("The PCI mapping agrees with the card", "host", devices.mappings),
    "storage": Entry("The storage takes what is put into it", "host", resources.storages),
    "space": Entry("The storage has room", "host", resources.space),
    "memory": Entry("The host has the memory", "host", resources.memory),
    "processors": Entry("The host has the processors", "host", resources.processors),
    "bridge": Entry("The bridge is there", "host", resources.bridges),
    "vm-id": Entry("The VM's id is free or the stack's own", "vm", resources.vm_ids),
    "address": Entry("Nobody else has the address", "vm", resources.addresses),
    "host-driver": Entry("No driver of the host holds the card", "host", resources.host_drivers),
}
"""By id; ids are stable, because people write them into scripts."""
