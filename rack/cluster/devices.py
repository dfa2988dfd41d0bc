"""The device manager of every kubelet: which GPU a container's claim was served with."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rack.files import write_private
from rack.world.pod import gpu_claim

Allocation = dict[str, tuple[str, ...]]
"""UUIDs of the GPUs by container."""


class Devices:
    """Allocations of all pods, kept in a checkpoint file as a kubelet does."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._pods = read_allocations(checkpoint)

    def of(self, pod: Mapping[str, Any], gpus: Collection[str], replicas: int) -> Allocation:
        """What a pod has; it is allocated at first sight.

        Args:
            pod: the pod.
            gpus: UUIDs of the node's GPUs.
            replicas: how many claims one GPU serves at a time.
        """
        uid: str = pod["metadata"]["uid"]
        claims = {one["name"]: gpu_claim(one) for one in pod["spec"]["containers"]}
        if uid not in self._pods and any(claims.values()):
            taken = Counter(
                gpu for found in self._pods.values() for part in found.values() for gpu in part
            )
            self._pods[uid] = allocate(claims, {gpu: replicas - taken[gpu] for gpu in gpus})
            self._keep()
        return self._pods.get(uid, {})

    def release(self, uid: str) -> None:
        """Take back what a pod had."""
        if self._pods.pop(uid, None) is not None:
            self._keep()

    def keep_only(self, uids: Collection[str]) -> None:
        """Take back what pods had that are gone."""
        for uid in self._pods.keys() - set(uids):
            self.release(uid)

    def _keep(self) -> None:
        write_private(self._checkpoint, json.dumps(self._pods))


def allocate(claims: Mapping[str, int], free: Mapping[str, int]) -> Allocation:
    """Serve each container's claim from the GPUs with most free slots, each GPU once.

    A claim that cannot be served gets fewer than it asks for.
    """
    left = dict(free)
    found: Allocation = {}
    for container, count in claims.items():
        best = sorted((gpu for gpu in left if left[gpu] > 0), key=lambda gpu: -left[gpu])
        found[container] = tuple(best[:count])
        for gpu in found[container]:
            left[gpu] -= 1
    return found


def read_allocations(checkpoint: Path) -> dict[str, Allocation]:
    """What a checkpoint file says, by the pod's uid; nothing where there is none."""
    try:
        found = json.loads(checkpoint.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return {uid: {name: tuple(gpus) for name, gpus in of.items()} for uid, of in found.items()}
