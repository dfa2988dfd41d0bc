"""The document's stack as plain values, and ways to change it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from gpu_passthrough.judging import judge
from gpu_passthrough.problems import ConfigurationError, Problem, where

GONE = object()
"""In a change: take the key away."""

CARDS = {
    "RTX 3090": ("10de:2204", "0000:01:00", 14),
    "RTX 4070 Ti Super": ("10de:2705", "0000:02:00", 15),
    "RTX 5090": ("10de:2b85", "0000:03:00", 16),
    "RTX PRO 6000 Blackwell Workstation Edition": ("10de:2bb1", "0000:03:00", 16),
    "Tesla P4": ("10de:1bb3", "0000:03:00", 16),
    "GTX 980": ("10de:13c0", "0000:03:00", 16),
    "Tesla V100 SXM2 32GB": ("10de:1db5", "0000:03:00", 16),
    "RTX 2080 Ti": ("10de:1e07", "0000:03:00", 16),
    "RTX 3080": ("10de:2206", "0000:03:00", 16),
    "H100 PCIe": ("10de:2331", "0000:03:00", 16),
}


def gpu(card: str, /, **changed: Any) -> dict[str, Any]:
    pci, path, group = CARDS[card]
    values = {
        "card": card,
        "path": path,
        "id": pci,
        "subsystemId": "10de:1467",
        "iommuGroup": group,
    }
    return {**values, **changed}


def node(
    number: int, role: str = "worker", *gpus: dict[str, Any], **changed: Any
) -> dict[str, Any]:
    values = {"role": role, "host": "pve", "vmId": 100 + number, "address": f"192.168.20.{number}"}
    return {**values, **({"gpus": list(gpus)} if gpus else {}), **changed}


def volume(**changed: Any) -> dict[str, Any]:
    return {"mountPath": "/cache", "size": "10Gi", "storageClass": "longhorn", **changed}


def app(**changed: Any) -> dict[str, Any]:
    return {"namespace": "ml", "image": "example.org/ml:1.0", **changed}


def document() -> dict[str, Any]:
    """The document's inventory and pins."""
    return {
        "proxmox": {
            "endpoint": "https://192.168.20.10:8006",
            "network": {"cidr": "192.168.20.0/24", "gateway": "192.168.20.1", "dns": ["9.9.9.9"]},
        },
        "cluster": {
            "name": "home",
            "endpoint": "https://192.168.20.20:6443",
            "talosVersion": "v1.13.9",
            "kubernetesVersion": "v1.34.4",
            "extensions": {"channel": "lts", "kernelModules": "nonfree"},
        },
        "nodes": {
            "k8s-cp-1": node(20, "controlplane"),
            "k8s-worker-1": node(21, "worker", gpu("RTX 3090")),
            "k8s-worker-2": node(22, "worker", gpu("RTX 4070 Ti Super")),
        },
        "gpuOperator": {"version": "v24.9.2"},
        "apps": {
            "immich-machine-learning": {
                "namespace": "immich",
                "image": "ghcr.io/immich-app/immich-machine-learning:v3.0.0-cuda",
                "runtimeClassName": "nvidia",
                "gpus": 1,
                "strategy": "Recreate",
                "volumes": {"cache": volume()},
            }
        },
    }


def _change(values: dict[str, Any], change: dict[str, Any]) -> None:
    for key, value in change.items():
        if value is GONE:
            values.pop(key, None)
        elif isinstance(value, dict) and isinstance(values.get(key), dict):
            _change(values[key], value)
        else:
            values[key] = value


def changed(change: dict[str, Any] | None = None) -> dict[str, Any]:
    """The document's stack with a change merged into it."""
    values = document()
    _change(values, deepcopy(change or {}, {id(GONE): GONE}))
    return values


def with_card(card: str, **extensions: Any) -> dict[str, Any]:
    """The document's stack with one more worker that has this card."""
    return changed(
        {
            "nodes": {"k8s-worker-3": node(23, "worker", gpu(card))},
            "cluster": {"extensions": extensions},
        }
    )


def only_card(card: str, **extensions: Any) -> dict[str, Any]:
    """The document's stack with one worker, which has this card."""
    workers = {"k8s-worker-1": node(21, "worker", gpu(card)), "k8s-worker-2": GONE}
    return changed({"nodes": workers, "cluster": {"extensions": extensions}})


def problems(values: dict[str, Any]) -> list[Problem]:
    """Everything that is wrong with a stack; nothing where it is accepted."""
    try:
        judge(values)
    except ConfigurationError as error:
        return list(error.problems)
    return []


def rules(values: dict[str, Any]) -> list[str | None]:
    return [problem.rule for problem in problems(values)]


def the_problem(values: dict[str, Any]) -> Problem:
    """The only thing that is wrong with a stack."""
    found = problems(values)
    assert len(found) == 1, [f"{where(one.path)}: {one.message}" for one in found]
    return found[0]
