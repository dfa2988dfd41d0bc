"""The values with which charts are compared: what the program sends, and each of the chart's own.

sent.yaml has the program's; this module puts them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, reduce
from importlib import resources
from itertools import product
from typing import Any, Final

from ruamel.yaml import YAML

from rack.world.cuda import version as numbers

Values = dict[str, Any]
OTHER: Final = "other"
"""What stands in for a text, at its end."""


@dataclass(frozen=True)
class Case:
    """Values to render a chart with."""

    name: str
    """What is special about them."""
    values: Values


def sets(release: str) -> list[Case]:
    """Every set of values that the program's options make for a release of the chart."""
    options = [options.items() for options in _table()["choices"].values()]
    switches = [((name, True), (name, False)) for name in _table()["switches"]]
    return [
        _set(release, picks, states) for picks in product(*options) for states in product(*switches)
    ]


def _set(
    release: str, picks: tuple[tuple[str, Values], ...], states: tuple[tuple[str, bool], ...]
) -> Case:
    """One alternative of each choice, and each operand on or off."""
    named = zip(_table()["choices"], picks, strict=True)
    names = [f"{choice}: {name}" for choice, (name, _) in named]
    on = " ".join(name for name, is_on in states if is_on)
    switched = ({name: {"enabled": is_on}} for name, is_on in states)
    values = reduce(merged, [*switched, *(values for _, values in picks)], _base(release))
    return Case(", ".join([*names, f"on: {on or 'none'}"]), values)


def singles(release: str, declared: Mapping[str, Any]) -> list[Case]:
    """What the program sends with one value of the chart changed, for each of its values.

    Some come together, because a chart takes them only so.

    Args:
        release: the chart's version.
        declared: values that there are, with the chart's own defaults.

    """
    always = _base(release)
    changes = {
        ".".join(path): _at(path, _changed(path[-1], value))
        for path, value in leaves(merged(declared, always))
    }
    changes |= _table()["together"]
    return [Case(name, merged(always, change)) for name, change in changes.items()]


def leaves(values: Mapping[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Path and value of everything in nested maps that is no map, or an empty one."""
    for key, value in values.items():
        path = (*at, key)
        if isinstance(value, Mapping) and value:
            yield from leaves(value, path)
        else:
            yield path, value


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> Values:
    """Values with others laid over them, map by map, as Helm does it."""
    found = dict(values)
    for key, change in changes.items():
        if isinstance(change, Mapping) and isinstance(found.get(key), Mapping):
            found[key] = merged(found[key], change)
        else:
            found[key] = deepcopy(change)
    return found


def _base(release: str) -> Values:
    table = _table()
    line = numbers(release.removeprefix("v"))
    older = [
        row["values"] for row in table["before"] if line < numbers(row["line"].removeprefix("v"))
    ]
    return reduce(merged, older, table["always"])


def _at(path: tuple[str, ...], value: Any) -> Values:
    for key in reversed(path):
        value = {key: value}
    found: Values = value
    return found


def _changed(key: str, value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    example = _table()["examples"].get(key)
    if example is not None and (value is None or isinstance(value, type(example))):
        return example
    if isinstance(value, list):
        # One less of its own kind, or a text where there is none to go by.
        return value[1:] if value else [OTHER]
    if isinstance(value, Mapping):
        return {"example": OTHER}
    return f"{value}-{OTHER}" if value else OTHER


@cache
def _table() -> dict[str, Any]:
    text = resources.files("rack.charts").joinpath("sent.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return found
