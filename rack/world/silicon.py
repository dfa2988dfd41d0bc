"""NVIDIA cards by PCI device number: what NVML would report of each.

NVML's names and sizes differ from those on the box (ECC and firmware take their share), so
they are data with a source, in data/gpus.tsv, and nothing is computed from a marketing name.
"""

from __future__ import annotations

from functools import cache

from rack.world.nodefacts import Frozen
from rack.world.releases import read_table

NVIDIA = "0x10de"
"""NVIDIA's PCI vendor number, as sysfs writes it."""

ARCHITECTURES = (
    "maxwell",
    "pascal",
    "volta",
    "turing",
    "ampere",
    "ada",
    "hopper",
    "blackwell",
)
"""Generations, oldest first."""

LARGE_MIB = 16_000
"""From this much memory on, a card asks firmware for address space above 4 GiB."""


class Silicon(Frozen):
    """One kind of card."""

    device: str
    """PCI device number, four hex digits."""
    name: str
    """Product name as NVML reports it."""
    memory_mib: int
    architecture: str
    compute_capability: tuple[int, int]
    source: str

    @property
    def is_large(self) -> bool:
        """Its memory window does not fit below 4 GiB beside another such card."""
        return self.memory_mib >= LARGE_MIB


@cache
def catalogue() -> dict[str, Silicon]:
    """Every known card by its four-digit PCI device number."""
    cards = {}
    for row in read_table("gpus.tsv"):
        major, minor = row["compute_capability"].split(".")
        values: dict[str, object] = {**row, "compute_capability": (int(major), int(minor))}
        cards[row["device"]] = Silicon.model_validate(values)
    return cards


def identify(vendor: str, device: str) -> Silicon | None:
    """The card behind a PCI function's vendor and device number, with or without 0x."""
    if vendor.removeprefix("0x") != NVIDIA.removeprefix("0x"):
        return None
    return catalogue().get(device.removeprefix("0x").lower())
