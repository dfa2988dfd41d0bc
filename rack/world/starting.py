"""What Proxmox VE checks when a VM starts, and what the start takes from the host.

Messages are qemu-server's (PCI.pm, QemuServer.pm). All of it happens in the start's task: the
request itself was answered with success before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rack.world.errors import Refused
from rack.world.host import Host
from rack.world.mapping import PciMapping
from rack.world.pci import PciFunction
from rack.world.propertystring import is_true
from rack.world.qemu import Vm
from rack.world.vmoptions import DRIVE

_Q35_MISSING: Final = (
    "q35 machine model is not enabled at /usr/share/perl5/PVE/QemuServer/PCI.pm line 499.\n"
)
_QEMU_FAILED: Final = "start failed: QEMU exited with code 1\n"


class Starter:
    """One start of a VM among the others of its host."""

    def __init__(
        self, vm: Vm, host: Host, others: Iterable[Vm], mappings: dict[str, PciMapping]
    ) -> None:
        self._vm = vm
        self._host = host
        self._others = [other for other in others if other.vmid != vm.vmid and other.is_running]
        self._mappings = mappings
        self.log: list[str] = []
        """Lines of the task's log besides the error."""

    def check(self) -> list[PciFunction]:
        """Check everything and return the PCI functions that the VM will hold.

        Raises:
            Refused: with what the task's log shows.
        """
        self._check_volumes()
        self._check_processors()
        functions = self._choose()
        self._check_free(functions)
        self._check_groups(functions)
        self._check_bridges()
        self._check_memory(bool(functions))
        return functions

    def _check_volumes(self) -> None:
        for drive in self._vm.drives().values():
            volume = drive.get("file", "")
            if ":" in volume and self._host.volume(volume) is None:
                storage = volume.partition(":")[0]
                self._host.storage(storage)
                raise Refused(f"volume '{volume}' does not exist\n")

    def _check_processors(self) -> None:
        if self._vm.cpus > self._host.cpus:
            raise Refused(f"MAX {self._host.cpus} vcpus allowed per VM on this node\n")

    def _check_bridges(self) -> None:
        for _, card in self._vm.networks():
            bridge = card.get("bridge")
            if bridge and bridge not in self._host.bridges:
                raise Refused(f"bridge '{bridge}' does not exist\n")

    def _choose(self) -> list[PciFunction]:
        """Pick a device for each passthrough option: a mapping may offer several."""
        chosen: list[PciFunction] = []
        parsed = [(name, self._alternatives(device)) for name, device in self._vm.hostpci()]
        for name, alternatives in parsed:
            if len(alternatives) == 1:
                _add_once(chosen, alternatives[0])
                continue
            free = [a for a in alternatives if not self._holder(a) and not set(a) & set(chosen)]
            if not free:
                raise Refused(f"could not find a free device for '{name}'\n")
            chosen += free[0]
        return chosen

    def _alternatives(self, device: dict[str, str]) -> list[list[PciFunction]]:
        """The devices that an option may mean, each with its functions."""
        if "host" in device and "mapping" in device:
            raise Refused("Cannot set both 'host' and 'mapping'.\n")
        if "mapping" in device:
            choices = self._of_mapping(device["mapping"])
        elif "host" in device:
            choices = [device["host"].split(";")]
        else:
            raise Refused("Either 'host' or 'mapping' must be set.\n")
        found = [[f for path in choice for f in self._at(path)] for choice in choices]
        if is_true(device.get("pcie")) and not self._vm.is_q35:
            raise Refused(_Q35_MISSING)
        return found

    def _of_mapping(self, name: str) -> list[list[str]]:
        mapping = self._mappings.get(name)
        entries = mapping.entries(self._host.name) if mapping else []
        if mapping is None or not entries:
            raise Refused(f"PCI device mapping not found for '{name}'\n")
        for entry in entries:
            try:
                mapping.assert_valid(name, entry, self._host)
            except Refused as problem:
                raise Refused(
                    "PCI device mapping invalid (hardware probably changed): " + problem.message
                ) from None
        return [entry["path"].split(";") for entry in entries]

    def _at(self, path: str) -> list[PciFunction]:
        found = self._host.at(path)
        if not found:
            raise Refused(f"no PCI device found for '{path}'\n")
        return found

    def _holder(self, functions: Iterable[PciFunction]) -> tuple[str, int] | None:
        """The first function that a running VM holds, and that VM."""
        for function in functions:
            for other in self._others:
                if function.address in other.passed:
                    return function.address, other.vmid
        return None

    def _check_free(self, functions: list[PciFunction]) -> None:
        if held := self._holder(functions):
            raise Refused(f"PCI device '{held[0]}' already in use by VMID '{held[1]}'\n")
        if functions and not self._host.iommu:
            raise Refused("cannot prepare PCI pass-through, IOMMU not present\n")

    def _check_groups(self, functions: list[PciFunction]) -> None:
        """A group is open for one VM only: QEMU fails where another holds a member of it."""
        for function in functions:
            if function.is_bridge:
                raise Refused(f"Cannot bind {function.address} to vfio\n")
            if self._holder(self._host.group_members(function)):
                group = self._host.group_of(function)
                self.log.append(
                    f"kvm: -device vfio-pci,host={function.address}: vfio {function.address}: "
                    f"failed to open /dev/vfio/{group}: Device or resource busy"
                )
                raise Refused(_QEMU_FAILED)

    def _check_memory(self, passthrough: bool) -> None:
        """Guest memory must fit: with passthrough all of it is pinned when the VM starts."""
        pinned = sum(vm.memory_mib for vm in self._others) if passthrough else 0
        if pinned + self._vm.memory_mib > self._host.memory_mib:
            self.log.append("kvm: cannot set up guest memory 'pc.ram': Cannot allocate memory")
            raise Refused(_QEMU_FAILED)


def _add_once(chosen: list[PciFunction], functions: list[PciFunction]) -> None:
    for function in functions:
        if function in chosen:
            raise Refused(f"device '{function.address}' assigned more than once\n")
        chosen.append(function)


def warnings(vm: Vm) -> list[str]:
    """Lines that PVE writes into the log of a start that goes well all the same."""
    efi = DRIVE.parse(vm.config.get("efidisk0", ""))
    if vm.config.get("bios") == "ovmf" and not efi:
        return ["WARN: no efidisk configured! Using temporary efivars disk."]
    return []
