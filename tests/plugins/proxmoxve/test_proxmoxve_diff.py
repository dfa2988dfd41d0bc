"""Checks and differences, without a host."""

from __future__ import annotations

import pytest

from rack.plugins.contract import Plain
from tests.plugins.proxmoxve.driver import CheckFailedError, Engine
from tests.plugins.proxmoxve.fakepve import FakePve
from tests.plugins.proxmoxve.inputs import FILE, GPU_VM, IMAGE, MAPPING, PCI, VM, changed


@pytest.mark.parametrize(
    ("token", "inputs", "path"),
    [
        (VM, {"nodeName": "pve", "hostpci": []}, "hostpci"),
        (VM, {"vmId": 100}, "nodeName"),
        (VM, changed(hostpcis=[{"mapping": "gpu0"}]), "hostpcis[0].device"),
        (VM, changed(hostpcis=[{"device": "gpu0"}]), "hostpcis[0].device"),
        (VM, changed(bios="uefi"), "bios"),
        (VM, changed(machine="i440fx"), "machine"),
        (VM, changed(vmId=99), "vmId"),
        (VM, changed(memory={"dedicated": "16384"}), "memory.dedicated"),
        (VM, changed(name="k8s_worker_1"), "name"),
        (VM, changed(agent={"timeout": "15"}), "agent.timeout"),
        (PCI, {"name": "gpu0"}, "maps"),
        (PCI, {"maps": [{**MAPPING["maps"][0], "path": "1:00"}]}, "maps[0].path"),
        (FILE, {**IMAGE, "contentType": "images"}, "contentType"),
        (FILE, {**IMAGE, "decompressionAlgorithm": "xz"}, "decompressionAlgorithm"),
    ],
)
def test_bad_inputs_are_refused_by_path(
    engine: Engine, token: str, inputs: Plain, path: str
) -> None:
    with pytest.raises(CheckFailedError) as caught:
        engine.check(token, inputs)
    assert list(caught.value.failures) == [path]


def test_defaults_are_the_official_ones(engine: Engine) -> None:
    checked = engine.check(VM, {"nodeName": "pve", "memory": {}, "efiDisk": {}})
    assert checked["bios"] == "seabios"
    assert checked["memory"]["dedicated"] == 512
    assert checked["efiDisk"]["type"] == "2m"
    assert (checked["started"], checked["onBoot"], checked["stopOnDestroy"]) == (True, True, False)
    assert "machine" not in checked
    assert "cpu" not in checked


def test_a_missing_name_is_made_up_once(engine: Engine) -> None:
    named = engine.check(PCI, {"maps": MAPPING["maps"]})["name"]
    assert named.startswith("it-")
    assert len(named) == len("it-") + 7
    assert engine.check(PCI, {"maps": MAPPING["maps"]}, {"name": "old"})["name"] == "old"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {}),
        ({"tags": ["gpu", "worker"]}, {}),
        ({"vmId": 112}, {"vmId": "UPDATE_REPLACE"}),
        ({"nodeName": "pve2"}, {"nodeName": "UPDATE_REPLACE"}),
        ({"nodeName": "pve2", "migrate": True}, {"nodeName": "UPDATE", "migrate": "UPDATE"}),
        ({"machine": "pc"}, {"machine": "UPDATE"}),
        ({"efiDisk": {"type": "2m"}}, {"efiDisk.type": "UPDATE_REPLACE"}),
        ({"hostpcis": []}, {"hostpcis[0]": "DELETE"}),
        ({"cpu": {"type": "host", "cores": 4}}, {"cpu.cores": "UPDATE"}),
        (
            {"disks": [{**GPU_VM["disks"][0], "importFrom": "local:import/new.qcow2"}]},
            {"disks[0].importFrom": "UPDATE"},
        ),
    ],
)
def test_vm_differences(
    engine: Engine, fake: FakePve, values: Plain, expected: dict[str, str]
) -> None:
    _, state = engine.create(VM, GPU_VM)
    assert engine.diff(VM, state, changed(**values)) == expected


def test_ignored_differences(engine: Engine, fake: FakePve) -> None:
    _, state = engine.create(VM, GPU_VM)
    new = changed(disks=[{**GPU_VM["disks"][0], "importFrom": "other:import/x"}], machine="pc")
    assert engine.diff(VM, state, new, "disks") == {"machine": "UPDATE"}


def test_pci_devices_are_compared_by_position_as_pve_sorts_them(engine: Engine) -> None:
    devices = [{"device": f"hostpci{n}", "mapping": f"gpu{n}", "pcie": True} for n in (0, 1)]
    _, state = engine.create(VM, changed(hostpcis=devices))
    assert engine.diff(VM, state, changed(hostpcis=devices)) == {}
    assert engine.diff(VM, state, changed(hostpcis=devices[::-1])) != {}
