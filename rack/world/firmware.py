"""Whether a VM's firmware and processor let a Talos image start."""

from __future__ import annotations

from typing import Final

from rack.world.factory import ImageContent
from rack.world.vm import VmHardware

_WITHOUT_X86_64_V2: Final = frozenset(
    {
        *("486", "pentium", "pentium2", "pentium3", "coreduo", "core2duo", "Conroe", "Penryn"),
        *("athlon", "phenom", "Opteron_G1", "Opteron_G2", "Opteron_G3"),
        *("kvm32", "kvm64", "qemu32", "qemu64"),
    }
)
"""QEMU's processor types that lack instructions which Talos needs."""


def boot_problem(image: ImageContent, hardware: VmHardware) -> str:
    """Why firmware or kernel stops before Talos runs, as the console says; empty when it runs.

    Keys that were enrolled beforehand are Microsoft's: firmware then starts neither an unsigned
    image nor one that the factory signed.
    """
    if image.arch != "amd64":
        return f"no bootable device: the image is for {image.arch}"
    if hardware.bios == "ovmf" and hardware.secure_boot_keys:
        return "BdsDxe: failed to load Boot0001: Access Denied (Secure Boot, pre-enrolled keys)"
    if hardware.bios == "seabios" and image.secure_boot:
        return "no bootable device: a secure boot image needs UEFI firmware"
    if hardware.cpu_type in _WITHOUT_X86_64_V2:
        return f"Talos requires an x86-64-v2 processor, {hardware.cpu_type} is none"
    return ""
