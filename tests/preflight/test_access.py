"""What the token may do: each privilege that is missing is named, with its path, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpu_passthrough.cli import app
from gpu_passthrough.preflight.role import (
    USER,
    Grant,
    commands,
    grants,
    missing,
    narrow_commands,
    privileges,
)
from rack.world import access
from rack.world.access import AclEntry
from tests.model.proxmoxworld import IMAGE, IMAGE_URL
from tests.preflight.ground import CARD, failed, run, stack_file, stack_of
from tests.rack.proxmoxserver import Served

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def narrow(served: Served, monkeypatch: pytest.MonkeyPatch) -> list[Grant]:
    """The token has the roles of the printed commands on the stack's own paths."""
    stack = stack_of(served)
    assert stack.proxmox is not None
    roles, found = grants(stack, stack.proxmox)
    for name, held in roles.items():
        monkeypatch.setitem(access.ROLES, name, held)
    give(served, found)
    return found


def give(served: Served, found: list[Grant]) -> None:
    user = served.token.partition("!")[0]
    with served.rack.lock() as world:
        world.access.acl = [
            AclEntry(path=one.path, who=user, role=one.role, propagate=one.propagates)
            for one in found
        ]


def cause(served: Served) -> str:
    (finding,) = [one for one in run(served).findings if one.id == "permissions"]
    return finding.cause if finding.status == "failed" else ""


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
    assert not [one for one in privileges() if one != privilege and f"{one} on" in finding.cause]
    assert "pveum role add" in finding.fix


def test_the_narrow_roles_are_enough(served: Served, narrow: list[Grant]) -> None:
    report = run(served)
    assert failed(report) == set()
    assert cause(served) == ""


def test_what_the_narrow_token_cannot_see_is_no_pass(served: Served, narrow: list[Grant]) -> None:
    """Proxmox VE leaves VMs out of its lists that the token may not see."""
    found = {(one.id, one.status) for one in run(served).findings}
    for id_ in ("device-free", "memory"):
        assert (id_, "could-not-tell") in found
        assert (id_, "passed") not in found


def test_without_one_of_them_its_path_is_named(served: Served, narrow: list[Grant]) -> None:
    for gone in narrow:
        give(served, [one for one in narrow if one is not gone])
        assert f"on {gone.path} (" in cause(served).replace(", /", " on /"), gone
    give(served, narrow)
    assert cause(served) == ""


def test_an_entry_below_takes_away_what_is_handed_down(served: Served) -> None:
    user = served.token.partition("!")[0]
    with served.rack.lock() as world:
        world.access.acl.append(AclEntry(path="/vms/121", who=user, role="NoAccess"))
    assert "VM.Allocate" in cause(served)
    assert "/vms/121" in cause(served)
    assert "/vms/122" not in cause(served)


def test_the_narrow_roles_build_the_stack(served: Served, narrow: list[Grant]) -> None:
    """The same requests as the provider's, with no more rights than the commands give."""
    entry = f"id=10de:2204,iommugroup=14,node=pve,path={CARD},subsystem-id=10de:1467"
    vm = {
        "vmid": 121,
        "name": "k8s-worker-1",
        "memory": 8192,
        "machine": "q35",
        "bios": "ovmf",
        "efidisk0": "local-lvm:1,efitype=4m,pre-enrolled-keys=0",
        "scsi0": f"local-lvm:0,import-from={IMAGE}",
        "net0": "virtio,bridge=vmbr0",
        "ide2": "local-lvm:cloudinit",
        "ipconfig0": "ip=192.168.20.21/24,gw=192.168.20.1",
        "hostpci0": "mapping=k8s-worker-1-gpu0,pcie=1",
        "balloon": 0,
    }
    node = "/nodes/pve"
    image = {"content": "import", "filename": "talos.qcow2", "url": IMAGE_URL}
    steps: list[tuple[str, str, dict[str, Any] | None]] = [
        ("POST", "/cluster/mapping/pci", {"id": "k8s-worker-1-gpu0", "map": entry}),
        ("GET", f"{node}/query-url-metadata?url={IMAGE_URL}", None),
        ("POST", f"{node}/storage/local/download-url", image),
        ("POST", f"{node}/qemu", vm),
        ("PUT", f"{node}/qemu/121/resize", {"disk": "scsi0", "size": "60G"}),
        ("POST", f"{node}/qemu/121/config", {"cores": 4, "description": "changed"}),
        ("POST", f"{node}/qemu/121/status/start", None),
        ("POST", f"{node}/qemu/121/status/stop", None),
        ("DELETE", f"{node}/qemu/121?purge=1", None),
        ("DELETE", f"{node}/storage/local/content/{IMAGE}", None),
        ("DELETE", "/cluster/mapping/pci/k8s-worker-1-gpu0", None),
    ]
    for method, path, data in steps:
        answer = served.raw(method, path, data=data)
        assert answer.ok, (method, path, answer.reason)
    with served.rack.lock() as world:
        assert [task.exit_status for task in world.tasks] == ["OK"] * len(world.tasks)
        assert world.vms == {}


def test_a_fleet_is_a_few_paths_and_a_number(served: Served) -> None:
    stack = stack_of(served)
    assert stack.proxmox is not None
    many = stack.model_copy(
        update={
            "nodes": {
                f"w{n}": stack.nodes["k8s-cp-1"].model_copy(update={"vm_id": n})
                for n in range(100, 200)
            }
        }
    )
    found = {one.need.kind: str(one) for one in missing(many, stack.proxmox, lambda path: ())}
    assert "on /vms/100, /vms/101, /vms/102, /vms/103 and 96 more" in found["Vms"]
    assert "Mappings" not in found  # no cards, no mappings
    assert not list(missing(many, stack.proxmox, lambda path: privileges()))


def test_a_network_of_sdn_is_seen_only_by_who_may_use_it(
    served: Served, narrow: list[Grant], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpu_passthrough.preflight.client import Client

    ask = Client._ask

    def with_vnet(self: Client, path: str) -> Any:
        vnet = {"iface": "vmbr0", "type": "vnet", "active": "1"}
        return [vnet] if path.endswith("network?type=any_bridge") else ask(self, path)

    give(served, [one for one in narrow if "/sdn/" not in one.path])
    assert "SDN.Use" in cause(served)
    monkeypatch.setattr(Client, "_ask", with_vnet)
    assert cause(served) == ""
    assert "bridge" not in failed(run(served))


def test_the_documented_commands_are_the_printed_ones() -> None:
    text = (DOCS / "real-hardware.md").read_text()
    assert all(line in text for line in commands().splitlines())


def test_the_command_prints_one_role_or_the_narrow_ones(served: Served, tmp_path: Path) -> None:
    everywhere = CliRunner().invoke(app, ["role"])
    assert everywhere.output.strip() == commands()
    done = CliRunner().invoke(app, ["role", str(stack_file(served, tmp_path))])
    assert done.exit_code == 0
    stack = stack_of(served)
    assert stack.proxmox is not None
    assert done.output.strip() == narrow_commands(stack, stack.proxmox)
    lines = done.output.splitlines()
    assert f"pveum acl modify / --users {USER} --roles GpuPassthroughDevices --propagate 0" in lines
    assert f"pveum acl modify /vms/121 --users {USER} --roles GpuPassthroughVms" in lines
    assert not [line for line in lines if " /vms " in line or " /storage " in line]
