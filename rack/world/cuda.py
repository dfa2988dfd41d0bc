"""CUDA's own rules: which driver runs which libraries on which card, and how it fails.

Sources: CUDA toolkit release notes (drivers and toolkits, minor version compatibility), the CUDA
compatibility guide (forward compatibility only on data-centre cards), the driver API's errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rack.world.cuda_errors import SUCCESS
from rack.world.nodefacts import DriverFacts, GpuFacts
from rack.world.podview import ImageView

Version = tuple[int, int]

_CUDA_OF_BRANCH: Final[dict[int, str]] = {
    450: "11.0",
    470: "11.4",
    510: "11.6",
    515: "11.7",
    525: "12.0",
    530: "12.1",
    535: "12.2",
    545: "12.3",
    550: "12.4",
    555: "12.5",
    560: "12.6",
    565: "12.7",
    570: "12.8",
    575: "12.9",
    580: "13.0",
    590: "13.1",
    595: "13.2",
}
"""Newest CUDA that a driver branch speaks."""

_MIN_BRANCH: Final[dict[int, int]] = {11: 450, 12: 525, 13: 580}
"""Oldest driver branch for a CUDA major version; within a major, versions are compatible."""


def version(text: str) -> Version:
    """Major and minor number of a version such as 12.9 or 580.178.04."""
    major, _, rest = text.partition(".")
    return int(major), int(rest.partition(".")[0] or 0)


def cuda_of_driver(driver: str) -> str:
    """The newest CUDA that a driver speaks, for example 13.0 for 580.178.04."""
    branch = version(driver)[0]
    known = [number for number in _CUDA_OF_BRANCH if number <= branch]
    return _CUDA_OF_BRANCH[max(known)] if known else "10.2"


def architectures(cuda: str) -> tuple[Version, ...]:
    """Compute capabilities that the libraries of a CUDA version have machine code for."""
    at = version(cuda)
    table: list[tuple[Version, bool]] = [
        ((5, 0), at < (13, 0)),
        ((6, 0), at < (13, 0)),
        ((7, 0), at < (13, 0)),
        ((7, 5), True),
        ((8, 0), True),
        ((8, 6), at >= (11, 1)),
        ((8, 9), at >= (11, 8)),
        ((9, 0), at >= (11, 8)),
        ((10, 0), at >= (12, 8)),
        ((12, 0), at >= (12, 8)),
    ]
    return tuple(capability for capability, has in table if has)


def runs_on(capability: Version, compiled: Iterable[Version]) -> bool:
    """Machine code runs on its own major version, from its minor version on."""
    return any(capability[0] == major and capability[1] >= minor for major, minor in compiled)


def is_data_centre(gpu: GpuFacts) -> bool:
    """The card may run libraries newer than its driver (forward compatibility)."""
    consumer = ("GeForce", "RTX", "TITAN", "Quadro", "NVIDIA T4", "NVIDIA T6", "NVIDIA T1")
    return not any(word in gpu.name for word in consumer)


def loads_compat(image: ImageView, driver: str) -> bool:
    """The toolkit puts the image's own cuda-compat libraries first: they are the newer ones."""
    return bool(image.compat) and version(image.compat)[0] > version(driver)[0]


def driver_result(driver: DriverFacts | None, gpus: tuple[GpuFacts, ...]) -> int:
    """What cuInit gives where the host's libcuda was injected."""
    if driver is None or not gpus:
        return 100
    if "nvidia_uvm" not in driver.loaded_modules:
        return 999
    return SUCCESS


def runtime_result(image: ImageView, driver: DriverFacts | None, gpus: tuple[GpuFacts, ...]) -> int:
    """What the first call of the image's CUDA libraries gives.

    Args:
        image: the image with its CUDA version.
        driver: the injected driver; None where nothing was injected.
        gpus: the cards whose device nodes were injected.

    Returns:
        0, or a number of `ERRORS`.

    """
    if driver is None:
        return 35
    result = driver_result(driver, gpus)
    if result or not image.cuda:
        return result
    if loads_compat(image, driver.version):
        if not all(is_data_centre(gpu) for gpu in gpus):
            return 804
    elif version(driver.version)[0] < _MIN_BRANCH.get(version(image.cuda)[0], 0):
        return 35
    compiled = image.cuda_architectures or architectures(image.cuda)
    return SUCCESS if any(_runs(gpu.compute_capability, compiled, image) for gpu in gpus) else 209


def _runs(capability: Version, compiled: tuple[Version, ...], image: ImageView) -> bool:
    """The card has machine code, or the driver makes it some from PTX of an older generation."""
    return runs_on(capability, compiled) or (image.has_ptx and capability > max(compiled))
