"""ClusterPolicies and nodes for the tests of the operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rack.world.nodefacts import NodeFacts
from rack.world.operator import NodeView, nfd_labels
from rack.world.policy import PolicyView

PARTS = ("devicePlugin", "gfd", "dcgmExporter", "migManager")
IMAGES = {
    "validator": ("nvcr.io/nvidia/cloud-native", "gpu-operator-validator"),
    "devicePlugin": ("nvcr.io/nvidia", "k8s-device-plugin"),
    "gfd": ("nvcr.io/nvidia", "k8s-device-plugin"),
    "dcgmExporter": ("nvcr.io/nvidia/k8s", "dcgm-exporter"),
    "migManager": ("nvcr.io/nvidia/cloud-native", "k8s-mig-manager"),
    "driver": ("nvcr.io/nvidia", "driver"),
    "toolkit": ("nvcr.io/nvidia/k8s", "container-toolkit"),
}


def policy(version: str = "v24.9.2", **changes: Mapping[str, Any]) -> dict[str, Any]:
    """The ClusterPolicy of a release with driver and toolkit off; `changes` go into its parts."""
    spec: dict[str, dict[str, Any]] = {
        name: {"repository": repository, "image": image, "version": version}
        for name, (repository, image) in IMAGES.items()
    }
    for name in PARTS:
        spec[name]["enabled"] = True
    spec["driver"]["manager"] = {
        "repository": "nvcr.io/nvidia/cloud-native",
        "image": "k8s-driver-manager",
        "version": "v0.7.0",
    }
    spec["driver"]["enabled"] = spec["toolkit"]["enabled"] = False
    spec["hostPaths"] = {"driverInstallDir": "/usr/local"}
    spec["cdi"] = {"enabled": PolicyView({"spec": spec}).line >= (25, 10)}
    for name, change in changes.items():
        spec.setdefault(name, {}).update(change)
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy", "uid": "policy-1", "generation": 1},
        "spec": spec,
    }


def discovered(facts: NodeFacts, **labels: str | None) -> NodeView:
    """A node that node feature discovery has labelled; other labels have dots for `__`."""
    given = {name.replace("__", "/").replace("_", "."): value for name, value in labels.items()}
    found = {**nfd_labels(facts), **given}
    return NodeView(name=facts.name, labels={k: v for k, v in found.items() if v is not None})
