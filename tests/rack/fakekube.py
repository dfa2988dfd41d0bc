"""An API server in memory: as much of it as the operator's controller uses."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from typing import Any

from rack.cluster.api import Api, ApiError, Object


class FakeKube(Api):
    """Objects by path. An immutable RuntimeClass handler and versions are as on a real one."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.writes: list[tuple[str, str]] = []
        """Method and path of every write, in order."""
        self._numbers = itertools.count(1)

    def put(self, path: str, thing: Mapping[str, Any]) -> Object:
        """Have an object, as somebody else made it."""
        made = copy.deepcopy(dict(thing))
        number = str(next(self._numbers))
        metadata = made.setdefault("metadata", {})
        metadata.setdefault("name", path.rpartition("/")[2])
        metadata.setdefault("uid", f"uid-{number}")
        metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        metadata["generation"] = metadata.get("generation", 0) + 1
        metadata["resourceVersion"] = number
        self.objects[path] = made
        return made

    def get(self, path: str) -> Object | None:
        """A copy of an object."""
        return copy.deepcopy(self.objects.get(path))

    def list(self, path: str) -> list[Object]:
        """Objects of a collection, in all namespaces where the path names none."""
        folder, _, query = path.partition("?")
        group, _, kind = folder.rpartition("/")
        found = [
            one
            for at, one in self.objects.items()
            if at.rpartition("/")[0].endswith(f"/{kind}") and at.startswith(group)
        ]
        return copy.deepcopy([one for one in found if self._fits(one, query)])

    def _fits(self, thing: Object, query: str) -> bool:
        kind, _, rest = query.partition("=")
        wanted = rest.replace("%3D", "=")
        if kind == "fieldSelector":
            return bool(thing["metadata"]["name"] == wanted.partition("=")[2])
        labels = thing["metadata"].get("labels") or {}
        pairs = [one.partition("=") for one in wanted.split(",") if one]
        return all(labels.get(key) == value for key, _, value in pairs)

    def create(self, path: str, body: Mapping[str, Any]) -> Object:
        """Make an object."""
        at = f"{path}/{body['metadata']['name']}"
        if at in self.objects:
            raise ApiError(409, f"{at} already exists")
        self.writes.append(("POST", at))
        return self.put(at, body)

    def replace(self, path: str, body: Mapping[str, Any]) -> Object:
        """Write a whole object."""
        old = self.objects[path]
        if body["metadata"].get("resourceVersion") != old["metadata"]["resourceVersion"]:
            raise ApiError(409, "the object has been modified")
        if body.get("handler") != old.get("handler"):
            raise ApiError(422, "handler: Invalid value: field is immutable")
        self.writes.append(("PUT", path))
        kept = {key: old["metadata"][key] for key in ("uid", "creationTimestamp", "generation")}
        return self.put(path, {**body, "metadata": {**body["metadata"], **kept}})

    def merge(self, path: str, body: Mapping[str, Any]) -> Object:
        """Change parts of an object."""
        at = path.removesuffix("/status")
        if at not in self.objects:
            raise ApiError(404, f"{at} not found")
        self.writes.append(("PATCH", path))
        self.objects[at] = _merged(self.objects[at], body)
        self.objects[at]["metadata"]["resourceVersion"] = str(next(self._numbers))
        return self.objects[at]

    def delete(self, path: str, options: Mapping[str, Any] | None = None) -> None:
        """Remove an object."""
        if self.objects.pop(path, None) is not None:
            self.writes.append(("DELETE", path))


def _merged(old: Object, change: Mapping[str, Any]) -> Object:
    found = dict(old)
    for key, value in change.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping):
            found[key] = _merged(found.get(key) or {}, value)
        else:
            found[key] = value
    return found
