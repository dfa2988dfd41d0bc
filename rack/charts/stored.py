"""What an API server keeps of an object: known fields, with the defaults of their schema.

A chart's CustomResourceDefinition has a say in what its operator reads, so charts are compared by
what is kept, not by what they write.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

Schema = Mapping[str, Any]


def stored(value: Any, schema: Schema) -> Any:
    """A value as it is kept.

    Args:
        value: the value as JSON.
        schema: a structural schema (OpenAPI v3) of a CustomResourceDefinition.

    """
    if isinstance(value, Mapping):
        return _object(value, schema)
    if isinstance(value, list) and "items" in schema:
        return [stored(one, schema["items"]) for one in value]
    return value


def part_of(schema: Schema, path: tuple[str, ...]) -> Schema | None:
    """Schema of a field; None where there is no such field."""
    found: Schema | None = schema
    for key in path:
        found = (found.get("properties") or {}).get(key) if found else None
    return found


_BLANKS: Final = {"array": [], "boolean": False, "integer": 0, "string": ""}


def blank(schema: Schema) -> Any:
    """A value of a field's type that says nothing."""
    if schema.get("type") == "object":
        return {key: blank(one) for key, one in (schema.get("properties") or {}).items()}
    return deepcopy(_BLANKS.get(schema.get("type", "")))


def _object(value: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    known: Mapping[str, Schema] = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    # Null is nothing where a field may not be null, and comes before the defaults.
    given = {key: one for key, one in value.items() if one is not None}
    defaults = {
        key: deepcopy(of["default"])
        for key, of in known.items()
        if key not in given and "default" in of
    }
    keeps_all = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    found = {}
    for key, one in {**given, **defaults}.items():
        if key in known:
            found[key] = stored(one, known[key])
        elif isinstance(others, Mapping):
            found[key] = stored(one, others)
        elif keeps_all or others is True:
            found[key] = one
    return found
