"""Events that kubelets record about pods."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final, Literal

from rack.cluster.api import Api, ApiError
from rack.cluster.containers import stamp

AGAIN_S: Final = 10.0
"""The same event is counted at most this often."""


class Events:
    """The recorder of one API server."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[tuple[str, str, str], tuple[str, int, float]] = {}
        """Path, count and time of what was recorded, by pod, reason and message."""

    def record(
        self,
        pod: Mapping[str, Any],
        kind: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        now: float,
    ) -> None:
        """Record an event, or count it where it is known; a namespace that goes takes none."""
        meta = pod["metadata"]
        key = (meta["uid"], reason, message)
        path, count, at = self._known.get(key, ("", 0, 0.0))
        if count and now - at < AGAIN_S:
            return
        try:
            if count:
                change = {"count": count + 1, "lastTimestamp": stamp(now)}
                self._api.merge(path, change)
            else:
                path = self._create(pod, kind, reason, message, now)
        except ApiError as error:
            if error.status not in (403, 404):
                raise
        self._known[key] = (path, count + 1, now)

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        for key in [key for key in self._known if key[0] == uid]:
            del self._known[key]

    def _create(
        self, pod: Mapping[str, Any], kind: str, reason: str, message: str, now: float
    ) -> str:
        meta, node = pod["metadata"], pod["spec"]["nodeName"]
        name = f"{meta['name']}.{uuid.uuid4().hex[:16]}"
        folder = f"/api/v1/namespaces/{meta['namespace']}/events"
        self._api.create(
            folder,
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": meta["namespace"]},
                "involvedObject": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": meta["name"],
                    "namespace": meta["namespace"],
                    "uid": meta["uid"],
                },
                "type": kind,
                "reason": reason,
                "message": message,
                "count": 1,
                "firstTimestamp": stamp(now),
                "lastTimestamp": stamp(now),
                "source": {"component": "kubelet", "host": node},
                "reportingComponent": "kubelet",
                "reportingInstance": node,
            },
        )
        return f"{folder}/{name}"
