"""Changes of a VM in place: what restarts it, disks, and failures."""

from __future__ import annotations

import pytest

from rack.plugins.contract import PartialCreationError, Plain, PluginError
from rack.plugins.proxmoxve.client import ApiError
from tests.plugins.proxmoxve.driver import Engine
from tests.plugins.proxmoxve.fakepve import FakePve
from tests.plugins.proxmoxve.inputs import GPU_VM, VM, changed


def test_a_change_restarts_a_running_vm(engine: Engine, fake: FakePve) -> None:
    resource_id, state = engine.create(VM, GPU_VM)
    fake.requests.clear()
    new = changed(machine="pc", hostpcis=[], description="no card")
    state = engine.update(VM, resource_id, state, new)
    ((_, sent),) = fake.calls("PUT", "/config")
    assert sent == {"machine": "pc", "description": "no card", "delete": "hostpci0"}
    assert [path.rpartition("/")[2] for path, _ in fake.calls("POST")] == ["stop", "start"]
    assert engine.diff(VM, state, new) == {}


@pytest.mark.parametrize(
    ("values", "restarts"),
    [
        ({"description": "x"}, False),
        ({"tags": ["gpu"]}, False),
        ({"onBoot": False}, False),
        ({"startup": {"order": 2, "upDelay": 30}}, False),
        ({"timeoutStartVm": 60}, False),
        ({"networkDevices": [{"bridge": "vmbr1"}]}, False),
        ({"cpu": {"type": "host", "cores": 4}}, True),
        ({"memory": {"dedicated": 8192}}, True),
        ({"cpu": {"type": "host", "cores": 4}, "rebootAfterUpdate": False}, False),
    ],
)
def test_only_what_needs_it_restarts(
    engine: Engine, fake: FakePve, values: Plain, restarts: bool
) -> None:
    resource_id, state = engine.create(VM, GPU_VM)
    fake.requests.clear()
    new = changed(**values)
    state = engine.update(VM, resource_id, state, new)
    assert bool(fake.calls("POST", "status/start")) is restarts
    assert engine.diff(VM, state, new) == {}


def test_a_disk_grows_and_never_shrinks(engine: Engine, fake: FakePve) -> None:
    resource_id, state = engine.create(VM, GPU_VM)
    bigger = changed(disks=[{**GPU_VM["disks"][0], "size": 120}])
    state = engine.update(VM, resource_id, state, bigger)
    assert state["disks"][0]["size"] == 120
    with pytest.raises(PluginError, match=r"\(100G\).*lower than current size \(120G\)"):
        engine.update(VM, resource_id, state, GPU_VM)


def test_disks_are_added_and_removed(engine: Engine, fake: FakePve) -> None:
    resource_id, state = engine.create(VM, GPU_VM)
    both = changed(disks=[{"interface": "scsi1", "size": 10}, *GPU_VM["disks"]])
    state = engine.update(VM, resource_id, state, both)
    assert engine.diff(VM, state, both) == {}
    assert {disk["interface"]: disk["size"] for disk in state["disks"]} == {
        "scsi0": 100,
        "scsi1": 10,
    }
    state = engine.update(VM, resource_id, state, GPU_VM)
    assert "scsi1" not in fake.vms[111]
    assert engine.diff(VM, state, GPU_VM) == {}


def test_a_failed_update_reports_the_vm_as_it_is(engine: Engine, fake: FakePve) -> None:
    resource_id, state = engine.create(VM, GPU_VM)
    fake.start_fails_with = "no IOMMU"
    with pytest.raises(PartialCreationError) as caught:
        engine.update(VM, resource_id, state, changed(machine="pc"))
    assert (caught.value.outputs["machine"], caught.value.outputs["started"]) == ("pc", False)


def test_an_update_of_a_vm_that_is_gone_reports_no_vm(engine: Engine, fake: FakePve) -> None:
    resource_id, state = engine.create(VM, GPU_VM)
    fake.vms.clear()
    with pytest.raises(ApiError, match="111.conf' does not exist"):
        engine.update(VM, resource_id, state, changed(machine="pc"))
