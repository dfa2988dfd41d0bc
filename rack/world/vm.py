"""A virtual machine of Proxmox VE and the hardware that its guest sees."""

from __future__ import annotations

from typing import Literal

from rack.world.nodefacts import Frozen


class VmHardware(Frozen):
    """What the guest of a running VM finds, apart from passed-through PCI functions."""

    vmid: int
    name: str
    """The VM's name; nocloud data makes it the guest's hostname."""
    node: str = ""
    """The host that it runs on."""
    cpus: int
    memory_mib: int
    bios: Literal["seabios", "ovmf"] = "seabios"
    machine: str = "pc"
    """PVE's machine type, for example `pc` or `q35`."""
    cpu_type: str = "kvm64"
    """For example `host`; only that passes large BARs and all instruction sets."""
    secure_boot_keys: bool = False
    """The EFI disk carries Microsoft's keys, so firmware starts only what they signed."""
    mac_addresses: tuple[str, ...] = ()
    """Of net0, net1 and so on, upper case."""
    disk_gib: float = 0.0
    """Size of the boot disk."""
