"""Preflight against the rack's Proxmox API: each check with what it finds, and its neighbour."""

from __future__ import annotations

import json
import xml.etree.ElementTree as Xml
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_passthrough.preflight.client import Client
from gpu_passthrough.preflight.registry import CHECKS
from rack.world.access import AclEntry
from rack.world.datacenter import Datacenter
from rack.world.host import Host
from rack.world.mapping import PciMapping
from rack.world.pci import PciFunction
from rack.world.qemu import Vm
from tests.preflight.ground import CARD, command, failed, run
from tests.rack.proxmoxserver import Served

DOCS = Path(__file__).parents[2] / "docs"


def host(world: Datacenter) -> Host:
    return world.hosts["pve"]


def replace(found: Host, address: str, **change: Any) -> None:
    found.functions = [
        one.model_copy(update=change) if one.address == address else one for one in found.functions
    ]


def iommu_off(world: Datacenter) -> None:
    host(world).iommu = False


def card_gone(world: Datacenter) -> None:
    found = host(world)
    found.functions = [one for one in found.functions if not one.address.startswith(CARD)]


def another_card(world: Datacenter) -> None:
    replace(host(world), f"{CARD}.0", device="0x2206")


def another_maker(world: Datacenter) -> None:
    replace(host(world), f"{CARD}.0", subsystem_device="0x9999")


def network_card_beside(world: Datacenter) -> None:
    replace(host(world), "0000:04:00.0", iommu_group=14)


def disk_beside(world: Datacenter) -> None:
    replace(host(world), "0000:05:00.0", iommu_group=14)


def usb_of_the_card(world: Datacenter) -> None:
    """A card with USB-C: its third and fourth function are part of it."""
    for number, kind in ((2, "0x0c0330"), (3, "0x0c8000")):
        host(world).functions.append(
            PciFunction(
                address=f"{CARD}.{number}",
                device_class=kind,
                vendor="0x10de",
                device="0x1ad6",
                iommu_group=14,
            )
        )


def bridge_beside(world: Datacenter) -> None:
    bridge = PciFunction(
        address="0000:00:09.0",
        device_class="0x060400",
        vendor="0x1022",
        device="0x1483",
        iommu_group=14,
    )
    host(world).functions.append(bridge)


def claimed_raw(world: Datacenter) -> None:
    world.vms[900] = Vm(vmid=900, node="pve", config={"name": "games", "hostpci0": "01:00,pcie=1"})


def claimed_by_mapping(world: Datacenter) -> None:
    entry = f"node=pve,path={CARD},id=10de:2204,iommugroup=14,subsystem-id=10de:1467"
    world.mappings["theirs"] = PciMapping(map=[entry])
    world.vms[900] = Vm(
        vmid=900, node="pve", config={"name": "games", "hostpci0": "mapping=theirs"}
    )


def another_card_claimed(world: Datacenter) -> None:
    world.vms[900] = Vm(vmid=900, node="pve", config={"name": "games", "hostpci0": "05:00,pcie=1"})


def two_devices(world: Datacenter) -> None:
    mapping(CARD)(world)
    other = "node=pve,path=0000:02:00,id=10de:2705,iommugroup=15,subsystem-id=10de:1816"
    world.mappings["k8s-worker-1-gpu0"].map.append(other)


def without(key: str) -> Callable[[Datacenter], None]:
    def put(world: Datacenter) -> None:
        mapping(CARD)(world)
        found = world.mappings["k8s-worker-1-gpu0"]
        kept = [part for part in found.map[0].split(",") if not part.startswith(f"{key}=")]
        found.map = [",".join(kept)]

    return put


def mapping(path: str, **change: str) -> Callable[[Datacenter], None]:
    fields = {
        "node": "pve",
        "path": path,
        "id": "10de:2204",
        "iommugroup": "14",
        "subsystem-id": "10de:1467",
        **change,
    }
    text = ",".join(f"{key}={value}" for key, value in fields.items())

    def put(world: Datacenter) -> None:
        world.mappings["k8s-worker-1-gpu0"] = PciMapping(map=[text])

    return put


def no_import(world: Datacenter) -> None:
    host(world).storages["local"].content = ["iso", "backup"]


def small_storage(world: Datacenter) -> None:
    host(world).storages["local-lvm"].capacity_gib = 20


def small_host(world: Datacenter) -> None:
    host(world).memory_mib = 16384


def few_processors(world: Datacenter) -> None:
    host(world).cpus = 1


def foreign_vm(world: Datacenter) -> None:
    world.vms[121] = Vm(vmid=121, node="pve", config={"name": "database"})


