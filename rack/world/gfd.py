"""The labels of GPU Feature Discovery, by its own rule and with the bugs of its versions.

Rule: internal/lm of NVIDIA/k8s-device-plugin (v0.17.0 and v0.20.0); the values are NVML's.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from rack.world.cuda import cuda_of_driver, is_data_centre, version
from rack.world.nodefacts import GpuFacts, NodeFacts
from rack.world.sharing import NO_SHARING, Sharing

PREFIX: Final = "nvidia.com/"
RESOURCE: Final = f"{PREFIX}gpu"
FAMILIES_FIXED_SINCE: Final = (0, 20)
"""Before it Ada Lovelace was labelled ampere, because only the major number counted, and
Blackwell undefined."""
_MIG: Final = re.compile(r"\b(A100|A30|H100|H200|H800|A800|B200|B300|GB200)\b|PRO 6000")
_DROPPED: Final = re.compile(r"[^A-Za-z0-9\-_. ]")
_MACHINES: Final = {
    True: "Standard PC (Q35 + ICH9, 2009)",
    False: "Standard PC (i440FX + PIIX, 1996)",
}
_FAMILY_OF_MAJOR: Final = {5: "maxwell", 6: "pascal", 8: "ampere", 9: "hopper"}


def labels(
    node: NodeFacts, gfd_version: str, sharing: Sharing = NO_SHARING, timestamp: int = 0
) -> dict[str, str]:
    """What GFD writes for a node; without a driven card, its timestamp and nothing else.

    Args:
        node: the node.
        gfd_version: version of the image, for example v0.17.0.
        sharing: how the device plugin offers the cards.
        timestamp: Unix time of the start of GFD's container.

    """
    found = {"gfd.timestamp": str(timestamp)}
    driver = node.driver
    if driver is not None and driver.gpus:
        found |= {
            "gpu.machine": label_value(_machine(node)),
            "gpu.mode": _mode(driver.gpus),
            "mig.capable": str(any(is_mig_capable(gpu) for gpu in driver.gpus)).lower(),
            "mps.capable": "false",
            **_versions(driver.version),
            **_resource(driver.gpus, gfd_version, sharing),
        }
    return {PREFIX + key: value for key, value in found.items()}


def label_value(text: str) -> str:
    """A name as a label's value: what a label cannot hold is dropped, words are joined."""
    return "-".join(_DROPPED.sub("", text).split())


def family(capability: tuple[int, int], gfd_version: str) -> str:
    """The family that this version of GFD gives a compute capability."""
    major, minor = capability
    if major == 7:
        return "turing" if minor >= 5 else "volta"
    if version(gfd_version.removeprefix("v")) >= FAMILIES_FIXED_SINCE:
        if capability == (8, 9):
            return "ada-lovelace"
        if major in (10, 12):
            return "blackwell"
    return _FAMILY_OF_MAJOR.get(major, "undefined")


def is_mig_capable(gpu: GpuFacts) -> bool:
    """The card can be cut into instances (Multi-Instance GPU)."""
    return _MIG.search(gpu.name) is not None


def _resource(gpus: tuple[GpuFacts, ...], gfd_version: str, sharing: Sharing) -> dict[str, str]:
    """The labels of the resource; of several kinds of card, one kind's stay."""
    counts = Counter(gpu.name for gpu in gpus)
    last = next(gpu for gpu in gpus if gpu.name == list(counts)[-1])
    major, minor = last.compute_capability
    is_marked = sharing.is_shared and not sharing.is_renamed
    return {
        "gpu.product": label_value(last.name) + ("-SHARED" if is_marked else ""),
        "gpu.count": str(counts[last.name]),
        "gpu.replicas": str(sharing.replicas),
        "gpu.sharing-strategy": "time-slicing" if sharing.is_shared else "none",
        "gpu.memory": str(last.memory_mib),
        "gpu.family": family(last.compute_capability, gfd_version),
        "gpu.compute.major": str(major),
        "gpu.compute.minor": str(minor),
    }


def _versions(driver: str) -> dict[str, str]:
    cuda = cuda_of_driver(driver)
    parts = [*driver.split("."), "", ""]
    major, minor = version(cuda)
    return {
        "cuda.driver.major": parts[0],
        "cuda.driver.minor": parts[1],
        "cuda.driver.rev": parts[2],
        "cuda.driver-version.major": parts[0],
        "cuda.driver-version.minor": parts[1],
        "cuda.driver-version.revision": parts[2],
        "cuda.driver-version.full": driver,
        "cuda.runtime.major": str(major),
        "cuda.runtime.minor": str(minor),
        "cuda.runtime-version.major": str(major),
        "cuda.runtime-version.minor": str(minor),
        "cuda.runtime-version.full": cuda,
    }


def _machine(node: NodeFacts) -> str:
    """The product name in the VM's firmware tables: on q35, a card is behind a port of its own."""
    is_q35 = all(gpu.guest_address.split(":")[1] != "00" for gpu in node.gpus)
    return _MACHINES[is_q35]


def _mode(gpus: tuple[GpuFacts, ...]) -> str:
    """By PCI class: a card with outputs for a display is a VGA controller."""
    return "compute" if all(is_data_centre(gpu) for gpu in gpus) else "graphics"
