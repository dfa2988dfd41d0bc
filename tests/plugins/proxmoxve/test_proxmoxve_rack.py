"""The stand-in on the simulated rack's own Proxmox VE API: what it asks, refuses and keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rack.plugins.contract import PartialCreationError, Plain, PluginError
from rack.plugins.proxmoxve.client import ApiError
from rack.plugins.proxmoxve.provider import ProxmoxVe
from rack.rack import Rack
from rack.world.faults import Fault
from tests.plugins.proxmoxve.driver import Engine
from tests.plugins.proxmoxve.inputs import FILE, IMAGE, MAPPING, PCI, VM, changed
from tests.plugins.proxmoxve.rackhost import RackHost, rack_host

OTHER_CARD: Plain = {
    "name": "gpu1",
    "maps": [
        {
            "id": "10de:2705",
            "node": "pve",
            "path": "0000:02:00",
            "iommuGroup": 15,
            "subsystemId": "10de:1816",
        }
    ],
}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RackHost]:
    with rack_host(tmp_path / "rack") as running:
        yield running


@pytest.fixture
def rack(host: RackHost) -> Rack:
    return host.rack


@pytest.fixture
def engine(host: RackHost) -> Engine:
    made = Engine(ProxmoxVe())
    made.configure(endpoint=host.endpoint, apiToken=host.token, insecure=True)
    return made


@pytest.fixture
def image(host: RackHost) -> Plain:
    return {**IMAGE, "url": host.image_url}


@pytest.fixture
def ready(engine: Engine, image: Plain) -> Engine:
    """A host with both mappings and the image of the VM."""
    engine.create(PCI, MAPPING)
    engine.create(PCI, OTHER_CARD)
    engine.create(FILE, image)
    return engine


def second_vm(**values: Any) -> Plain:
    return changed(vmId=112, name="k8s-worker-2", **values)


def test_the_whole_life_of_a_worker(ready: Engine, rack: Rack) -> None:
    inputs = changed()
    resource_id, state = ready.create(VM, inputs)
    assert state["started"] is True
    assert state["disks"][0]["size"] == 100
    assert ready.diff(VM, state, inputs) == {}
    again, read, _ = ready.read(VM, resource_id, state, ready.check(VM, inputs))
    assert (again, read) == (resource_id, state)
    with rack.lock() as world:
        assert world.vm(111).passed == ["0000:01:00.0", "0000:01:00.1"]
    ready.delete(VM, resource_id, state)
    assert ready.read(VM, resource_id, state)[0] == ""
    with rack.lock() as world:
        kept = [v.id for s in world.host("pve").storages.values() for v in s.volumes.values()]
    assert kept == ["local:import/talos.qcow2"]


def test_mappings_and_files_read_back_without_a_difference(ready: Engine, image: Plain) -> None:
    for token, inputs, resource_id in (
        (PCI, MAPPING, "gpu0"),
        (FILE, image, "local:import/talos.qcow2"),
    ):
        imported, state, _ = ready.read(token, resource_id)
        assert imported == resource_id
        expected = {"url": "ADD_REPLACE"} if token == FILE else {}
        assert ready.diff(token, state, inputs) == expected
        ready.delete(token, resource_id, state)
        assert ready.read(token, resource_id, state)[0] == ""
        ready.delete(token, resource_id, state)


def test_existing_things_are_refused(ready: Engine, image: Plain) -> None:
    ready.create(VM, changed())
    with pytest.raises(ApiError, match="VM 111 already exists"):
        ready.create(VM, changed())
    with pytest.raises(PluginError, match="gpu0.*already"):
        ready.create(PCI, MAPPING)
    with pytest.raises(PluginError, match="File already exists in the datastore"):
        ready.create(FILE, image)
    ready.create(FILE, {**image, "overwriteUnmanaged": True})


def test_two_vms_with_one_card(ready: Engine) -> None:
    ready.create(VM, changed())
    with pytest.raises(PartialCreationError, match="already in use by VMID '?111") as caught:
        ready.create(VM, second_vm())
    assert caught.value.resource_id == "112"
    assert caught.value.outputs["started"] is False
    other = [{"device": "hostpci0", "mapping": "gpu1", "pcie": True, "rombar": True}]
    state = ready.update(VM, "112", caught.value.outputs, second_vm(hostpcis=other))
    assert state["started"] is True
    assert ready.diff(VM, state, second_vm(hostpcis=other)) == {}


def test_pcie_needs_q35(ready: Engine) -> None:
    with pytest.raises(PartialCreationError, match="q35") as caught:
        ready.create(VM, changed(machine=""))
    ready.delete(VM, "111", caught.value.outputs)
    assert ready.read(VM, "111")[0] == ""


def test_a_raw_address_is_not_for_a_token(ready: Engine) -> None:
    raw = [{"device": "hostpci0", "id": "0000:01:00", "pcie": True}]
    with pytest.raises(PluginError, match="only root|non-mapped"):
        ready.create(VM, changed(hostpcis=raw))
    assert ready.read(VM, "111")[0] == ""


def test_a_disk_smaller_than_its_image(ready: Engine) -> None:
    small = [{"interface": "scsi0", "importFrom": "local:import/talos.qcow2", "size": 1}]
    with pytest.raises(PartialCreationError, match="shrink") as caught:
        ready.create(VM, changed(disks=small))
    assert caught.value.outputs["disks"][0]["size"] == 2


def test_changes_in_place(ready: Engine, rack: Rack) -> None:
    resource_id, state = ready.create(VM, changed())
    wanted = changed(
        cpu={"type": "host", "cores": 4},
        hostpcis=[{"device": "hostpci0", "mapping": "gpu1", "pcie": True, "rombar": True}],
        disks=[{**changed()["disks"][0], "size": 120}, {"interface": "scsi1", "size": 10}],
        tags=["worker"],
    )
    state = ready.update(VM, resource_id, state, wanted)
    assert ready.diff(VM, state, wanted) == {}
    with rack.lock() as world:
        assert world.vm(111).passed == ["0000:02:00.0", "0000:02:00.1"]
    state = ready.update(VM, resource_id, state, {**wanted, "started": False, "hostpcis": []})
    assert state["started"] is False
    assert ready.diff(VM, state, {**wanted, "started": False, "hostpcis": []}) == {}


def test_a_fault_of_the_start_is_survived_by_the_next_attempt(ready: Engine, rack: Rack) -> None:
    with rack.lock() as world:
        world.faults.faults.append(Fault(step="qmstart", message="no luck", times=1))
    with pytest.raises(PartialCreationError, match="VM start failed: no luck") as caught:
        ready.create(VM, changed())
    state = ready.update(VM, "111", caught.value.outputs, changed())
    assert ready.diff(VM, state, changed()) == {}


def test_a_wrong_token_is_refused_and_not_shown(engine: Engine, host: RackHost) -> None:
    wrong = "pulumi@pve!gpu-passthrough=00000000-0000-4000-8000-00000000c0de"
    engine.configure(endpoint=host.endpoint, apiToken=wrong, insecure=True)
    with pytest.raises(PluginError, match="401.*Authentication failed") as caught:
        engine.create(PCI, MAPPING)
    assert "c0de" not in str(caught.value)


def test_functions(engine: Engine) -> None:
    assert engine.invoke("proxmoxve:index/getNodesLegacy:getNodesLegacy", {})["names"] == ["pve"]
    node = engine.invoke("proxmoxve:index/getNodeLegacy:getNodeLegacy", {"nodeName": "pve"})
    assert node["memoryTotal"] == 64 << 30
    arguments = {"nodeName": "pve", "filters": {"vendorId": "10de"}}
    devices = engine.invoke("proxmoxve:hardware/getPci:getPci", arguments)["devices"]
    assert [device["iommuGroup"] for device in devices] == [14, 14, 15, 15]
    engine.create(PCI, {**MAPPING, "maps": [{**MAPPING["maps"][0], "iommuGroup": 3}]})
    arguments = {"type": "pci", "checkNode": "pve"}
    checked = engine.invoke("proxmoxve:hardware/getMappings:getMappings", arguments)
    assert checked["ids"] == ["gpu0"]
    assert checked["checks"][0]["severity"] == "error"


def test_only_the_rack_s_own_factory_can_be_reached(engine: Engine) -> None:
    url = "https://factory.talos.dev/image/x/v1.13.9/nocloud-amd64.qcow2"
    with pytest.raises(PluginError, match="unable to resolve host address 'factory.talos.dev'"):
        engine.create(FILE, {**IMAGE, "url": url})


def test_the_rack_s_certificate_is_checked(engine: Engine, host: RackHost) -> None:
    engine.configure(endpoint=host.endpoint, apiToken=host.token)
    with pytest.raises(PluginError, match="cannot verify the certificate"):
        engine.create(PCI, MAPPING)


def test_an_image_without_the_agent_costs_its_time_out(ready: Engine) -> None:
    """The image has no agent extension: the VM runs, its time-out passes, a warning is all."""
    _, state = ready.create(VM, changed(agent={"enabled": True, "timeout": "200ms"}))
    assert state["started"] is True
    assert "ipv4Addresses" not in state
