"""Preflight against the rack's Proxmox API: each check with what it finds, and its neighbour."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as Xml
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpu_passthrough.checks.report import Report
from gpu_passthrough.cli import app
from gpu_passthrough.config import Stack
from gpu_passthrough.judging import judge
from gpu_passthrough.preflight.client import TOKEN
from gpu_passthrough.preflight.registry import CHECKS
from gpu_passthrough.preflight.role import commands, missing, privileges
from gpu_passthrough.preflight.run import preflight
from rack.world import access
from rack.world.datacenter import Datacenter
from rack.world.host import Host
from rack.world.mapping import PciMapping
from rack.world.pci import PciFunction
from rack.world.qemu import Vm
from tests.rack.proxmoxserver import Served
from tests.unit.stacks import changed

CARD = "0000:01:00"
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    made = Served(tmp_path)
    monkeypatch.setenv(TOKEN, made.token)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(made.settings.certificate))
    yield made
    made.close()


def stack_of(served: Served, **change: Any) -> Stack:
    """The document's stack on the served host."""
    site = {"endpoint": f"https://127.0.0.1:{served.port}"}
    values = changed({"proxmox": site, **change})
    for name, subsystem in (("k8s-worker-1", "10de:1467"), ("k8s-worker-2", "10de:1816")):
        if name in values["nodes"]:
            values["nodes"][name]["gpus"][0].setdefault("subsystemId", subsystem)
            values["nodes"][name]["gpus"][0]["subsystemId"] = subsystem
    return judge(values)


def run(served: Served, **change: Any) -> Report:
    stack = stack_of(served, **change)
    assert stack.proxmox is not None
    return preflight("test", stack, stack.proxmox)


def failed(report: Report) -> set[str]:
    return {one.id for one in report.failures}


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
    (claimed_raw, {"device-free"}, "VM 900 (games) has it: hostpci0: 01:00"),
    (claimed_by_mapping, {"device-free"}, "VM 900 (games) has it: hostpci0: mapping=theirs"),
    (mapping("0000:05:00"), {"mapping"}, ""),
    (mapping(CARD, node="elsewhere"), {"mapping"}, "no entry for host pve"),
    (mapping(CARD, iommugroup="99"), {"mapping"}, ""),
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
    "change", [lambda world: None, bridge_beside, another_card_claimed, own_vm, mapping(CARD)]
)
def test_what_is_right_passes(served: Served, change: Callable[[Datacenter], None]) -> None:
    with served.rack.lock() as world:
        change(world)
    report = run(served)
    assert failed(report) == set()
    assert report.exit_code == 0
    assert {one.id for one in report.findings} == set(CHECKS)


@pytest.mark.parametrize("privilege", privileges())
def test_each_missing_privilege_is_named(
    served: Served, monkeypatch: pytest.MonkeyPatch, privilege: str
) -> None:
    role = access.ROLES["GpuPassthrough"]
    monkeypatch.setitem(access.ROLES, "GpuPassthrough", role - {privilege})
    report = run(served)
    (finding,) = [one for one in report.findings if one.id == "permissions"]
    assert finding.status == "failed"
    assert privilege in finding.cause
    assert "pveum role add" in finding.fix


def test_the_documented_commands_are_the_printed_ones() -> None:
    text = (DOCS / "real-hardware.md").read_text()
    assert all(line in text for line in commands().splitlines())


def test_privileges_that_are_handed_down_count() -> None:
    everything = dict.fromkeys(privileges(), 1)
    assert not list(missing({"/": everything}))
    only_here = dict.fromkeys(privileges(), 0)
    assert {need.path for need, _ in missing({"/": only_here})} >= {"/vms", "/storage"}
    assert {need.path for need, _ in missing({"/": everything, "/vms": {}})} == {"/vms"}


def test_every_function_of_the_group_is_named(served: Served) -> None:
    found = [one for one in run(served).findings if one.id == "iommu-group"]
    assert f"{CARD}.0, {CARD}.1" in found[0].cause


def test_the_corrected_mapping_is_printed(served: Served) -> None:
    with served.rack.lock() as world:
        mapping("0000:05:00")(world)
    (found,) = [one for one in run(served).failures if one.id == "mapping"]
    entry = f"node=pve,path={CARD},id=10de:2204,subsystem-id=10de:1467,iommugroup=14"
    assert f"pvesh set /cluster/mapping/pci/k8s-worker-1-gpu0 --map {entry}" in found.fix


def test_it_only_reads(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    import requests

    methods: set[str] = set()
    before = requests.Session.request

    def request(self: Any, method: str, *args: Any, **options: Any) -> Any:
        methods.add(method.upper())
        return before(self, method, *args, **options)

    monkeypatch.setattr(requests.Session, "request", request)
    run(served)
    assert methods == {"GET"}


@pytest.mark.parametrize(
    ("token", "says"),
    [
        ("", "there is no API token"),
        ("nonsense", "not of the form"),
        ("pulumi@pve!gpu-passthrough=00000000-0000-0000-0000-000000000000", "does not accept"),
    ],
)
def test_tokens_that_do_not_work(
    served: Served, monkeypatch: pytest.MonkeyPatch, token: str, says: str
) -> None:
    monkeypatch.setenv(TOKEN, token)
    report = run(served)
    (finding,) = report.findings
    assert (finding.id, report.exit_code) == ("permissions", 1)
    assert says in finding.cause
    assert "00000000" not in finding.cause


def test_a_host_that_is_not_there(served: Served) -> None:
    served.close()
    report = run(served)
    assert (report.exit_code, report.unreachable) == (3, True)
    assert "the connection fails" in report.findings[0].cause


def test_a_certificate_that_nobody_knows(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    report = run(served)
    assert report.exit_code == 3
    assert "certificate verify failed" in report.findings[0].cause
    assert "proxmox.insecure" in report.findings[0].fix


def command(served: Served, tmp_path: Path, *arguments: str) -> Any:
    """Run the command on a stack file for the served host."""
    stack = stack_of(served).model_dump(mode="json", by_alias=True, exclude_none=True)
    config = {f"gpu-passthrough:{key}": value for key, value in stack.items()}
    file = tmp_path / "Pulumi.test.yaml"
    file.write_text(json.dumps({"config": config}))
    return CliRunner().invoke(app, ["preflight", str(file), *arguments])


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


def test_the_secret_is_shown_nowhere(served: Served, tmp_path: Path) -> None:
    secret = os.environ[TOKEN].partition("=")[2]
    with served.rack.lock() as world:
        iommu_off(world)
    for arguments in ([], ["--json"]):
        assert secret not in command(served, tmp_path, *arguments).output


def test_the_page_lists_every_check() -> None:
    text = (DOCS / "preflight.md").read_text()
    assert [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")] == [*CHECKS]
