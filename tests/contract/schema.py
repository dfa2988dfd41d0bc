"""The official plugins' schemas, in these tests' own words: facts/*.json.

A property is its type: string, boolean, integer, number, the name of another type, `[TYPE]` for a
list, `{TYPE}` for a map; a `!` behind it says that it is required.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

FACTS = Path(__file__).parent / "facts"
SCALARS = {"string": (str,), "boolean": (bool,), "integer": (int,), "number": (int, float)}

Table = Mapping[str, str]


@cache
def package(name: str) -> dict[str, Any]:
    """What is known of a plugin."""
    found: dict[str, Any] = json.loads((FACTS / f"{name}.json").read_text())
    return found


def problems(facts: Mapping[str, Any], table: Table, values: Any, at: str) -> Iterator[str]:
    """What a plugin would refuse of an object."""
    if not isinstance(values, Mapping):
        yield f"{at}: {values!r} is not an object"
        return
    for name in values.keys() - table.keys():
        yield f"{at}.{name}: the official plugin does not know it"
    for name, rule in table.items():
        if values.get(name) is None:
            if rule.endswith("!"):
                yield f"{at}.{name}: required"
        else:
            yield from _value(facts, rule.rstrip("!"), values[name], f"{at}.{name}")


def _value(facts: Mapping[str, Any], kind: str, value: Any, at: str) -> Iterator[str]:
    if kind.startswith("["):
        if not isinstance(value, list):
            yield f"{at}: {value!r} is not a list"
            return
        for number, one in enumerate(value):
            yield from _value(facts, kind[1:-1], one, f"{at}[{number}]")
    elif kind.startswith("{"):
        for key, one in value.items():
            yield from _value(facts, kind[1:-1], one, f"{at}.{key}")
    elif kind in facts["types"]:
        yield from problems(facts, facts["types"][kind], value, at)
    elif not _is_scalar(kind, value):
        yield f"{at}: {value!r} is not of type {kind}"


def _is_scalar(kind: str, value: Any) -> bool:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # the protocol has no integers
    allowed = SCALARS[kind]
    return isinstance(value, allowed) and (kind == "boolean" or not isinstance(value, bool))


@cache
def operator_values(version: str) -> frozenset[str]:
    """Keys of the chart's values, with dots: of the package of that version."""
    return frozenset((FACTS / f"operator_values_{version}.txt").read_text().split())


@cache
def read_charts() -> tuple[str, ...]:
    """The versions of the chart whose values were read, oldest first."""
    names = (file.stem.removeprefix("operator_values_") for file in FACTS.glob("operator_values_*"))
    return tuple(sorted(names, key=number))


def number(version: str) -> tuple[int, ...]:
    """A version to compare by."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def neighbours(version: str) -> list[str]:
    """The packages that were read around a version: itself, or those before and after it."""
    before = [one for one in read_charts() if number(one) <= number(version)][-1:]
    after = [one for one in read_charts() if number(one) >= number(version)][:1]
    return sorted({*before, *after})
