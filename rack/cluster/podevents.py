"""Events about pods and claims: repeated ones are counted, as Kubernetes' own recorder does."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from urllib3.exceptions import HTTPError

from rack.cluster.api import Api, ApiError, Object
from rack.cluster.containers import Said, stamp

LOG: Final = logging.getLogger(__name__)
_REMEMBERED: Final = 2000


@dataclass(frozen=True)
class Source:
    """Who says it."""

    component: str = "kubelet"
    host: str = ""


@dataclass(frozen=True)
class _Entry:
    about: Object
    said: Said
    source: Source
    at: float


class Recorder:
    """Writes events in a thread of its own, so that nobody waits for them."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._waiting: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._known: dict[tuple[str, ...], Object] = {}
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """End after what was said by now."""
        self._waiting.put(None)

    def record(self, about: Object, said: Said, source: Source, at: float) -> None:
        """Say something about an object; `at` is Unix time."""
        self._waiting.put(_Entry(about, said, source, at))

    def _run(self) -> None:
        while (entry := self._waiting.get()) is not None:
            try:
                self._write(entry)
            except (ApiError, HTTPError, OSError) as error:
                # Its namespace ends, or the API server does: nobody will miss it.
                LOG.debug("an event was lost: %s", error)

    def _write(self, entry: _Entry) -> None:
        said, about = entry.said, entry.about
        key = (about["uid"], about.get("fieldPath", ""), said.reason, said.message)
        folder = f"/api/v1/namespaces/{about['namespace']}/events"
        if (known := self._known.get(key)) is not None:
            change = {"count": known["count"] + 1, "lastTimestamp": stamp(entry.at)}
            try:
                name = known["metadata"]["name"]
                self._known[key] = self._api.merge(f"{folder}/{name}", change)
            except ApiError as error:
                if error.status != 404:
                    raise
            else:
                return
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        self._known[key] = self._api.create(folder, event(about, said, entry.source, entry.at))


def reference(thing: Mapping[str, Any], kind: str, field_path: str = "") -> Object:
    """How an event names the object that it is about."""
    meta = thing["metadata"]
    found = {
        "apiVersion": "v1",
        "kind": kind,
        "name": meta["name"],
        "namespace": meta["namespace"],
        "uid": meta["uid"],
        "resourceVersion": meta.get("resourceVersion", ""),
    }
    return {**found, "fieldPath": field_path} if field_path else found


def event(about: Object, said: Said, source: Source, at: float) -> Object:
    """A new event."""
    moment = stamp(at)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{about['name']}.{time.time_ns():x}",
            "namespace": about["namespace"],
        },
        "involvedObject": about,
        "type": said.type,
        "reason": said.reason,
        "message": said.message,
        "count": 1,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "source": {"component": source.component} | ({"host": source.host} if source.host else {}),
        "reportingComponent": source.component,
        "reportingInstance": source.host,
    }
