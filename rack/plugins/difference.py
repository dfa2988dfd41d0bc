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

    A `computed` property that the inputs leave out is no difference; nor is an empty, false or
    zero value against an absent one. An unknown value is a difference: it may become any value.
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


def _is_zero(value: Any) -> bool:
    """Tell whether a value means the same to the official plugins as leaving it out."""
    if isinstance(value, dict):
        return all(_is_zero(item) for item in value.values())
    return value is None or value is False or value in ("", 0, [])


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
    if _is_zero(was) and _is_zero(now):
        return
    if isinstance(was, dict) and isinstance(now, dict):
        table = types.get(rule.type) or dict.fromkeys(
            sorted({*was, *now}), Property(rule.element or "string")
        )
        yield from _object_diff(types, table, was, now, f"{path}.", replaces=replaces)
    elif isinstance(was, list) and isinstance(now, list):
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
    for index, (left, right) in enumerate(_pairs(rule, was, now)):
        yield from _value_diff(types, element, left, right, f"{path}[{index}]", replaces=replaces)


def _pairs(rule: Property, was: list[Any], now: list[Any]) -> list[tuple[Any, Any]]:
    """Match the elements of two lists: by key, regardless of order, or by position."""
    if rule.key and all(isinstance(item, dict) for item in now):
        before = {_key(rule, item): item for item in was}
        pairs = [(before.pop(_key(rule, item), None), item) for item in now]
        return pairs + [(item, None) for item in before.values()]
    if rule.unordered and not contains_unknown(now):
        was, now = sorted(was), sorted(now)
    size = max(len(was), len(now))
    padded = (side + [None] * (size - len(side)) for side in (was, now))
    return list(zip(*padded, strict=True))


def _key(rule: Property, item: Plain) -> tuple[Any, ...]:
    return tuple(item.get(name) for name in rule.key)


def _kind(was: Any, now: Any, *, replaces: bool) -> PropertyDiffKind:
    empty: tuple[Any, ...] = (None, [], {})
    name = "ADD" if was in empty else "DELETE" if now in empty else "UPDATE"
    return PropertyDiffKind[f"{name}_REPLACE" if replaces else name]


def planned(schema: Schema, properties: Properties, old: Plain, new: Plain) -> Plain:
    """Return `new` with every `computed` property that it leaves out taken from the state `old`."""
    plan = dict(new)
    for name, rule in properties.items():
        was, now = old.get(name), new.get(name)
        if now is None and rule.computed and was is not None:
            plan[name] = was
        elif rule.type in schema.types and isinstance(was, dict) and isinstance(now, dict):
            plan[name] = planned(schema, schema.types[rule.type], was, now)
        elif (
            (rule.element or "") in schema.types and isinstance(was, list) and isinstance(now, list)
        ):
            element = schema.types[rule.element or ""]
            plan[name] = [
                planned(schema, element, left or {}, right) if isinstance(right, dict) else right
                for left, right in _pairs(rule, was, now)
                if right is not None
            ]
    return plan
