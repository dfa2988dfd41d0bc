"""The kubelet's device manager: which GPUs belong to which container.

What was allocated is kept as long as the pod lives, in a file, as a kubelet does: after a restart
of the daemon a container has the cards that it had.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from rack.files import private_folder, write_private

Allocation = dict[str, tuple[str, ...]]
"""UUIDs by container; one for every slot that was claimed."""


def allocate(
    claims: Mapping[str, int], gpus: Sequence[str], slots: int, taken: Sequence[str]
) -> Allocation:
    """Choose GPUs for the containers of one pod.

    Args:
        claims: how many slots each container claims.
        gpus: UUIDs of the node's healthy cards.
        slots: slots that the node offers in all; more than cards where they are shared.
        taken: UUIDs that other pods have, once for each slot.

    Returns:
        What each container gets: the least used cards first. A container that cannot get all that
        it claims gets nothing, and admission says so.

    """
    if not gpus or slots < len(gpus):
        return dict.fromkeys(claims, ())
    replicas = slots // len(gpus)
    used = Counter(taken)
    found: Allocation = {}
    for name, claim in claims.items():
        found[name] = _choose(claim, gpus, replicas, used)
        used.update(found[name])
    return found


def _choose(
    claim: int, gpus: Sequence[str], replicas: int, used: Mapping[str, int]
) -> tuple[str, ...]:
    free = Counter({uuid: replicas - used.get(uuid, 0) for uuid in gpus})
    chosen: list[str] = []
    for _ in range(claim):
        uuid = max(gpus, key=lambda one: free[one])
        if free[uuid] <= 0:
            return ()
        free[uuid] -= 1
        chosen.append(uuid)
    return tuple(chosen)


class Devices:
    """Allocations of all pods, on disk."""

    def __init__(self, folder: Path) -> None:
        self._file = private_folder(folder) / "devices.json"
        self._mutex = threading.Lock()
        self._pods = self._load()

    def _load(self) -> dict[str, Allocation]:
        try:
            text = self._file.read_text(encoding="utf-8")
            found: dict[str, dict[str, list[str]]] = json.loads(text)
            return {
                uid: {name: tuple(uuids) for name, uuids in containers.items()}
                for uid, containers in found.items()
            }
        except (FileNotFoundError, ValueError, AttributeError):
            return {}  # a kubelet, too, begins anew where its checkpoint is missing or damaged

    def of(self, uid: str) -> Allocation | None:
        """What a pod has; None where nothing was allocated yet."""
        return self._pods.get(uid)

    def admit(
        self, uid: str, claims: Mapping[str, int], gpus: Sequence[str], slots: int
    ) -> Allocation:
        """Allocate for a pod that is about to start; what it has already stays its own.

        A card that is not there any more is not given to it again: it gets nothing then.
        """
        with self._mutex:
            had = self._pods.get(uid)
            if had is not None:
                is_there = slots > 0 and all(set(uuids) <= set(gpus) for uuids in had.values())
                return had if is_there else dict.fromkeys(had, ())
            others = [one for pod in self._pods.values() for uuids in pod.values() for one in uuids]
            found = allocate(claims, gpus, slots, others)
            if any(found.values()):
                self._pods[uid] = found
                self._save()
            return found

    def release(self, uid: str) -> None:
        """Take back what a pod had."""
        with self._mutex:
            if self._pods.pop(uid, None) is not None:
                self._save()

    def keep_only(self, uids: Collection[str]) -> None:
        """Take back what pods had that do not exist any more."""
        with self._mutex:
            gone = self._pods.keys() - set(uids)
            for uid in gone:
                del self._pods[uid]
            if gone:
                self._save()

    def _save(self) -> None:
        write_private(self._file, json.dumps(self._pods))
