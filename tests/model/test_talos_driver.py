"""Cards and the kernel modules that drive them."""

from __future__ import annotations

from typing import Literal

import pytest

from rack.world.driver import loaded_modules, problem
from rack.world.silicon import ARCHITECTURES, Silicon, catalogue, identify

Flavour = Literal["open", "nonfree"]


def card(architecture: str) -> Silicon:
    return next(c for c in catalogue().values() if c.architecture == architecture)


@pytest.mark.parametrize(
    ("device", "name", "memory", "architecture", "capability"),
    [
        ("0x2204", "NVIDIA GeForce RTX 3090", 24576, "ampere", (8, 6)),
        ("0x2705", "NVIDIA GeForce RTX 4070 Ti SUPER", 16376, "ada", (8, 9)),
    ],
)
def test_cards_are_what_nvml_reports(
    device: str, name: str, memory: int, architecture: str, capability: tuple[int, int]
) -> None:
    found = identify("0x10de", device)
    assert found is not None
    assert (found.name, found.memory_mib) == (name, memory)
    assert (found.architecture, found.compute_capability) == (architecture, capability)


def test_nothing_is_made_up_for_a_card_that_is_not_known() -> None:
    assert identify("0x10de", "0xffff") is None
    assert identify("0x1002", "0x2204") is None


def test_every_card_of_the_table_is_sound() -> None:
    for device, found in catalogue().items():
        assert device == device.lower()
        assert len(device) == 4
        assert found.architecture in ARCHITECTURES
        assert found.source
    assert {found.architecture for found in catalogue().values()} == set(ARCHITECTURES)


@pytest.mark.parametrize(
    ("flavour", "version", "architecture", "said"),
    [
        ("nonfree", "580.178.04", "ampere", ""),
        ("nonfree", "580.178.04", "ada", ""),
        ("nonfree", "580.178.04", "maxwell", ""),
        ("nonfree", "580.178.04", "pascal", ""),
        ("nonfree", "580.178.04", "volta", ""),
        ("nonfree", "595.91.07", "pascal", "580.xx Legacy"),
        ("nonfree", "595.91.07", "volta", "580.xx Legacy"),
        ("nonfree", "595.91.07", "turing", ""),
        ("nonfree", "580.178.04", "blackwell", "requires use of the NVIDIA open kernel modules"),
        ("open", "580.178.04", "blackwell", ""),
        ("open", "535.247.01", "blackwell", "not supported by the NVIDIA 535.247.01"),
        ("open", "580.178.04", "turing", ""),
        ("open", "580.178.04", "volta", "GPU System Processor"),
        ("open", "580.178.04", "pascal", "GPU System Processor"),
        ("open", "595.91.07", "pascal", "580.xx Legacy"),
        ("nonfree", "535.247.01", "hopper", ""),
    ],
)
def test_a_driver_drives_what_it_was_made_for(
    flavour: Flavour, version: str, architecture: str, said: str
) -> None:
    found = problem(flavour, version, card(architecture), "0000:01:00.0")
    assert said in found
    assert bool(found) == bool(said)


def test_the_kernel_log_names_the_card() -> None:
    found = problem("open", "580.178.04", card("pascal"), "0000:02:00.0")
    assert found.startswith("NVRM: The NVIDIA GPU 0000:02:00.0 (PCI ID: 10de:")


@pytest.mark.parametrize(
    ("declared", "loaded"),
    [
        ((), set()),
        (("nvidia",), {"nvidia"}),
        (("nvidia-uvm",), {"nvidia", "nvidia_uvm"}),
        (("nvidia_drm",), {"nvidia", "nvidia_modeset", "nvidia_drm"}),
        (("br_netfilter",), set()),
    ],
)
def test_a_module_brings_the_ones_it_needs(declared: tuple[str, ...], loaded: set[str]) -> None:
    assert loaded_modules(frozenset(declared)) == loaded
