"""What becomes of an operation that was under way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpu_passthrough.recover.cluster import Revision, unfinished
from gpu_passthrough.recover.pending import Pending, World, judge, pending_operations

VM = "proxmoxve:index/vmLegacy:VmLegacy"
MAPPING = "proxmoxve:hardware/mapping/pci:Pci"
FILE = "proxmoxve:download/file:File"
BOOTSTRAP = "talos:machine/bootstrap:Bootstrap"
SECRETS = "talos:machine/secrets:Secrets"
RELEASE = "kubernetes:helm.sh/v3:Release"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
PATCH = "kubernetes:node.k8s.io/v1:RuntimeClassPatch"

INPUTS: dict[str, dict[str, Any]] = {
    VM: {"nodeName": "pve", "vmId": 111, "name": "k8s-worker-1"},
    MAPPING: {"name": "card"},
    FILE: {
        "nodeName": "pve",
        "datastoreId": "local",
        "contentType": "import",
        "fileName": "talos.qcow2",
    },
    RELEASE: {"name": "gpu-operator", "namespace": "gpu-operator"},
    DEPLOYMENT: {
        "apiVersion": "apps/v1",
        "metadata": {"name": "immich", "namespace": "immich"},
    },
}


@dataclass
class Host:
    """A Proxmox host with these things."""

    vms: dict[int, dict[str, Any]] = field(default_factory=dict)
    mappings: set[str] = field(default_factory=set)
    volumes: set[str] = field(default_factory=set)

    def vm(self, node: str, vmid: int) -> Mapping[str, Any] | None:
        return self.vms.get(vmid)

    def mapping(self, name: str) -> bool:
        return name in self.mappings

    def volume(self, node: str, storage: str, volume: str) -> bool:
        return volume in self.volumes


@dataclass
class Kube:
    """A cluster with these things."""

    objects: set[str] = field(default_factory=set)
    status: str = ""

    def answers(self) -> bool:
        return True

    def exists(self, api_version: str, kind: str, namespace: str, name: str) -> bool:
        return f"{kind} {namespace}/{name}" in self.objects

    def release(self, namespace: str, name: str) -> str:
        return self.status


def pending(kind: str, what: str = "creating") -> Pending:
    return Pending(f"urn:pulumi:dev::p::{kind}::it", kind, what, INPUTS.get(kind, {}))


OURS = {"status": "running", "name": "k8s-worker-1"}


@pytest.mark.parametrize(
    ("kind", "host", "found"),
    [
        pytest.param(VM, Host(vms={111: OURS}), "111", id="vm"),
        pytest.param(VM, Host(), "", id="no-vm"),
        pytest.param(MAPPING, Host(mappings={"card"}), "card", id="mapping"),
        pytest.param(MAPPING, Host(mappings={"other"}), "", id="no-mapping"),
        pytest.param(
            FILE,
            Host(volumes={"local:import/talos.qcow2"}),
            "local:import/talos.qcow2",
            id="file",
        ),
        pytest.param(FILE, Host(), "", id="no-file"),
    ],
)
def test_what_exists_on_the_host_is_taken(kind: str, host: Host, found: str) -> None:
    verdict = judge(pending(kind), World(host, None))
    assert verdict.is_clear
    assert verdict.found == found


@pytest.mark.parametrize(
    ("vm", "says"),
    [
        ({"status": "stopped", "name": "k8s-worker-1", "lock": "create"}, "qm unlock 111"),
        ({"status": "running", "name": "database"}, "is called database"),
    ],
    ids=["locked", "somebody-elses"],
)
def test_what_only_a_person_can_settle_stays_open(vm: dict[str, Any], says: str) -> None:
    verdict = judge(pending(VM), World(Host(vms={111: vm}), None))
    assert not verdict.is_clear
    assert says in verdict.why


@pytest.mark.parametrize("kind", [VM, MAPPING, FILE, RELEASE, DEPLOYMENT])
def test_nothing_is_forgotten_unasked(kind: str) -> None:
    assert not judge(pending(kind), World(None, None)).is_clear


@pytest.mark.parametrize("what", ["updating", "deleting", "reading"])
@pytest.mark.parametrize(
    ("kind", "world", "is_read"),
    [
        pytest.param(VM, World(None, None), True, id="vm"),
        pytest.param(DEPLOYMENT, World(None, Kube()), True, id="deployment"),
        pytest.param(DEPLOYMENT, World(None, None), False, id="dead-cluster"),
    ],
)
def test_what_was_changing_is_read_where_it_can_be(
    what: str, kind: str, world: World, is_read: bool
) -> None:
    verdict = judge(pending(kind, what), world)
    assert (verdict.is_clear, verdict.found, verdict.is_read) == (True, "", is_read)


@pytest.mark.parametrize("kind", [SECRETS, PATCH])
def test_what_can_be_repeated_is_cleared(kind: str) -> None:
    verdict = judge(pending(kind), World(Host(), Kube()))
    assert (verdict.is_clear, verdict.found) == (True, "")


def test_a_cluster_that_answers_was_bootstrapped() -> None:
    assert judge(pending(BOOTSTRAP), World(None, Kube())).found == "machine_bootstrap"
    assert judge(pending(BOOTSTRAP), World(None, None)).found == ""


def test_objects_of_the_cluster() -> None:
    there = World(None, Kube({"Deployment immich/immich"}))
    assert judge(pending(DEPLOYMENT), there).found == "immich/immich"
    assert judge(pending(DEPLOYMENT), World(None, Kube())).found == ""


@pytest.mark.parametrize(
    ("status", "found"),
    [("deployed", "gpu-operator/gpu-operator"), ("pending-install", ""), ("failed", ""), ("", "")],
)
def test_only_a_deployed_release_is_taken(status: str, found: str) -> None:
    verdict = judge(pending(RELEASE), World(None, Kube(status=status)))
    assert (verdict.is_clear, verdict.found) == (True, found)


def test_operations_of_a_state() -> None:
    operation = {"resource": {"urn": "u", "type": VM, "inputs": {"vmId": 1}}, "type": "creating"}
    assert pending_operations({"deployment": {"pending_operations": [operation]}}) == [
        Pending("u", VM, "creating", {"vmId": 1})
    ]
    assert pending_operations({"deployment": {}}) == []


def revision(number: int, status: str, release: str = "gpu-operator") -> Revision:
    return Revision(f"s{number}", "gpu-operator", release, number, status)


@pytest.mark.parametrize(
    ("revisions", "expected"),
    [
        pytest.param([revision(1, "pending-install")], [1], id="first"),
        pytest.param([revision(1, "deployed"), revision(2, "pending-upgrade")], [2], id="second"),
        pytest.param([revision(2, "pending-upgrade"), revision(1, "deployed")], [2], id="unsorted"),
        pytest.param([revision(1, "pending-install"), revision(2, "deployed")], [], id="passed"),
        pytest.param([revision(1, "deployed")], [], id="healthy"),
        pytest.param([revision(1, "failed")], [], id="failed-goes-on"),
        pytest.param(
            [revision(1, "deployed"), revision(1, "pending-install", "other")], [1], id="two"
        ),
    ],
)
def test_releases_that_helm_would_not_go_on_from(
    revisions: list[Revision], expected: list[int]
) -> None:
    assert [one.number for one in unfinished(revisions)] == expected
