"""The operator's controller on an API server in memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest

from rack.cluster.api import Object
from rack.cluster.operator import POLL_S, OperatorController
from rack.cluster.operator_reconcile import RUNTIME_CLASSES
from rack.cluster.operator_snapshot import POLICIES
from rack.rack import Rack
from rack.settings import Settings
from rack.world.nodefacts import NodeFacts
from tests.model.operatorworld import policy
from tests.model.podworld import RTX_3090, RTX_4070, node
from tests.rack.fakekube import FakeKube

NAMESPACE = "gpu-operator"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
DAEMON_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
POLICY = f"{POLICIES}/cluster-policy"
NVIDIA = f"{RUNTIME_CLASSES}/nvidia"
NFD = {"app.kubernetes.io/name": "node-feature-discovery"}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
AVAILABLE = {"availableReplicas": 1}
WORKER = "k8s-worker-1"
PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"


class Cluster:
    """A control plane node, a worker with a card, and everything that the chart installs."""

    def __init__(self, tmp_path: Path, *gpus: Any) -> None:
        self.api = FakeKube()
        worker = node(*(gpus or (RTX_3090,)))
        plain = node().model_copy(update={"name": "k8s-cp-1"})
        self.facts: dict[str, NodeFacts] = {one.name: one for one in (worker, plain)}
        for name in self.facts:
            self.api.put(f"/api/v1/nodes/{name}", {"status": {}})
            self.pod(name, f"nfd-worker-{name}", "worker", "nfd", {**NFD, "role": "worker"})
        settings = Settings(home=tmp_path)
        self.controller = OperatorController(cast("Rack", None), settings)
        master = {"metadata": {"labels": {**NFD, "role": "master"}}, "status": AVAILABLE}
        self.api.put(f"{DEPLOYMENTS}/nfd-master", master)
        operator = {"metadata": {"namespace": NAMESPACE}, "status": AVAILABLE}
        self.api.put(f"{DEPLOYMENTS}/gpu-operator", operator)

    def pod(
        self, at: str, name: str, container: str, image: str, labels: dict[str, str] | None = None
    ) -> None:
        """A ready pod on a node."""
        spec = {"nodeName": at, "containers": [{"name": container, "image": image}]}
        metadata = {"labels": labels or {}}
        self.api.put(f"{PODS}/{name}", {"metadata": metadata, "spec": spec, "status": READY})

    def install(self, version: str = "v24.9.2", **changes: Any) -> None:
        """Create the ClusterPolicy."""
        made = policy(version, **changes)
        made["metadata"] = {"name": "cluster-policy"}
        self.api.put(POLICY, made)

    def look(self, times: int = 1) -> None:
        """Let the controller look."""
        for _ in range(times):
            self.controller.act(self.api, self.facts)

    def labels(self, name: str = WORKER) -> dict[str, str]:
        """Labels of a node."""
        return self.api.objects[f"/api/v1/nodes/{name}"]["metadata"].get("labels") or {}

    def gpus(self, name: str = WORKER) -> str | None:
        """What a node offers."""
        found = self.api.objects[f"/api/v1/nodes/{name}"]["status"].get("allocatable") or {}
        return found.get("nvidia.com/gpu")

    @property
    def daemon_sets(self) -> dict[str, Object]:
        """The operator's daemon sets by name."""
        return {one["metadata"]["name"]: one for one in self.api.list(DAEMON_SETS)}

    def run_daemon_sets(self, unavailable: int = 0) -> None:
        """Report that one pod of each runs, or does not."""
        for name, one in self.daemon_sets.items():
            of = {
                "observedGeneration": one["metadata"]["generation"],
                "desiredNumberScheduled": 1,
                "numberUnavailable": unavailable,
            }
            self.api.merge(f"{DAEMON_SETS}/{name}/status", {"status": of})

    @property
    def status(self) -> tuple[str, str]:
        """State of the ClusterPolicy and the reason of its true condition."""
        found = self.api.objects[POLICY].get("status") or {}
        reasons = [one["reason"] for one in found.get("conditions", ()) if one["status"] == "True"]
        return found.get("state", ""), "".join(reasons)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_nfd_labels_nodes_without_the_operator(cluster: Cluster) -> None:
    cluster.look()
    assert cluster.labels()["feature.node.kubernetes.io/pci-10de.present"] == "true"
    assert "feature.node.kubernetes.io/pci-10de.present" not in cluster.labels("k8s-cp-1")
    assert "nvidia.com/gpu.present" not in cluster.labels()


