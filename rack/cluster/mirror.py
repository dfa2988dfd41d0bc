"""A collection of the API server, kept up to date by a thread that watches it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from urllib3.exceptions import HTTPError

from rack.cluster.api import Api, ApiError, Object

LOG: Final = logging.getLogger(__name__)
AGAIN_S: Final = 1.0
"""Pause before the next try, where the API server does not answer or does not know the kind."""


class Mirror:
    """Objects of one kind, as the API server last told; empty where the kind does not exist."""

    def __init__(self, api: Api, path: str, changed: Callable[[], None]) -> None:
        self._api = api
        self._path = path
        self._changed = changed
        self._objects: dict[str, Object] = {}
        self._mutex = threading.Lock()
        self._stop = threading.Event()
        self.is_complete = threading.Event()
        """Everything that there was at the beginning is here."""

    def start(self) -> None:
        """Begin to watch."""
        threading.Thread(target=self._run, name=f"watch {self._path}", daemon=True).start()

    def stop(self) -> None:
        """End with the next event; nobody waits for it."""
        self._stop.set()

    def all(self) -> list[Object]:
        """Every object; not to be changed."""
        with self._mutex:
            return list(self._objects.values())

    def named(self, name: str, namespace: str = "") -> Object | None:
        """One object by its name."""
        return next(
            (
                one
                for one in self.all()
                if one["metadata"]["name"] == name
                and one["metadata"].get("namespace", "") == namespace
            ),
            None,
        )

    def put(self, thing: Object) -> None:
        """Remember what the API server has just answered to a write, before the watch tells it."""
        uid = thing["metadata"]["uid"]
        with self._mutex:
            known = self._objects.get(uid)
            if known is not None and _version(known) < _version(thing):
                self._objects[uid] = thing

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow(self._read())
            except (ApiError, HTTPError, OSError, ValueError) as error:
                LOG.debug("watching %s: %s", self._path, error)
                self._stop.wait(AGAIN_S)

    def _read(self) -> str:
        """Read everything; the version to watch from."""
        try:
            found = self._api.request("GET", self._path)
        except ApiError as error:
            if error.status != 404:
                raise
            self._replace([])
            raise
        self._replace(found["items"])
        return str(found["metadata"]["resourceVersion"])

    def _replace(self, objects: list[Object]) -> None:
        with self._mutex:
            self._objects = {one["metadata"]["uid"]: one for one in objects}
        self.is_complete.set()
        self._changed()

    def _follow(self, version: str) -> None:
        for event in self._api.watch(self._path, version):
            if self._stop.is_set():
                return
            if event["type"] == "BOOKMARK":
                continue
            self._take(event["type"], event["object"])
            self._changed()

    def _take(self, kind: str, thing: Object) -> None:
        uid = thing["metadata"]["uid"]
        with self._mutex:
            known = self._objects.get(uid)
            if kind == "DELETED":
                self._objects.pop(uid, None)
            elif known is None or _version(known) < _version(thing):
                self._objects[uid] = thing


def _version(thing: Object) -> int:
    return int(thing["metadata"]["resourceVersion"])
