"""The way through the model can fail: what the rules refuse fails there, at its layer."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_passthrough.config import Stack
from tests.unit.stacks import GONE, changed, gpu, node, volume

from .drive import failure

ML = "immich-machine-learning"
BLACKWELL = gpu("RTX 5090")


def broken(change: dict[str, Any]) -> Stack:
    """The document's stack with a change that nobody judged."""
    return Stack.model_validate(changed(change))


def test_the_documents_stack_works() -> None:
    assert failure(broken({})) is None


@pytest.mark.parametrize(
    ("change", "layer", "said"),
    [
        ({"nodes": {"k8s-worker-2": {"vmId": 121}}}, "proxmox", "already exists"),
        ({"nodes": {"0": node(23, "worker", gpu("RTX 3080"))}}, "proxmox", "configuration ID"),
        ({"nodes": {"k8s-worker-2": {"address": "192.168.20.21"}}}, "talos", ""),
        ({"cluster": {"kubernetesVersion": "v1.28.0"}}, "talos", "too old"),
        ({"nodes": {"k8s-worker-2": {"gpus": [BLACKWELL]}}}, "nvidia", "NVRM"),
        ({"cluster": {"talosVersion": "v1.12.0"}}, "operator", "validator"),
        ({"gpuOperator": {"version": "v26.3.0"}}, "operator", "Atoi"),
        ({"gpuOperator": {"driver": {"enabled": True}}}, "operator", "driver"),
        ({"gpuOperator": {"values": {"nfd": {"enabled": False}}}}, "operator", "offers"),
        ({"gpuOperator": {"devicePlugin": {"enabled": False}}}, "operator", ""),
        ({"nodes": {"k8s-cp-1": {"gpus": [gpu("RTX 3080")]}}}, "operator", "k8s-cp-1"),
        ({"apps": {ML: {"vramMib": 30_000}}}, "scheduler", "memory"),
        ({"apps": {ML: {"replicas": 3, "volumes": {}}}}, "scheduler", "Pending"),
        ({"apps": {ML: {"nodeSelector": {"nvidia.com/gpu.product": "x"}}}}, "scheduler", ""),
        ({"apps": {ML: {"replicas": 2}}}, "storage", "Multi-Attach"),
        ({"apps": {ML: {"runtimeClassName": "gpu"}}}, "kubelet", "not found"),
        ({"apps": {ML: {"runtimeClassName": None}}}, "injection", "0 cards"),
        ({"apps": {ML: {"env": {"A=B": ""}}}}, "kubernetes", "env"),
        ({"apps": {ML: {"image": "A b"}}}, "kubernetes", "image"),
        ({"apps": {"3d": {"namespace": "a", "image": "b", "port": 80}}}, "kubernetes", "Service"),
        (
            {"apps": {ML: {"volumes": {"other": volume()}}}},
            "kubernetes",
            "unique",
        ),
        (
            {
                "apps": {ML: {"image": "nvidia/cuda:13.0.0-base-ubuntu24.04", "cuda": "13.0"}},
                "nodes": {"k8s-worker-1": {"gpus": [gpu("Tesla P4")]}, "k8s-worker-2": GONE},
            },
            "cuda",
            "209",
        ),
    ],
)
def test_what_is_wrong_fails_at_its_layer(change: dict[str, Any], layer: str, said: str) -> None:
    found = failure(broken(change))
    assert found is not None
    assert (found.layer, said in found.message) == (layer, True), found