def test_the_operator_makes_its_objects_and_owns_them(cluster: Cluster) -> None:
    cluster.install()
    cluster.look(2)
    assert cluster.labels()["nvidia.com/gpu.present"] == "true"
    assert set(cluster.daemon_sets) >= {"nvidia-operator-validator", "gpu-feature-discovery"}
    uid = cluster.api.objects[POLICY]["metadata"]["uid"]
    for made in (cluster.api.objects[NVIDIA], *cluster.daemon_sets.values()):
        assert made["metadata"]["ownerReferences"][0]["uid"] == uid
        assert made["metadata"]["ownerReferences"][0]["controller"]
    assert cluster.status == ("notReady", "OperandNotReady")
    cluster.run_daemon_sets()
    cluster.look()
    assert cluster.status == ("ready", "Reconciled")


def test_nothing_happens_while_the_operators_pod_does_not_run(cluster: Cluster) -> None:
    cluster.api.merge(f"{DEPLOYMENTS}/gpu-operator", {"status": {"availableReplicas": None}})
    cluster.install()
    cluster.look(2)
    assert NVIDIA not in cluster.api.objects
    assert cluster.status == ("", "")


def test_a_ready_operator_writes_nothing_more(cluster: Cluster) -> None:
    cluster.install()
    cluster.look(2)
    cluster.run_daemon_sets()
    cluster.look(2)
    cluster.api.writes.clear()
    cluster.look(3)
    assert cluster.api.writes == []


def test_the_runtime_class_is_overwritten_at_every_event(cluster: Cluster) -> None:
    foreign = {
        "handler": "nvidia",
        "metadata": {"labels": {"mine": "yes"}, "annotations": {"a": "b"}},
    }
    cluster.api.put(NVIDIA, foreign)
    cluster.install()
    cluster.look(2)
    metadata = cluster.api.objects[NVIDIA]["metadata"]
    assert metadata["labels"] == {"app.kubernetes.io/component": "gpu-operator"}
    assert "annotations" not in metadata


def test_a_deleted_runtime_class_comes_back_with_the_next_event_only(cluster: Cluster) -> None:
    cluster.install()
    cluster.look(2)
    cluster.run_daemon_sets()
    cluster.look(2)
    cluster.api.delete(NVIDIA)
    cluster.look(2)
    assert NVIDIA not in cluster.api.objects
    cluster.run_daemon_sets(unavailable=1)
    cluster.look()
    assert NVIDIA in cluster.api.objects


@pytest.mark.parametrize(
    ("labels", "wakes"),
    [
        ({"new": "yes"}, False),
        ({"nvidia.com/gpu.deploy.device-plugin": None}, False),
        ({"nvidia.com/gpu.deploy.operands": "false"}, True),
        ({"nvidia.com/gpu.workload.config": "vm-passthrough"}, True),
        ({"nvidia.com/gpu.present": None}, True),
    ],
)
def test_few_labels_of_a_node_wake_the_operator(
    cluster: Cluster, labels: dict[str, str | None], wakes: bool
) -> None:
    cluster.install()
    cluster.look(2)
    cluster.run_daemon_sets()
    cluster.look(2)
    cluster.api.delete(NVIDIA)
    cluster.api.merge(f"/api/v1/nodes/{WORKER}", {"metadata": {"labels": labels}})
    cluster.look(2)
    assert (NVIDIA in cluster.api.objects) is wakes


def test_another_handler_cannot_be_changed(cluster: Cluster) -> None:
    cluster.api.put(NVIDIA, {"handler": "runc", "metadata": {}})
    cluster.install()
    cluster.look(2)
    assert cluster.status == ("notReady", "ReconcileFailed")
    message = cluster.api.objects[POLICY]["status"]["conditions"][1]["message"]
    assert message.startswith("Failed to reconcile pre-requisites: handler: Invalid value")
    assert not cluster.daemon_sets


def test_an_operand_that_is_switched_off_is_deleted(cluster: Cluster) -> None:
    cluster.install()
    cluster.look(2)
    spec = policy("v24.9.2", gfd={"enabled": False})["spec"]
    cluster.api.put(POLICY, {**cluster.api.objects[POLICY], "spec": spec})
    cluster.look()
    assert "gpu-feature-discovery" not in cluster.daemon_sets
    assert "nvidia-operator-validator" in cluster.daemon_sets


