"""A Proxmox VE host: its PCI bus, IOMMU, memory, network bridges and storages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pydantic import BaseModel

from rack.world.errors import Refused
from rack.world.pci import HIDDEN_CLASSES, PciFunction
from rack.world.storage import Storage, Volume, split_volume_id

VFIO: Final = "vfio-pci"
_HOST_NEEDS: Final = {"0x02": "network card", "0x01": "disk controller"}
"""Classes of functions that the host itself cannot do without."""


class Host(BaseModel):
    """One host. `functions` is the hardware; what the kernel did with it is beside it."""

    name: str
    address: str = "127.0.0.1"
    memory_mib: int
    cpus: int = 16
    cpu_model: str = "AMD Ryzen 9 5950X 16-Core Processor"
    bridges: list[str] = ["vmbr0"]
    nameservers: list[str] = ["127.0.0.254"]
    """The host's own resolvers: guests without any get these."""
    iommu: bool = True
    """Switched on in firmware and kernel."""
    functions: list[PciFunction] = []
    taken: dict[str, str] = {}
    """Address of a function → the driver that took it from the host's; empty after a boot."""
    storages: dict[str, Storage] = {}
    booted_at: float = 0.0
    """Unix time."""

    def function(self, address: str) -> PciFunction | None:
        """The function at a full address."""
        return next((f for f in self.functions if f.address == address), None)

    def at(self, address: str) -> list[PciFunction]:
        """Functions whose address begins so, as `lspci` filters: a card without its function."""
        full = address if len(address.split(":")[0]) == 4 else f"0000:{address}"
        found = [f for f in self.functions if f.address.startswith(full)]
        return sorted(found, key=lambda f: f.address)

    def group_of(self, function: PciFunction) -> int:
        """IOMMU group as sysfs shows it: -1 while the IOMMU is off."""
        return function.iommu_group if self.iommu else -1

    def group_members(self, function: PciFunction) -> list[PciFunction]:
        """All functions of a function's IOMMU group that can be taken: bridges stay."""
        group = self.group_of(function)
        members = [f for f in self.functions if self.group_of(f) == group and not f.is_bridge]
        return members if group >= 0 else [function]

    def driver_of(self, function: PciFunction) -> str:
        """Kernel driver bound to a function now; empty for none."""
        return self.taken.get(function.address, function.driver)

    def bind_group(self, function: PciFunction) -> None:
        """Take a function's whole IOMMU group from the host's drivers for vfio.

        Raises:
            Refused: there is no IOMMU.
        """
        if not self.iommu:
            raise Refused("cannot prepare PCI pass-through, IOMMU not present\n")
        for member in self.group_members(function):
            self.taken[member.address] = VFIO

    @property
    def losses(self) -> list[str]:
        """What the host itself lost to passthrough, for example its network card."""
        found = []
        for address in sorted(self.taken):
            function = self.function(address)
            need = _HOST_NEEDS.get(function.device_class[:4]) if function else None
            if function and need and function.driver:
                found.append(f"{need} {address} ({function.driver})")
        return found

    def boot(self, now: float) -> None:
        """Power-cycle: every function is back with its own driver."""
        self.taken = {}
        self.booted_at = now

    def move(self, slot: str, new: str) -> None:
        """Give a card another address, as a board does when something was put in or taken out."""
        self.functions = [
            f.model_copy(update={"address": f"{new}.{f.function}", "origin": f.card})
            if f.slot == slot
            else f
            for f in self.functions
        ]

    def listed(self, hidden_classes: tuple[str, ...] = HIDDEN_CLASSES) -> list[PciFunction]:
        """Functions as `hardware/pci` lists them, by address, without some classes."""
        shown = [f for f in self.functions if not f.device_class[2:].startswith(hidden_classes)]
        return sorted(shown if hidden_classes else self.functions, key=lambda f: f.address)

    def storage(self, name: str) -> Storage:
        """A storage by its name.

        Raises:
            Refused: there is none.
        """
        if name not in self.storages:
            raise Refused(f"storage '{name}' does not exist\n")
        return self.storages[name]

    def volume(self, volume_id: str) -> Volume | None:
        """A stored file or disk by its name, `storage:path`."""
        name = split_volume_id(volume_id)[0]
        return self.storages[name].volumes.get(volume_id) if name in self.storages else None

    def volumes_of(self, vmid: int) -> Iterator[Volume]:
        """Disks that belong to a VM, referenced or not."""
        for storage in self.storages.values():
            yield from (v for v in list(storage.volumes.values()) if v.vmid == vmid)

    def free(self, volume_id: str) -> None:
        """Remove a volume; nothing to do where it is gone already."""
        name = split_volume_id(volume_id)[0]
        if name in self.storages:
            self.storages[name].volumes.pop(volume_id, None)
