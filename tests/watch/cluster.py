"""Clusters in memory for the tests of watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gpu_passthrough.verify.cluster import Cluster
from gpu_passthrough.verify.pods import PodError
from gpu_passthrough.watch import metrics

LABELS = (
    'gpu="{gpu}",UUID="GPU-{gpu}",pci_bus_id="00000000:0{gpu}:00.0",device="nvidia{gpu}",'
    'modelName="NVIDIA GeForce RTX 3090",Hostname="exporter"'
)
VALUES = {"GPU_UTIL": 75, "FB_USED": 801, "FB_FREE": 23775, "GPU_TEMP": 61, "POWER_USAGE": 268.4}
SMI = "GPU-{gpu}, NVIDIA GeForce RTX 3090, 00000000:0{gpu}:00.0, 75, 801, 24576, 61, 268.40\n"


def dcgm(*gpus: int, pod: str = "ml-0") -> str:
    """What an exporter answers."""
    holder = f'container="main",namespace="apps",pod="{pod}"' if pod else 'pod=""'
    lines = [
        f"DCGM_FI_DEV_{name}{{{LABELS.format(gpu=gpu)},{holder}}} {value}"
        for name, value in VALUES.items()
        for gpu in gpus
    ]
    return "\n".join(["# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).", *lines, ""])


def node(name: str, gpus: int, ready: str = "True", **labels: str) -> Any:
    """A node that offers so many GPUs."""
    status = {
        "conditions": [{"type": "Ready", "status": ready}],
        "capacity": {"nvidia.com/gpu": str(gpus)} if gpus else {},
    }
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def pod(name: str, on: str, gpus: int = 1, phase: str = "Running", app: str = "ml") -> Any:
    """A pod that claims so many GPUs."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    main = {"name": "main", "resources": {"limits": limits}}
    return {
        "metadata": {"name": name, "namespace": "apps", "labels": {"app": app}},
        "spec": {"nodeName": on, "containers": [{"name": "sidecar"}, main]},
        "status": {"phase": phase},
    }


def exporter(on: str, phase: str = "Running") -> Any:
    """The exporter of a node."""
    return pod(f"exporter-{on}", on, 0, phase, app="nvidia-dcgm-exporter")


class FakeCluster(Cluster):
    """Nodes, pods, and what these answer; a text that begins with ! is a failure."""

    def __init__(self, nodes: Sequence[Any], pods: Sequence[Any], **answers: str) -> None:
        self.lists = {"/api/v1/nodes": list(nodes), "/api/v1/pods": list(pods)}
        self.answers = {name.replace("_", "-"): text for name, text in answers.items()}
        self.asked: list[tuple[str, Any]] = []

    def items(self, path: str) -> Any:
        return self.lists[path]

    def answer(self, name: str, what: Any) -> str:
        self.asked.append((name, what))
        text = self.answers.get(name, "!nobody is there")
        if text.startswith("!"):
            raise PodError(text[1:])
        return text


@pytest.fixture
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods answer what their FakeCluster says."""

    def fetch(cluster: FakeCluster, pod: Any, port: int, path: str) -> str:
        return cluster.answer(pod["metadata"]["name"], (port, path))

    def run(cluster: FakeCluster, pod: Any, container: str, argv: Sequence[str]) -> str:
        return cluster.answer(pod["metadata"]["name"], (container, argv[0]))

    monkeypatch.setattr(metrics, "fetch", fetch)
    monkeypatch.setattr(metrics, "run", run)