def test_a_changed_value_reaches_the_daemon_set(cluster: Cluster) -> None:
    cluster.install()
    cluster.look(2)
    spec = policy("v24.9.2", daemonsets={"labels": {"team": "ml"}})["spec"]
    cluster.api.put(POLICY, {**cluster.api.objects[POLICY], "spec": spec})
    cluster.look()
    template = cluster.daemon_sets["nvidia-operator-validator"]["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "ml"


def test_ready_without_a_gpu_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path)
    cluster.facts = {name: node().model_copy(update={"name": name}) for name in cluster.facts}
    cluster.install()
    cluster.look(2)
    # Without a GPU no label wakes the operator: it finds those of discovery when it looks again.
    assert cluster.status == ("ready", "NFDLabelsMissing")
    later = time.monotonic() + POLL_S
    monkeypatch.setattr("rack.cluster.operator.time.monotonic", lambda: later)
    cluster.look()
    assert cluster.status == ("ready", "NoGPUNodes")
    assert NVIDIA in cluster.api.objects
    assert not cluster.daemon_sets


def test_the_device_plugin_makes_the_capacity_and_takes_it_along(cluster: Cluster) -> None:
    cluster.look()
    assert cluster.gpus() is None
    cluster.pod(WORKER, "plugin", "nvidia-device-plugin", PLUGIN)
    cluster.look()
    assert cluster.gpus() == "1"
    assert cluster.gpus("k8s-cp-1") is None
    cluster.api.delete(f"{PODS}/plugin")
    cluster.look()
    assert cluster.gpus() == "0"


@pytest.mark.parametrize(("runtime", "gpus"), [("nvidia", "1"), (None, None)])
def test_the_plain_device_plugin_has_to_be_injected_into(
    cluster: Cluster, runtime: str | None, gpus: str | None
) -> None:
    cluster.pod(WORKER, "plugin", "nvidia-device-plugin-ctr", PLUGIN)
    cluster.api.objects[f"{PODS}/plugin"]["spec"]["runtimeClassName"] = runtime
    cluster.look()
    assert cluster.gpus() == gpus


def test_shared_cards_are_offered_several_times(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, RTX_3090, RTX_4070)
    slicing = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
    cluster.api.put(f"/api/v1/namespaces/{NAMESPACE}/configmaps/plugin", {"data": {"all": slicing}})
    cluster.install(devicePlugin={"config": {"name": "plugin", "default": "all"}})
    cluster.pod(WORKER, "plugin", "nvidia-device-plugin", PLUGIN)
    cluster.look()
    assert cluster.gpus() == "8"


def test_gfds_labels_come_and_go_with_its_pod(cluster: Cluster) -> None:
    cluster.pod(WORKER, "gfd", "gpu-feature-discovery", PLUGIN)
    cluster.look()
    assert cluster.labels()["nvidia.com/gpu.product"] == "NVIDIA-GeForce-RTX-3090"
    cluster.api.delete(f"{PODS}/gfd")
    cluster.look()
    assert "nvidia.com/gpu.product" not in cluster.labels()
    assert "feature.node.kubernetes.io/pci-10de.present" in cluster.labels()


def test_without_nfd_its_labels_go_and_the_operators_stay(cluster: Cluster) -> None:
    cluster.install()
    cluster.look(2)
    cluster.api.delete(f"{DEPLOYMENTS}/nfd-master")
    cluster.look()
    assert not [key for key in cluster.labels() if key.startswith("feature.node")]
    assert cluster.labels()["nvidia.com/gpu.deploy.device-plugin"] == "true"


def test_labels_of_others_are_left(cluster: Cluster) -> None:
    cluster.api.merge(f"/api/v1/nodes/{WORKER}", {"metadata": {"labels": {"rack": "a"}}})
    cluster.look()
    cluster.api.delete(f"{DEPLOYMENTS}/nfd-master")
    cluster.look()
    assert cluster.labels() == {"rack": "a"}


def test_one_release_fails_on_talos(cluster: Cluster) -> None:
    cluster.look()
    cluster.install("v26.3.0")
    cluster.look(2)
    assert cluster.status == ("notReady", "ReconcileFailed")
    assert NVIDIA not in cluster.api.objects


def test_a_condition_keeps_its_time(cluster: Cluster) -> None:
    cluster.install()
    cluster.look(2)
    conditions = cluster.api.objects[POLICY]["status"]["conditions"]
    for one in conditions:
        one["lastTransitionTime"] = "2020-01-01T00:00:00Z"
    cluster.run_daemon_sets(unavailable=1)
    cluster.look()
    times = {
        one["lastTransitionTime"] for one in cluster.api.objects[POLICY]["status"]["conditions"]
    }
    assert times == {"2020-01-01T00:00:00Z"}


def test_without_a_cluster_the_controller_waits(tmp_path: Path) -> None:
    controller = OperatorController(cast("Rack", None), Settings(home=tmp_path), look_s=0.01)
    controller.start()
    controller.stop()
