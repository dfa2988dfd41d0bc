"""VMs: create, read, import, update, delete."""

from __future__ import annotations

import time

import pytest

from rack.plugins.contract import PartialCreationError, PluginError
from rack.plugins.proxmoxve.client import ApiError
from tests.plugins.proxmoxve.driver import Engine
from tests.plugins.proxmoxve.fakepve import FakePve
from tests.plugins.proxmoxve.inputs import GPU_VM, VM, changed, ip


def test_what_is_asked_of_the_host(engine: Engine, fake: FakePve) -> None:
    assert engine.create(VM, GPU_VM)[0] == "111"
    ((_, sent),) = fake.calls("POST", "/nodes/pve/qemu")[:1]
    wire = {
        "hostpci0": "mapping=gpu0,pcie=1,rombar=1,x-vga=0",
        "scsi0": "file=local-lvm:0,import-from=local:import/talos.qcow2,aio=io_uring,backup=1,"
        "iothread=1,ssd=0,discard=ignore,cache=none,replicate=1",
        "efidisk0": "file=local-lvm:1,efitype=4m,pre-enrolled-keys=0,format=raw",
        "ide2": "file=local-lvm:cloudinit",
        "ipconfig0": "ip=127.0.0.2/24,gw=127.0.0.254",
        "nameserver": "127.0.0.254",
        "net0": "model=virtio,bridge=vmbr0,firewall=0",
        "agent": "enabled=0,fstrim_cloned_disks=0,type=virtio",
        "boot": "order=scsi0;net0",
        "memory": "16384",
        "balloon": "0",
        "cpu": "cputype=host",
        "machine": "q35",
        "onboot": "1",
        "serial0": "socket",
        "tags": "gpu;worker",
    }
    assert {name: sent.get(name) for name in wire} == wire
    after = [(m, p.rpartition("qemu/111/")[2]) for m, p, _ in fake.requests if "qemu/111" in p]
    changes = [(method, path) for method, path in after if method != "GET"]
    assert changes == [("PUT", "resize"), ("POST", "status/start")]


def test_reading_back_shows_no_difference(engine: Engine, fake: FakePve) -> None:
    resource_id, state = engine.create(VM, GPU_VM)
    assert state["networkDevices"][0]["macAddress"] == "BC:24:11:00:00:01"
    again = engine.read(VM, resource_id, state, engine.check(VM, GPU_VM))
    assert again[1] == state
    assert engine.diff(VM, again[1], GPU_VM) == {}


def test_reading_reports_the_host_and_echoes_nothing(engine: Engine, fake: FakePve) -> None:
    resource_id, state = engine.create(VM, GPU_VM)
    fake.vms[111] |= {"cores": 2, "machine": "pc", "tags": "gpu"}
    fake.vms[111].pop("hostpci0")
    fake.running.clear()
    _, outputs, inputs = engine.read(VM, resource_id, state, engine.check(VM, GPU_VM))
    assert outputs["cpu"]["cores"] == inputs["cpu"]["cores"] == 2
    assert (outputs["machine"], outputs["tags"], outputs["started"]) == ("pc", ["gpu"], False)
    assert "hostpcis" not in outputs
    assert engine.diff(VM, outputs, GPU_VM) == {
        "cpu.cores": "UPDATE",
        "machine": "UPDATE",
        "tags[1]": "ADD",
        "hostpcis": "ADD",
        "started": "UPDATE",
    }


@pytest.mark.parametrize("import_id", ["111", "pve/111"])
def test_import(engine: Engine, fake: FakePve, import_id: str) -> None:
    engine.create(VM, GPU_VM)
    resource_id, state, inputs = engine.read(VM, import_id)
    assert resource_id == "111"
    assert engine.check(VM, inputs)["hostpcis"] == state["hostpcis"]
    # All that the host cannot know are the plugin's own settings and where the image came from.
    assert engine.diff(VM, state, GPU_VM) == {
        "disks[0].importFrom": "ADD",
        "stopOnDestroy": "UPDATE",
    }


def test_import_of_an_id_that_is_none(engine: Engine) -> None:
    with pytest.raises(PluginError, match="expected node/id"):
        engine.read(VM, "pve/worker")


