"""Which fields of a ClusterPolicy the rack's model reads: the model is run, and watched.

So there is no list of them that could differ from what the model does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rack.world.operator import GPU_PCI, NFD_PREFIX, NodeView, device_list_strategy, plan
from rack.world.sharing import sharing

Path = tuple[str, ...]

NAMESPACE: Final = "gpu-operator"
CONFIG: Final = ("ConfigMap", "data")
"""Path of what the device plugin's ConfigMap says, which the policy names: read as a whole."""
_NODES: Final = (
    NodeView(name="without-gpu"),
    NodeView(
        name="with-gpu",
        labels={
            GPU_PCI: "true",
            "nvidia.com/mig.capable": "true",
            # A number: one release of the operator goes no further with Talos' v1.
            f"{NFD_PREFIX}system-os_release.VERSION_ID": "1",
        },
    ),
)
"""Nodes that make the operator do everything that it can do about a policy."""


class Readings:
    """What has been read: a part as a whole, or some of its fields."""

    def __init__(self) -> None:
        self._parts: set[Path] = set()
        self._whole: set[Path] = set()

    def of(self, document: Mapping[str, Any], at: Path = ()) -> Mapping[str, Any]:
        """A document that notes what is read of it."""
        return _Watched(document, at, self)

    def note(self, path: Path, *, whole: bool = False) -> None:
        """Somebody read a field, or everything below it."""
        (self._whole if whole else self._parts).add(path)

    @property
    def fields(self) -> set[Path]:
        """The deepest fields that were read; a part that was only passed through is none."""
        passed = {path[:end] for path in self._parts for end in range(len(path))}
        deepest = self._parts - passed
        return self._whole | {path for path in deepest if not self._is_in_whole(path)}

    def _is_in_whole(self, path: Path) -> bool:
        return any(path[:end] in self._whole for end in range(len(path)))


class _Watched(Mapping[str, Any]):
    """A part of a document."""

    def __init__(self, of: Mapping[str, Any], at: Path, readings: Readings) -> None:
        self._of = of
        self._at = at
        self._readings = readings

    def __getitem__(self, key: str) -> Any:
        path = (*self._at, key)
        self._readings.note(path)
        found = self._of[key]
        return self._readings.of(found, path) if isinstance(found, Mapping) else found

    def __iter__(self) -> Iterator[str]:
        self._readings.note(self._at, whole=True)
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)


def read(readings: Readings, policy: Mapping[str, Any], config: Mapping[str, str]) -> None:
    """Do everything that the rack does with a ClusterPolicy.

    Args:
        readings: takes what is read.
        policy: the ClusterPolicy as JSON.
        config: data of the ConfigMap that its device plugin names.

    """
    watched = {"spec": readings.of(policy.get("spec") or {})}
    plan(watched, _NODES, NAMESPACE)
    device_list_strategy(watched)
    sharing(watched, config, {})
    readings.note(CONFIG, whole=True)


def value(document: Mapping[str, Any], path: Path) -> Any:
    """What a document has at a path; None where it has nothing there."""
    found: Any = document
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
