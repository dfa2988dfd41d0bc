"""What kubelets report of their machines."""

from __future__ import annotations

import pytest

from rack.cluster.nodes import LEASES, NODES, RENEW_S, Nodes
from tests.model.podworld import node as machine
from tests.rack.fakekube import FakeKube

NOW = 1_800_000_000.0
TAINT = {"key": "a", "value": "b", "effect": "NoSchedule"}
LABEL = "extensions.talos.dev/nvidia-open-gpu-kernel-modules-lts"
NODE = machine().model_copy(
    update={"name": "worker", "taints": (TAINT,), "labels": {LABEL: "580.178.04-v1.13.9"}}
)
PATH = f"{NODES}/worker"


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


@pytest.fixture
def nodes(kube: FakeKube) -> Nodes:
    made = Nodes(kube, 10247)
    made.report([NODE], NOW)
    return made


def conditions(kube: FakeKube) -> dict[str, str]:
    return {one["type"]: one["status"] for one in kube.objects[PATH]["status"]["conditions"]}


def test_a_machine_registers_as_talos_does(kube: FakeKube, nodes: Nodes) -> None:
    found = kube.objects[PATH]
    assert found["metadata"]["labels"].items() >= NODE.labels.items()
    assert found["metadata"]["annotations"].items() >= NODE.annotations.items()
    assert found["spec"]["taints"] == [TAINT]
    info = found["status"]["nodeInfo"]
    assert (info["osImage"], info["bootID"]) == (NODE.os_image, NODE.boot_id)
    assert conditions(kube)["Ready"] == "True"
    assert "nvidia.com/gpu" not in found["status"]["capacity"]


def test_nothing_is_written_while_nothing_changes(kube: FakeKube, nodes: Nodes) -> None:
    kube.writes.clear()
    nodes.report([NODE], NOW + RENEW_S - 1)
    assert kube.writes == []
    nodes.report([NODE], NOW + RENEW_S)
    assert kube.writes == [("PATCH", f"{LEASES}/worker")]


def test_the_device_plugins_resource_stays(kube: FakeKube, nodes: Nodes) -> None:
    for part in ("capacity", "allocatable"):
        kube.objects[PATH]["status"][part]["nvidia.com/gpu"] = "1"
    nodes.report([NODE.model_copy(update={"boot_id": "another"})], NOW + 1)
    status = kube.objects[PATH]["status"]
    assert status["nodeInfo"]["bootID"] == "another"
    assert status["capacity"]["nvidia.com/gpu"] == status["allocatable"]["nvidia.com/gpu"] == "1"


def test_one_that_was_given_up_says_that_it_is_ready_again(kube: FakeKube, nodes: Nodes) -> None:
    for one in kube.objects[PATH]["status"]["conditions"]:
        one["status"] = "Unknown"
    nodes.report([NODE], NOW + RENEW_S)
    assert conditions(kube)["Ready"] == "True"


def test_a_condition_keeps_the_time_of_its_change(kube: FakeKube, nodes: Nodes) -> None:
    since = {
        one["type"]: one["lastTransitionTime"] for one in kube.objects[PATH]["status"]["conditions"]
    }
    nodes.report([NODE.model_copy(update={"boot_id": "another"})], NOW + 60)
    for one in kube.objects[PATH]["status"]["conditions"]:
        assert one["lastTransitionTime"] == since[one["type"]] < one["lastHeartbeatTime"]


def test_a_machine_that_is_off_reports_nothing_and_stays(kube: FakeKube, nodes: Nodes) -> None:
    kube.writes.clear()
    nodes.report([], NOW + 100)
    assert kube.writes == []
    assert PATH in kube.objects


def test_a_label_that_talos_sets_comes_back(kube: FakeKube, nodes: Nodes) -> None:
    kube.objects[PATH]["metadata"]["labels"] |= {LABEL: "other", "mine": "kept"}
    nodes.report([NODE], NOW + RENEW_S)
    labels = kube.objects[PATH]["metadata"]["labels"]
    assert (labels[LABEL], labels["mine"]) == (NODE.labels[LABEL], "kept")
