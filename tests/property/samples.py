"""Ten configurations for the rack's own hardware, as different from each other as possible."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import combinations
from random import Random
from typing import Any

from gpu_passthrough.judging import judge
from gpu_passthrough.problems import ConfigurationError

Raw = dict[str, Any]

COUNT = 10
CANDIDATES = 400
SEED = 20_261_201
CARDS = {
    "RTX 3090": {
        "card": "RTX 3090",
        "path": "0000:01:00",
        "id": "10de:2204",
        "subsystemId": "10de:1467",
        "iommuGroup": 14,
    },
    "RTX 4070 Ti Super": {
        "card": "RTX 4070 Ti Super",
        "path": "0000:02:00",
        "id": "10de:2705",
        "subsystemId": "10de:1816",
        "iommuGroup": 15,
    },
}
"""What the rack's host has."""
BOTH = tuple(CARDS)
LAYOUTS: dict[str, dict[str, tuple[str, ...]]] = {
    "a card in each of two workers": {"cp": (), "w1": BOTH[:1], "w2": BOTH[1:]},
    "both cards in one worker": {"cp": (), "w1": BOTH},
    "one node for everything": {"only": BOTH},
    "one card, and a worker without": {"cp": (), "w1": BOTH[1:], "plain": ()},
}
"""The first machine is the control plane."""
IMMICH = {
    "namespace": "immich",
    "image": "ghcr.io/immich-app/immich-machine-learning:v3.0.0-cuda",
    "port": 3003,
    "volumes": {"cache": {"mountPath": "/cache", "size": "10Gi", "storageClass": "rack-block"}},
}
TRAINER = {"namespace": "ml", "image": "example.org/trainer:1.0"}
PINNED = {**TRAINER, "nodeSelector": {"kubernetes.io/hostname": "w1"}, "vramMib": 12_000}
APPS: dict[str, dict[str, Raw]] = {
    "Immich": {"immich-machine-learning": IMMICH},
    "none": {},
    "two replicas": {"trainer": {**TRAINER, "replicas": 2}},
    "rolling": {"trainer": {**TRAINER, "strategy": "RollingUpdate", "env": {"A": "b"}}},
    "both cards": {"trainer": {**TRAINER, "gpus": 2}},
    "Immich beside a trainer": {"immich-machine-learning": IMMICH, "trainer": TRAINER},
    "pinned": {"trainer": PINNED},
}
CHOICES: dict[str, tuple[Any, ...]] = {
    "layout": tuple(LAYOUTS),
    "talos": ("v1.13.0", "v1.13.5", "v1.13.9", "v1.14.0-rc.1"),
    "kubernetes": ("v1.33.4", "v1.34.4", "v1.35.1"),
    "channel": ("lts", "production"),
    "modules": ("nonfree", "open"),
    "operator": ("v24.9.2", "v25.3.2", "v25.10.0", "v26.3.1", "v26.3.3", "v26.7.0"),
    "sharing": (None, {"replicas": 4}, {"replicas": 3, "rename": True}),
    "taint": (None, {}, {"key": "example.org/gpu", "value": "yes", "effect": "NoExecute"}),
    "gfd": (True, False),
    "apps": tuple(APPS),
}


def configuration(chosen: Mapping[str, Any]) -> Raw:
    """The sections of a stack file, apart from where the rack is."""
    nodes = {
        name: {
            "role": "worker" if number else "controlplane",
            "host": "pve",
            "vmId": 101 + number,
            "address": f"127.0.0.{number + 1}",
            "memoryMib": 8192,
            **({"gpus": [CARDS[card] for card in cards]} if cards else {}),
        }
        for number, (name, cards) in enumerate(LAYOUTS[chosen["layout"]].items())
    }
    operator: Raw = {"version": chosen["operator"], "gfd": {"enabled": chosen["gfd"]}}
    if chosen["sharing"]:
        operator["sharing"] = chosen["sharing"]
    found: Raw = {
        "protect": False,
        "nodes": nodes,
        "cluster": {
            "talosVersion": chosen["talos"],
            "kubernetesVersion": chosen["kubernetes"],
            "extensions": {"channel": chosen["channel"], "kernelModules": chosen["modules"]},
            "scheduleOnControlPlanes": len(nodes) == 1,
        },
        "gpuOperator": operator,
        "apps": APPS[chosen["apps"]],
    }
    return found | ({"gpuTaint": chosen["taint"]} if chosen["taint"] is not None else {})


def on_rack(configuration: Raw, shift: int = 0) -> Raw:
    """A whole configuration: with the rack's places, their ports shifted."""
    services = f"http://127.0.0.1:{8480 + shift}"
    network = {"cidr": "127.0.0.0/24", "gateway": "127.0.0.254", "dns": ["127.0.0.254"]}
    proxmox = {"endpoint": f"https://127.0.0.1:{8006 + shift}", "insecure": True}
    cluster = {"name": "rack", "endpoint": f"https://127.0.0.1:{6443 + shift}"}
    operator = {"repository": f"{services}/charts"}
    return {
        **configuration,
        "proxmox": {**proxmox, "network": network},
        "cluster": {**configuration["cluster"], **cluster, "imageFactory": services},
        "gpuOperator": {**configuration["gpuOperator"], **operator},
    }


def _is_accepted(chosen: Mapping[str, Any]) -> bool:
    try:
        judge(on_rack(configuration(chosen)))
    except ConfigurationError:
        return False
    return True


def _news(chosen: Mapping[str, Any], have: list[dict[str, Any]]) -> tuple[int, int]:
    """Values, and pairs of values, that none of the others has."""
    values = [(key, str(value)) for key, value in chosen.items()]
    seen = [{(key, str(value)) for key, value in one.items()} for one in have]
    alone = sum(1 for value in values if not any(value in one for one in seen))
    pairs = combinations(values, 2)
    return alone, sum(1 for pair in pairs if not any(set(pair) <= one for one in seen))


@cache
def samples() -> tuple[dict[str, Any], ...]:
    """Ten choices that are accepted, each with as much as possible that the others lack."""
    random = Random(SEED)
    candidates = [
        {key: random.choice(values) for key, values in CHOICES.items()} for _ in range(CANDIDATES)
    ]
    accepted = [one for one in candidates if _is_accepted(one)]
    found: list[dict[str, Any]] = []
    while len(found) < COUNT:
        found.append(max(accepted, key=lambda one: _news(one, found)))
    return tuple(found)


def title(chosen: Mapping[str, Any]) -> str:
    """What a sample is, in a line."""
    told = {key: value for key, value in chosen.items() if key not in ("layout", "apps")}
    return f"{chosen['layout']}, apps: {chosen['apps']}, {told}"
