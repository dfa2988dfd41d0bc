"""PCI functions of a host and how Proxmox VE reads their addresses.

Numbers are written as Linux' sysfs writes them: `0x` and lower-case hexadecimal digits.
"""

from __future__ import annotations

import re
from typing import Final

from rack.world.nodefacts import Frozen

BRIDGE_CLASS: Final = "0x06"
"""Class of host bridges and PCIe ports: they stay with the host when their group is taken."""

DISPLAY_CLASS: Final = "0x03"
NVIDIA: Final = "0x10de"

HIDDEN_CLASSES: Final = ("05", "06", "0b")
"""Classes that `hardware/pci` leaves out unless asked: memory, bridges, processors."""

_ADDRESS: Final = re.compile(r"(?:([0-9a-f]{4}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.I)


class PciFunction(Frozen):
    """One function of a PCI device, as sysfs shows it."""

    address: str
    """Domain, bus, device and function, for example `0000:01:00.0`."""
    device_class: str
    """Six hex digits after `0x`, for example `0x030000`."""
    vendor: str
    device: str
    subsystem_vendor: str = ""
    """Empty where the device has none (bridges)."""
    subsystem_device: str = ""
    iommu_group: int = -1
    """As the firmware groups it; sysfs shows none while the IOMMU is off."""
    driver: str = ""
    """Kernel driver that the host binds at boot; empty for none."""
    vendor_name: str = ""
    device_name: str = ""
    origin: str = ""
    """Slot before it was moved for the first time; empty where it never was."""

    @property
    def card(self) -> str:
        """What is burnt into a card and moves with it: here, where it was at first."""
        return self.origin or self.slot

    @property
    def slot(self) -> str:
        """The address without the function: what holds all functions of one card."""
        return self.address.rpartition(".")[0]

    @property
    def function(self) -> int:
        """The number after the dot."""
        return int(self.address.rpartition(".")[2])

    @property
    def id(self) -> str:
        """Vendor and device as resource mappings write them: `10de:2204`."""
        return f"{self.vendor[2:]}:{self.device[2:]}"

    @property
    def subsystem_id(self) -> str:
        """Subsystem as resource mappings write it; empty where there is none."""
        if not self.subsystem_vendor:
            return ""
        return f"{self.subsystem_vendor[2:]}:{self.subsystem_device[2:]}"

    @property
    def is_bridge(self) -> bool:
        """A bridge or a PCIe port."""
        return self.device_class.startswith(BRIDGE_CLASS)

    @property
    def is_nvidia_gpu(self) -> bool:
        """An NVIDIA display or 3D controller: the function that a driver computes on."""
        return self.vendor == NVIDIA and self.device_class.startswith(DISPLAY_CLASS)


def normalise(address: str) -> str | None:
    """Write an address in full, with or without its function; None when it is no address."""
    found = _ADDRESS.fullmatch(address)
    if not found:
        return None
    domain, bus, device, function = found.groups()
    text = f"{domain or '0000'}:{bus}:{device}".lower()
    return f"{text}.{function}" if function is not None else text
