"""NVIDIA cards as a guest sees them, and what the image's driver makes of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, cast

from rack.world.driver import Flavour, loaded_modules, problem, unmapped
from rack.world.extensions import KERNEL_MODULES, Extension
from rack.world.factory import ImageContent
from rack.world.nodefacts import DriverFacts, GpuFacts, ToolkitFacts
from rack.world.pci import PciFunction
from rack.world.silicon import Silicon, identify
from rack.world.vm import VmHardware

TOOLKIT: Final = "nvidia-container-toolkit"
_BINARIES: Final = "/usr/local/bin"


@dataclass(frozen=True)
class GuestGpu:
    """One NVIDIA GPU on the guest's PCI bus."""

    host: str
    function: PciFunction
    guest_address: str
    silicon: Silicon | None
    """None for a card that the rack has no data of."""
    is_mapped: bool
    """Firmware found address space for its memory window."""

    @property
    def facts(self) -> GpuFacts | None:
        """What NVML would say of the card; None where the rack has no data of it."""
        if self.silicon is None:
            return None
        function, silicon = self.function, self.silicon
        seed = f"{self.host}/{function.card}/{function.id}/{function.subsystem_id}"
        return GpuFacts(
            uuid=f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, seed)}",
            guest_address=self.guest_address,
            host_address=function.slot,
            name=silicon.name,
            memory_mib=silicon.memory_mib,
            architecture=silicon.architecture,
            compute_capability=silicon.compute_capability,
        )

    def problem(self, flavour: Flavour, version: str) -> str:
        """What the kernel log says of the card with that driver; empty when all is well."""
        if self.silicon is None:
            return (
                f"simulated rack: no data of the NVIDIA device {self.function.id}; add a line to"
                " rack/world/data/gpus.tsv"
            )
        if not self.is_mapped:
            return unmapped(self.guest_address)
        return problem(flavour, version, self.silicon, self.guest_address)


def present(functions: Iterable[PciFunction], hardware: VmHardware) -> list[GuestGpu]:
    """The NVIDIA GPUs among a VM's functions, in the order of the host's bus.

    SeaBIOS keeps memory windows below 4 GiB, where a second large card finds no room.
    """
    found: list[GuestGpu] = []
    large = 0
    gpus = sorted((f for f in functions if f.is_nvidia_gpu), key=lambda f: f.address)
    for index, function in enumerate(gpus):
        silicon = identify(function.vendor, function.device)
        large += silicon is not None and silicon.is_large
        crowded = hardware.bios == "seabios" and large > 1
        found.append(
            GuestGpu(
                host=hardware.node,
                function=function,
                guest_address=_guest_address(index, hardware),
                silicon=silicon,
                is_mapped=not (crowded and silicon is not None and silicon.is_large),
            )
        )
    return found


def _guest_address(index: int, hardware: VmHardware) -> str:
    """Where QEMU puts the card: a PCIe port of its own on q35, else a slot of the first bus."""
    if "q35" in hardware.machine:
        return f"0000:{index + 1:02x}:00.0"
    return f"0000:00:{0x10 + index:02x}.0"


def module_extension(image: ImageContent) -> Extension | None:
    """The extension that brings NVIDIA's kernel modules; None where the image has none."""
    found = (image.nvidia(name) for name in KERNEL_MODULES)
    return next((extension for extension in found if extension is not None), None)


def driver_facts(
    image: ImageContent, declared: frozenset[str], gpus: Sequence[GuestGpu]
) -> DriverFacts | None:
    """What the NVIDIA driver of an image makes of the cards.

    None where the image has no driver, the configuration loads none of its modules, or there is
    no card at all. A driver that finds no card it can drive unloads itself: no modules then, but
    the kernel log says why.
    """
    extension = module_extension(image)
    if extension is None or extension.channel is None or not gpus:
        return None
    modules = loaded_modules(declared)
    if not modules:
        return None
    flavour = cast("Flavour", KERNEL_MODULES[extension.base_name])
    version = image.release.driver(extension.channel)
    problems = {gpu.guest_address: gpu.problem(flavour, version) for gpu in gpus}
    driven = [gpu for gpu in gpus if not problems[gpu.guest_address]]
    said = [text for text in problems.values() if text]
    mismatch = _library_mismatch(image, version)
    usable = [] if mismatch else driven
    return DriverFacts(
        version=version,
        flavour=flavour,
        loaded_modules=modules if driven else frozenset(),
        gpus=tuple(facts for gpu in usable if (facts := gpu.facts) is not None),
        problem="\n".join([*said, *([mismatch] if mismatch and driven else [])]),
    )


def _library_mismatch(image: ImageContent, version: str) -> str:
    """The toolkit extension brings libraries of its own channel's driver."""
    toolkit = image.nvidia(TOOLKIT)
    if toolkit is None or toolkit.channel is None:
        return ""
    libraries = image.release.driver(toolkit.channel)
    if libraries == version:
        return ""
    return (
        f"NVRM: API mismatch: the client has the version {libraries}, but this kernel module has"
        f" the version {version}. Please make sure that this kernel module and all NVIDIA driver"
        " components have the same version."
    )


def toolkit_facts(image: ImageContent) -> ToolkitFacts | None:
    """The NVIDIA container toolkit of an image; None where it has none."""
    if image.nvidia(TOOLKIT) is None:
        return None
    release = image.release
    return ToolkitFacts(
        version=release.container_toolkit.removeprefix("v"),
        mode=release.toolkit_mode,
        library_path=release.nvidia_library_path,
        binary_path=_BINARIES,
    )
