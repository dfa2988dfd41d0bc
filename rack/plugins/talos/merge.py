"""Talos' strategic merge of a patch into a machine configuration.

Values replace values unless they are empty (`false` is not), maps merge, lists are appended.
Some lists and maps have rules of their own: the tables below (pkg/machinery/config/merge and the
`Merge` methods of the types, Talos 1.13.0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

REPLACED: Final = frozenset(
    {
        ("", "cluster.network.podSubnets"),
        ("", "cluster.network.serviceSubnets"),
        ("", "cluster.apiServer.auditPolicy"),
        ("NetworkRuleConfig", "ingress"),
        ("NetworkRuleConfig", "portSelector.ports"),
    }
)
"""Kind (empty for the main document) and path of what a patch replaces as a whole."""

KEYED: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "machine.network.interfaces"): ("interface", "deviceSelector"),
    ("", "machine.network.interfaces.vlans"): ("vlanId",),
    ("", "cluster.apiServer.admissionControl"): ("name",),
    ("ExtensionServiceConfig", "configFiles"): ("mountPath",),
}
"""Lists whose elements merge where the first of these properties that is set is equal."""

KEYED_REPLACED: Final[Mapping[tuple[str, str], str]] = {
    ("ImageVerificationConfig", "rules"): "image",
}
"""Lists whose elements replace the element with an equal property."""

ARGUMENTS: Final = "extraArgs"
"""Maps of that name are merged without looking into their values."""


def merge(kind: str, left: Any, right: Any, path: str = "") -> Any:
    """Merge the patch `right` into `left`, both at `path` of a document of `kind`.

    Returns a new value and leaves both as they are.
    """
    if right is None:
        return deepcopy(left)
    if left is None or (kind, path) in REPLACED:
        return deepcopy(right) if right or right is False or left is None else deepcopy(left)
    if isinstance(left, dict) and isinstance(right, dict):
        return _merge_maps(kind, left, right, path)
    if isinstance(left, list) and isinstance(right, list):
        return _merge_lists(kind, left, right, path)
    return deepcopy(right if right or right is False else left)


def _merge_maps(
    kind: str, left: Mapping[str, Any], right: Mapping[str, Any], path: str
) -> dict[str, Any]:
    if path.rpartition(".")[2] == ARGUMENTS:
        return deepcopy({**left, **right})
    merged = deepcopy(dict(left))
    for name, value in right.items():
        below = f"{path}.{name}" if path else name
        merged[name] = merge(kind, left.get(name), value, below)
    return merged


def _merge_lists(kind: str, left: Sequence[Any], right: Sequence[Any], path: str) -> list[Any]:
    merged = deepcopy(list(left))
    for item in right:
        index = _position(kind, merged, item, path)
        if index is None:
            merged.append(deepcopy(item))
        elif (kind, path) in KEYED:
            merged[index] = merge(kind, merged[index], item, path)
        else:
            merged[index] = deepcopy(item)
    return merged


def _position(kind: str, items: Sequence[Any], item: Any, path: str) -> int | None:
    """Find the element that `item` belongs to, where the list has a rule for that."""
    names = KEYED.get((kind, path)) or tuple(filter(None, [KEYED_REPLACED.get((kind, path))]))
    name = next((name for name in names if item.get(name)), None)
    if name is None:
        return None
    equal = (index for index, old in enumerate(items) if old.get(name) == item[name])
    return next(equal, None)
