"""Events that kubelets record about pods and nodes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final, Literal

from rack.cluster.api import Api, ApiError
from rack.cluster.containers import stamp

Kind = Literal["Normal", "Warning"]
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
        kind: Kind,
        reason: str,
        message: str,
        now: float,
    ) -> None:
        """Record an event of a pod, or count it where it is known."""
        meta = pod["metadata"]
        about = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
        }
        self._record(about, pod["spec"]["nodeName"], kind, reason, message, now)

    def record_of_node(self, node: str, kind: Kind, reason: str, message: str, now: float) -> None:
        """Record an event of a node; kubelets give its name for its uid, and no namespace."""
        about = {"kind": "Node", "name": node, "uid": node}
        self._record(about, node, kind, reason, message, now)

    def _record(
        self, about: Mapping[str, str], node: str, kind: Kind, reason: str, message: str, now: float
    ) -> None:
        """A namespace that goes takes no events."""
        key = (about["uid"], reason, message)
        path, count, at = self._known.get(key, ("", 0, 0.0))
        if count and now - at < AGAIN_S:
            return
        try:
            if count:
                change = {"count": count + 1, "lastTimestamp": stamp(now)}
                self._api.merge(path, change)
            else:
                path = self._create(about, node, kind, reason, message, now)
        except ApiError as error:
            if error.status not in (403, 404):
                raise
        self._known[key] = (path, count + 1, now)

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        for key in [key for key in self._known if key[0] == uid]:
            del self._known[key]

    def _create(
        self, about: Mapping[str, str], node: str, kind: Kind, reason: str, message: str, now: float
    ) -> str:
        name = f"{about['name']}.{uuid.uuid4().hex[:16]}"
        namespace = about.get("namespace", "default")
        folder = f"/api/v1/namespaces/{namespace}/events"
        self._api.create(
            folder,
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": namespace},
                "involvedObject": dict(about),
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
