"""A PCI mapping is valid when its entry is how the device is now; PVE names what differs."""

from __future__ import annotations

import pytest

from rack.world.errors import Refused
from rack.world.mapping import PciMapping, check_map
from tests.model.proxmoxworld import CARD, OTHER_CARD, new_world


def problems(entry: str, *, iommu: bool = True, mdev: bool = False) -> list[str]:
    host = new_world().hosts["pve"]
    host.iommu = iommu
    found = PciMapping(map=[entry], mdev=mdev).checks("gpu0", host)
    return [check["message"].strip().removeprefix("Invalid configuration: ") for check in found]


@pytest.mark.parametrize("entry", [CARD, OTHER_CARD, CARD.replace("01:00", "01:00.0")])
def test_an_entry_that_is_as_the_device_is_valid(entry: str) -> None:
    assert problems(entry) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("10de:2204", "10de:2205", "'id' does not match for 'gpu0' (10de:2204 != 10de:2205)"),
        ("=14", "=15", "'iommugroup' does not match for 'gpu0' (14 != 15)"),
        (
            "id=10de:1467",
            "id=10de:1468",
            "'subsystem-id' does not match for 'gpu0' (10de:1467 != 10de:1468)",
        ),
        (
            ",iommugroup=14",
            "",
            "missing expected property 'iommugroup' for device '0000:01:00.0'",
        ),
        (
            ",subsystem-id=10de:1467",
            "",
            "missing expected property 'subsystem-id' for device '0000:01:00.0'",
        ),
        ("0000:01:00", "0000:03:00", "pci device '0000:03:00.0' not found"),
        ("0000:01:00", "0000:01:00.2", "pci device '0000:01:00.2' not found"),
    ],
)
def test_each_difference_is_named(old: str, new: str, message: str) -> None:
    assert problems(CARD.replace(old, new)) == [message]


def test_without_iommu_no_group_is_there_to_compare() -> None:
    unexpected = "unexpected property 'iommugroup' configured for device '0000:01:00.0'"
    assert problems(CARD, iommu=False) == [unexpected]
    assert problems(CARD.replace(",iommugroup=14", ""), iommu=False) == []


def test_a_device_without_subsystem_must_not_name_one() -> None:
    usb = "node=pve,path=0000:06:00,id=1b73:1100,iommugroup=16"
    assert problems(usb) == []
    unexpected = "unexpected property 'subsystem-id' configured for device '0000:06:00.0'"
    assert problems(f"{usb},subsystem-id=1b73:1100") == [unexpected]


def test_only_the_first_of_several_paths_has_its_group_compared() -> None:
    both = CARD.replace("0000:01:00", "0000:01:00.0;0000:01:00.0")
    assert problems(both) == []
    swapped = CARD.replace("0000:01:00", "0000:02:00;0000:01:00")
    assert problems(swapped) == ["'id' does not match for 'gpu0' (10de:2705 != 10de:2204)"]


def test_a_mapping_for_mediated_devices_needs_a_device_that_has_them() -> None:
    assert problems(CARD, mdev=True) == ["'mdev' does not match for 'gpu0' (0 != 1)"]


def test_an_entry_for_another_node_is_no_mapping_for_this_one() -> None:
    host = new_world().hosts["pve"]
    mapping = PciMapping(map=[CARD.replace("node=pve", "node=pve2")])
    assert mapping.checks("gpu0", host) == [
        {"severity": "warning", "message": "No mapping for node pve."}
    ]


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (CARD.replace("id=10de:2204", "id=10de"), "id: value does not match the regex pattern"),
        (CARD.replace("node=pve,", ""), "node: property is missing and it is not optional"),
        (f"{CARD},colour=red", "invalid key in comma-separated list property: colour"),
        (CARD.replace("=14", "=x"), "iommugroup: type check ('integer') failed - got 'x'"),
        (CARD.replace("0000:01:00", "01:00"), "path: value does not match the regex pattern"),
    ],
)
def test_an_entry_that_is_not_well_formed_is_refused_by_its_place(entry: str, text: str) -> None:
    check_map([CARD])
    with pytest.raises(Refused) as refused:
        check_map([CARD, entry])
    assert refused.value.status == 400
    assert text in refused.value.errors["map[1]"]