def test_a_vm_that_is_gone_reads_as_gone(engine: Engine, fake: FakePve) -> None:
    resource_id, state = engine.create(VM, GPU_VM)
    fake.vms.clear()
    assert engine.read(VM, resource_id, state)[0] == ""
    engine.delete(VM, resource_id, state)


def test_an_existing_id_is_an_error_and_stays_untouched(engine: Engine, fake: FakePve) -> None:
    fake.vms[111] = {"name": "someone-elses"}
    with pytest.raises(ApiError, match="VM 111 already exists on node 'pve'") as caught:
        engine.create(VM, GPU_VM)
    assert not isinstance(caught.value, PartialCreationError)
    assert fake.vms[111] == {"name": "someone-elses"}


def test_without_an_id_the_host_gives_the_next(engine: Engine) -> None:
    resource_id, state = engine.create(VM, {"nodeName": "pve"})
    assert (resource_id, state["vmId"]) == ("100", 100)


def test_a_vm_that_does_not_start_is_partially_created(engine: Engine, fake: FakePve) -> None:
    fake.start_fails_with = "PCI device '0000:01:00.0' already in use by VMID '112'"
    with pytest.raises(PartialCreationError, match="VM start failed: PCI device") as caught:
        engine.create(VM, GPU_VM)
    error = caught.value
    assert error.resource_id == "111"
    assert error.outputs["started"] is False
    assert error.inputs == engine.check(VM, GPU_VM)
    assert 111 in fake.vms
    fake.start_fails_with = None
    state = engine.update(VM, "111", error.outputs, GPU_VM)
    assert state["started"] is True
    assert engine.diff(VM, state, GPU_VM) == {}


def test_a_stopped_vm_is_not_started(engine: Engine, fake: FakePve) -> None:
    _, state = engine.create(VM, changed(started=False))
    assert state["started"] is False
    assert fake.calls("POST", "status/start") == []


@pytest.mark.parametrize(("plug", "verb"), [(True, "stop"), (False, "shutdown")])
def test_destroy_switches_off_first(engine: Engine, fake: FakePve, plug: bool, verb: str) -> None:
    fake.agent = [{"name": "eth0", "ip-addresses": [ip("127.0.0.2")]}]
    inputs = changed(stopOnDestroy=plug, agent={"enabled": True})
    resource_id, state = engine.create(VM, inputs)
    fake.requests.clear()
    engine.delete(VM, resource_id, state)
    assert [path.rpartition("/")[2] for path, _ in fake.calls("POST")] == [verb]
    ((_, sent),) = fake.calls("DELETE")
    assert sent == {"purge": "1", "destroy-unreferenced-disks": "1"}
    assert fake.vms == {}


def test_addresses_of_the_guest_agent(engine: Engine, fake: FakePve) -> None:
    fake.agent = [
        {"name": "lo", "hardware-address": "00:00:00:00:00:00", "ip-addresses": [ip("127.0.0.1")]},
        {
            "name": "eth0",
            "hardware-address": "bc:24:11:00:00:01",
            "ip-addresses": [ip("127.0.0.2")],
        },
    ]
    _, state = engine.create(VM, changed(agent={"enabled": True}))
    assert state["ipv4Addresses"] == [["127.0.0.1"], ["127.0.0.2"]]
    assert state["networkInterfaceNames"] == ["lo", "eth0"]
    assert state["macAddresses"][1] == "BC:24:11:00:00:01"


def test_an_absent_agent_costs_its_time_out_and_a_warning(
    engine: Engine, fake: FakePve, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(engine.provider, "warn", lambda urn, text: warnings.append(text))
    started = time.monotonic()
    _, state = engine.create(VM, changed(agent={"enabled": True, "timeout": "300ms"}))
    assert time.monotonic() - started >= 0.3
    assert state["started"] is True
    assert "ipv4Addresses" not in state
    assert "timeout while waiting for the QEMU agent on VM 111" in warnings[0]


def test_no_agent_is_asked_where_none_is_wanted(engine: Engine, fake: FakePve) -> None:
    skipped = {"enabled": True, "waitForIp": {"disabled": True}}
    engine.create(VM, changed(agent=skipped))
    assert fake.calls("GET", "agent") == []
