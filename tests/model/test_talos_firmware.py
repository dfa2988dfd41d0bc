"""What firmware and processor let start."""

from __future__ import annotations

from typing import Any

import pytest

from rack.world.talos_error import TalosError
from tests.model.talosworld import NOW, booted, documents, stage, talos_image, text


@pytest.mark.parametrize(
    ("changed_hardware", "file", "problem"),
    [
        ({"secure_boot_keys": True}, "nocloud-amd64.qcow2", "Access Denied"),
        ({"secure_boot_keys": True}, "nocloud-amd64-secureboot.qcow2", "Access Denied"),
        ({"secure_boot_keys": True, "bios": "seabios"}, "nocloud-amd64.qcow2", ""),
        ({"bios": "seabios"}, "nocloud-amd64-secureboot.qcow2", "needs UEFI"),
        ({}, "nocloud-amd64-secureboot.qcow2", ""),
        ({"bios": "seabios", "machine": "pc"}, "nocloud-amd64.qcow2", ""),
        ({}, "nocloud-arm64.qcow2", "the image is for arm64"),
        ({"cpu_type": "kvm64"}, "nocloud-amd64.qcow2", "x86-64-v2"),
        ({"cpu_type": "x86-64-v2-AES"}, "nocloud-amd64.qcow2", ""),
    ],
)
def test_firmware_starts_what_it_can(
    changed_hardware: dict[str, Any], file: str, problem: str
) -> None:
    machine = booted(talos_image(file=file), **changed_hardware)
    assert problem in machine.problem
    assert stage(machine) == ("booting" if problem else "maintenance")
    assert machine.next_event is None


def test_a_machine_that_does_not_boot_has_no_api() -> None:
    machine = booted(secure_boot_keys=True)
    assert machine.addresses == []
    assert machine.own_addresses == ["127.0.0.2"]
    with pytest.raises(TalosError) as error:
        machine.apply(text(documents()), NOW)
    assert error.value.code == "Unavailable"
