"""Which NVIDIA kernel module drives which card, in the words of the kernel log.

Rules from NVIDIA's driver README and release notes:

* the open modules need the GPU System Processor, which cards have from Turing on;
* the proprietary modules do not drive Blackwell;
* branch 580 is the last for Maxwell, Pascal and Volta;
* a card needs a branch at least as new as itself.
"""

from __future__ import annotations

from typing import Literal

from rack.world.silicon import ARCHITECTURES, Silicon

Flavour = Literal["open", "nonfree"]

MODULES = ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset")
"""Kernel modules that each of the two extensions brings."""

_NEEDS: dict[str, tuple[str, ...]] = {
    "nvidia": (),
    "nvidia_uvm": ("nvidia",),
    "nvidia_modeset": ("nvidia",),
    "nvidia_drm": ("nvidia", "nvidia_modeset"),
}
"""modprobe loads what a module depends on."""

_FIRST_BRANCH = {"ampere": 450, "ada": 525, "hopper": 515, "blackwell": 570}
_LAST_BRANCH = {"maxwell": 580, "pascal": 580, "volta": 580}


def loaded_modules(declared: frozenset[str]) -> frozenset[str]:
    """The NVIDIA modules that the kernel has after those declared were loaded.

    As for modprobe, a dash in a module's name means the same as an underscore.
    """
    loaded: set[str] = set()
    for name in {module.replace("-", "_") for module in declared} & set(MODULES):
        loaded |= {name, *_NEEDS[name]}
    return frozenset(loaded)


def problem(flavour: Flavour, version: str, card: Silicon, guest_address: str) -> str:
    """Why the module does not drive the card, as the kernel log says it; empty when it does."""
    pci_id = f"10de:{card.device}"
    gpu = f"NVRM: The NVIDIA GPU {guest_address} (PCI ID: {pci_id}) installed in this system"
    branch = int(version.split(".")[0])
    if branch > _LAST_BRANCH.get(card.architecture, branch):
        return (
            f"{gpu} is supported through the NVIDIA {_LAST_BRANCH[card.architecture]}.xx Legacy"
            f" drivers. The {version} NVIDIA driver will ignore this GPU."
        )
    if branch < _FIRST_BRANCH.get(card.architecture, 0):
        return f"{gpu} is not supported by the NVIDIA {version} driver release."
    if flavour == "open" and not _has_system_processor(card):
        return (
            f"{gpu} is not supported by open nvidia.ko because it does not include the required"
            " GPU System Processor (GSP)."
        )
    if flavour == "nonfree" and card.architecture == "blackwell":
        return f"{gpu} requires use of the NVIDIA open kernel modules."
    return ""


def unmapped(guest_address: str) -> str:
    """The kernel log when firmware found no address space for a card's memory window."""
    return (
        "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid: "
        f"BAR1 is 0M @ 0x0 (PCI:{guest_address})"
    )


def _has_system_processor(card: Silicon) -> bool:
    return ARCHITECTURES.index(card.architecture) >= ARCHITECTURES.index("turing")
