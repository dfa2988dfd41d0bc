"""The document's stack as a model, and ways to change it; the rules do not judge it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from gpu_passthrough.config import Stack

RTX_3090 = {
    "card": "RTX 3090",
    "path": "0000:01:00",
    "id": "10de:2204",
    "subsystemId": "10de:1467",
    "iommuGroup": 14,
}
RTX_4070 = {
    "card": "RTX 4070 Ti Super",
    "path": "0000:02:00",
    "id": "10de:2705",
    "subsystemId": "10de:1816",
    "iommuGroup": 15,
}
NODES: dict[str, Any] = {
    "k8s-cp-1": {"role": "controlplane", "host": "pve", "vmId": 101, "address": "10.0.0.11"},
    "k8s-worker-1": {
        "role": "worker",
        "host": "pve",
        "vmId": 111,
        "address": "10.0.0.21",
        "memoryMib": 24576,
        "cores": 8,
        "diskGib": 100,
        "gpus": [RTX_3090],
    },
    "k8s-worker-2": {
        "role": "worker",
        "host": "pve2",
        "vmId": 112,
        "address": "10.0.0.22",
        "gpus": [RTX_4070],
    },
}
DOCUMENT: dict[str, Any] = {
    "proxmox": {
        "endpoint": "https://10.0.0.2:8006",
        "network": {"cidr": "10.0.0.0/16", "gateway": "10.0.0.1", "dns": ["10.0.0.1", "9.9.9.9"]},
    },
    "cluster": {
        "name": "homelab",
        "endpoint": "https://10.0.0.11:6443",
        "talosVersion": "v1.13.9",
        "kubernetesVersion": "v1.34.4",
    },
    "nodes": NODES,
    "gpuOperator": {"version": "v24.9.2"},
    "apps": {
        "immich-machine-learning": {
            "namespace": "immich",
            "image": "ghcr.io/immich-app/immich-machine-learning:v3.0.0-cuda",
            "port": 3003,
            "volumes": {
                "cache": {"mountPath": "/cache", "size": "10Gi", "storageClass": "longhorn"}
            },
        }
    },
}
MACHINES = {
    name: {key: value for key, value in node.items() if key in ("role", "address")}
    | {"gpus": [{"card": gpu["card"]} for gpu in node.get("gpus", [])]}
    for name, node in NODES.items()
}
KEYS = {"caCertificate": "Y2E=", "clientCertificate": "Y3J0", "clientKey": "a2V5"}


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Values with changes laid over them, map by map."""
    result = deepcopy(values)
    for key, value in changes.items():
        inner = result.get(key)
        both = isinstance(inner, dict) and isinstance(value, dict)
        result[key] = merged(inner, value) if both else value
    return result


def stack(**changes: Any) -> Stack:
    """The document's stack with changed sections."""
    return Stack.model_validate(merged(DOCUMENT, changes))


def talos(version: str, **changes: Any) -> Stack:
    return stack(cluster={"talosVersion": version}, **changes)


def without(*sections: str, **changes: Any) -> Stack:
    """The document's stack that says nothing about some sections."""
    values = {key: value for key, value in DOCUMENT.items() if key not in sections}
    return Stack.model_validate(merged(values, changes))
