"""Differences between a resource's state and its new inputs, in Pulumi's detailed form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pulumi.provider.experimental.provider import DiffResponse, PropertyDiff, PropertyDiffKind

from rack.plugins.contract import Plain, Properties, Property, Schema, contains_unknown

REPLACING: Final = frozenset(kind for kind in PropertyDiffKind if kind.name.endswith("_REPLACE"))


def compare(
    schema: Schema, properties: Properties, old: Plain, new: Plain
) -> dict[str, PropertyDiffKind]:
    """Compare the state `old` with the checked inputs `new`: path (`disks[0].size`) → kind.

    A `computed` property that the inputs leave out is no difference; nor is an empty value
    against an absent one. An unknown value may turn out to be any value, so it is a difference.
    """
    return dict(_object_diff(schema.types, properties, old, new, "", replaces=False))


def response(
    kinds: Mapping[str, PropertyDiffKind], *, delete_before_replace: bool = False
) -> DiffResponse:
    """Make the protocol's answer of a comparison."""
    return DiffResponse(
        changes=bool(kinds),
        replaces=[path for path, kind in kinds.items() if kind in REPLACING],
        delete_before_replace=delete_before_replace,
        diffs=sorted({path.partition(".")[0].partition("[")[0] for path in kinds}),
        detailed_diff={path: PropertyDiff(kind, input_diff=False) for path, kind in kinds.items()},
    )


Differences = Iterator[tuple[str, PropertyDiffKind]]
_ABSENT: Final[tuple[Any, ...]] = (None, "", [], {})


def _object_diff(
    types: Mapping[str, Properties],
    properties: Properties,
    old: Plain,
    new: Plain,
    at: str,
    *,
    replaces: bool,
) -> Differences:
    for name, rule in properties.items():
        was, now = old.get(name), new.get(name)
        if now is None and rule.computed:
            continue
        forces = replaces or rule.replaces
        yield from _value_diff(types, rule, was, now, at + name, replaces=forces)


def _value_diff(
    types: Mapping[str, Properties],
    rule: Property,
    was: Any,
    now: Any,
    path: str,
    *,
    replaces: bool,
) -> Differences:
    if was in _ABSENT and now in _ABSENT:
        return
    if was in _ABSENT or now in _ABSENT or type(was) is not type(now):
        yield path, _kind(was, now, replaces=replaces)
    elif isinstance(was, dict):
        table = types.get(rule.type) or dict.fromkeys(
            sorted({*was, *now}), Property(rule.element or "string")
        )
        yield from _object_diff(types, table, was, now, f"{path}.", replaces=replaces)
    elif isinstance(was, list):
        yield from _list_diff(types, rule, was, now, path, replaces=replaces)
    elif was != now:
        yield path, _kind(was, now, replaces=replaces)


def _list_diff(
    types: Mapping[str, Properties],
    rule: Property,
    was: list[Any],
    now: list[Any],
    path: str,
    *,
    replaces: bool,
) -> Differences:
    element = Property(rule.element or "string")
    if rule.key and not contains_unknown([item.get(rule.key) for item in now]):
        before = {item.get(rule.key): item for item in was}
        pairs = [(before.pop(item.get(rule.key), None), item) for item in now]
        pairs += [(item, None) for item in before.values()]
    else:
        size = max(len(was), len(now))
        pairs = list(
            zip(was + [None] * (size - len(was)), now + [None] * (size - len(now)), strict=True)
        )
    for index, (left, right) in enumerate(pairs):
        yield from _value_diff(types, element, left, right, f"{path}[{index}]", replaces=replaces)


def _kind(was: Any, now: Any, *, replaces: bool) -> PropertyDiffKind:
    name = "ADD" if was in _ABSENT else "DELETE" if now in _ABSENT else "UPDATE"
    return PropertyDiffKind[f"{name}_REPLACE" if replaces else name]