def own_running(world: Datacenter) -> None:
    """All of the stack runs, and the host's memory is its own but for what the host needs."""
    mapping(CARD)(world)
    host(world).memory_mib = 3 * 8192 + 2048
    for vmid, name in ((120, "k8s-cp-1"), (121, "k8s-worker-1"), (122, "k8s-worker-2")):
        config = {"name": name, "memory": "8192", "ipconfig0": f"ip=192.168.20.{vmid - 100}/24"}
        world.vms[vmid] = Vm(vmid=vmid, node="pve", config=config, pid=vmid)
    world.vms[121].config["hostpci0"] = "mapping=k8s-worker-1-gpu0,pcie=1"


def own_vm(world: Datacenter) -> None:
    world.vms[121] = Vm(vmid=121, node="pve", config={"name": "k8s-worker-1"})


def no_bridge(world: Datacenter) -> None:
    host(world).bridges = ["vmbr7"]


def address_taken(world: Datacenter) -> None:
    config = {"name": "database", "ipconfig0": "ip=192.168.20.21/24"}
    world.vms[900] = Vm(vmid=900, node="pve", config=config)


BROKEN = (
    (iommu_off, {"iommu"}, "IOMMU is off"),
    (card_gone, {"device"}, "no PCI device at 0000:01:00"),
    (another_card, {"device"}, "id is 10de:2206, not 10de:2204"),
    (another_maker, {"device"}, "subsystemId is 10de:9999"),
    (network_card_beside, {"iommu-group"}, "a network card"),
    (disk_beside, {"iommu-group"}, "0000:05:00.0 (an NVMe disk)"),
    (claimed_raw, {"device-free"}, "VM 900 (games) has it: hostpci0: 01:00"),
    (claimed_by_mapping, {"device-free"}, "VM 900 (games) has it: hostpci0: mapping=theirs"),
    (mapping("0000:05:00"), {"mapping"}, ""),
    (mapping(CARD, node="elsewhere"), {"mapping"}, "no entry for host pve"),
    (mapping(CARD, iommugroup="99"), {"mapping"}, ""),
    (without("iommugroup"), {"mapping"}, "missing expected property 'iommugroup'"),
    (without("subsystem-id"), {"mapping"}, "missing expected property 'subsystem-id'"),
    (two_devices, {"mapping"}, "also stands for 0000:02:00"),
    (no_import, {"storage"}, "does not take the content type import"),
    (small_storage, {"space"}, "GiB are needed"),
    (small_host, {"memory"}, "the host has 16384 MiB"),
    (few_processors, {"processors"}, "the host has 1 processors"),
    (foreign_vm, {"vm-id"}, "VM 121 exists: database"),
    (no_bridge, {"bridge"}, "there are vmbr7"),
    (address_taken, {"address"}, "VM 900 is configured with 192.168.20.21"),
)


@pytest.mark.parametrize(
    ("change", "ids", "cause"),
    BROKEN,
    ids=[f"{n}-{sorted(ids)[0]}" for n, (_, ids, _) in enumerate(BROKEN)],
)
def test_what_is_wrong_is_found(
    served: Served, change: Callable[[Datacenter], None], ids: set[str], cause: str
) -> None:
    with served.rack.lock() as world:
        change(world)
    report = run(served)
    assert failed(report) == ids
    assert report.exit_code == 1
    assert any(cause in one.cause for one in report.failures)
    assert all(one.fix or one.status == "could-not-tell" for one in report.failures)


@pytest.mark.parametrize(
    "change",
    [
        lambda world: None,
        bridge_beside,
        usb_of_the_card,
        another_card_claimed,
        own_vm,
        own_running,
        mapping(CARD),
    ],
)
def test_what_is_right_passes(served: Served, change: Callable[[Datacenter], None]) -> None:
    with served.rack.lock() as world:
        change(world)
    report = run(served)
    assert failed(report) == set()
    assert report.exit_code == 0
    assert {one.id for one in report.findings} == set(CHECKS)


def test_every_function_of_the_group_is_named(served: Served) -> None:
    found = [one for one in run(served).findings if one.id == "iommu-group"]
    assert f"{CARD}.0, {CARD}.1" in found[0].cause


def test_the_corrected_mapping_is_printed(served: Served) -> None:
    with served.rack.lock() as world:
        mapping("0000:05:00")(world)
    (found,) = [one for one in run(served).failures if one.id == "mapping"]
    entry = f"node=pve,path={CARD},id=10de:2204,subsystem-id=10de:1467,iommugroup=14"
    assert f"pvesh set /cluster/mapping/pci/k8s-worker-1-gpu0 --map {entry}" in found.fix


def test_a_group_is_accepted_by_its_name(served: Served, tmp_path: Path) -> None:
    with served.rack.lock() as world:
        network_card_beside(world)
    done = command(served, tmp_path)
    assert "--ignore iommu-group:pve/14" in done.output
    assert command(served, tmp_path, "--ignore", "iommu-group:pve/14").exit_code == 0
    assert command(served, tmp_path, "--ignore", "iommu-group:pve/15").exit_code == 1
    unknown = command(served, tmp_path, "--ignore", "iommu-group:pve/99")
    assert "no finding has this name" in unknown.stderr


def test_memory_that_leaves_nothing_for_the_host_is_a_warning(served: Served) -> None:
    with served.rack.lock() as world:
        host(world).memory_mib = 3 * 8192 + 1024
    (found,) = [one for one in run(served).findings if one.id == "memory"]
    assert (found.status, found.cause.split()[0]) == ("warning", "1024")


def test_a_vlan_wants_a_bridge_that_knows_of_it(served: Served) -> None:
    vlan = {"network": {"vlan": 20}}
    (found,) = [one for one in run(served, proxmox=vlan).findings if one.id == "bridge"]
    assert (found.status, "bridge-vlan-aware yes on vmbr0" in found.fix) == ("warning", True)
    (found,) = [one for one in run(served).findings if one.id == "bridge"]
    assert found.status == "passed"


def test_an_id_that_only_others_may_see(served: Served) -> None:
    user = served.token.partition("!")[0]
    with served.rack.lock() as world:
        foreign_vm(world)
        world.access.acl.append(AclEntry(path="/vms/121", who=user, role="NoAccess"))
    (found,) = [one for one in run(served).failures if one.id == "vm-id"]
    assert "the token may not see" in found.cause


def test_a_container_with_the_id_is_not_ours(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers share the ids of VMs."""
    with served.rack.lock() as world:
        own_vm(world)
    ask = Client._ask

    def as_container(self: Client, path: str) -> Any:
        found = ask(self, path)
        if path == "cluster/resources?type=vm":
            return [{**one, "type": "lxc"} for one in found]
        return found

    assert failed(run(served)) == set()
    monkeypatch.setattr(Client, "_ask", as_container)
    assert failed(run(served)) == {"vm-id"}


def test_a_host_that_is_not_there_is_one_finding(served: Served, tmp_path: Path) -> None:
    report = run(served, nodes={"k8s-worker-2": {"host": "pve2"}})
    (found,) = report.failures
    assert (found.id, found.cause) == ("host", "there is no host pve2; there are pve")
    asked = {one.subject for one in report.findings if one.id == "device"}
    assert asked == {"k8s-worker-1: RTX 3090 at 0000:01:00 on pve"}
    assert report.ignoring({"host"}).exit_code == 1  # nothing of it was checked


def test_a_host_that_is_off_is_one_finding(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Client._ask

    def off(self: Client, path: str) -> Any:
        return [{"node": "pve", "status": "offline"}] if path == "nodes" else ask(self, path)

    monkeypatch.setattr(Client, "_ask", off)
    assert failed(run(served)) == {"host"}


def test_the_values_of_another_card_are_printed_for_the_stack_file(served: Served) -> None:
    with served.rack.lock() as world:
        another_maker(world)
    (found,) = run(served).failures
    assert 'subsystemId: "10de:9999"\niommuGroup: 14' in found.fix


def test_the_command(served: Served, tmp_path: Path) -> None:
    done = command(served, tmp_path)
    assert done.exit_code == 0, done.output
    assert "ok             iommu" in done.output
    with served.rack.lock() as world:
        no_bridge(world)
    report = tmp_path / "report.xml"
    done = command(served, tmp_path, "--junit", str(report))
    assert done.exit_code == 1
    assert "--ignore bridge" in done.output
    assert Xml.parse(report).getroot().get("failures") == "1"
    assert command(served, tmp_path, "--ignore", "bridge").exit_code == 0
    wrong = command(served, tmp_path, "--ignore", "brigde")
    assert wrong.exit_code == 2
    found = json.loads(command(served, tmp_path, "--json").stdout)
    assert (found["ok"], found["exitCode"]) == (False, 1)


def test_the_page_lists_every_check() -> None:
    text = (DOCS / "preflight.md").read_text()
    assert [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")] == [*CHECKS]
