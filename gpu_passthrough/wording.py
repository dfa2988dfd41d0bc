"""Turns what pydantic says about a configuration into words for people."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from gpu_passthrough import hints
from gpu_passthrough.config import Stack
from gpu_passthrough.fields import ENCRYPTED
from gpu_passthrough.problems import Path, Problem, where

Error = Mapping[str, Any]
MAX_ECHO = 60
"""Characters of a wrong value that are repeated in a message."""

KINDS = {
    "string": "text",
    "int": "a whole number",
    "bool": "true or false",
    "float": "a number",
    "list": "a list",
    "dict": "a map of names to values",
    "model": "a map of keys to values",
}


COLLECTIONS = (dict, list, Sequence)
"""What holds others of one kind: a step into it is a name or a position, not a field."""


def _inner(annotation: Any, wanted: type) -> Any:
    """The part of an annotation that is a model, dict or list; through Optional and Annotated."""
    if isinstance(annotation, type) and issubclass(annotation, wanted):
        return annotation
    if get_origin(annotation) in COLLECTIONS:
        return None
    return next((found for one in get_args(annotation) if (found := _inner(one, wanted))), None)


def _element(annotation: Any) -> Any:
    """What a dict or list holds."""
    if get_origin(annotation) is not None and (arguments := get_args(annotation)):
        return arguments[-1]
    return None


def field_at(path: Path) -> FieldInfo | None:
    """The model's field at a path of the configuration; None where the model has none."""
    annotation: Any = Stack
    found: FieldInfo | None = None
    for step in path:
        model = _inner(annotation, BaseModel)
        if model is None:
            annotation, found = _element(annotation), None
            continue
        fields: dict[str, FieldInfo] = model.model_fields
        found = next((one for one in fields.values() if one.alias == step), None)
        annotation = found.annotation if found else None
    return found


def keys_at(path: Path) -> list[str]:
    """The keys that may stand below a path."""
    annotation: Any = Stack
    for step in path:
        model = _inner(annotation, BaseModel)
        if model is None:
            annotation = _element(annotation)
            continue
        field = next((one for one in model.model_fields.values() if one.alias == step), None)
        annotation = field.annotation if field else None
    model = _inner(annotation, BaseModel)
    return [str(one.alias) for one in model.model_fields.values()] if model else []


def nearest_key(key: str, known: list[str]) -> str | None:
    """The known key that is most like a key, or None."""
    lowered = {one.lower(): one for one in known}
    plain = key.lower().replace("_", "").replace("-", "")
    found = difflib.get_close_matches(plain, lowered, n=1, cutoff=0.6)
    return lowered[found[0]] if found else None


def is_secret(path: Path) -> bool:
    """Whether a value at this path must not be repeated in a message."""
    return any(
        (field := field_at(path[: length + 1])) is not None
        and (_inner(field.annotation, SecretStr) or "SecretStr" in str(field.annotation))
        for length in range(len(path))
    )


def echo(value: Any, path: Path) -> str:
    """A value as it may be repeated: short, and never a secret."""
    if is_secret(path):
        return "the secret"
    text = f"{value!r}" if isinstance(value, str) else str(value)
    if isinstance(value, dict):
        text = "a map"
    elif isinstance(value, list):
        text = "a list"
    elif value is None:
        text = "nothing (null)"
    elif isinstance(value, bool):
        text = str(value).lower()
    return text if len(text) <= MAX_ECHO else text[: MAX_ECHO - 1] + "…"


def unknown_key(path: Path) -> Problem:
    """A key that the configuration does not have."""
    key = str(path[-1])
    known = keys_at(path[:-1])
    near = nearest_key(key, known)
    hint = hints.UNKNOWN_KEYS.get(key, "")
    if near:
        fix = f"Did you mean {near!r}?"
    elif hint:
        fix = f"Remove it. Known keys here: {', '.join(known)}."
    else:
        fix = f"Known keys here: {', '.join(known)}."
    inside = where(path[:-1]) if len(path) > 1 else "a stack"
    return Problem(
        path, f"{key!r} is not a key of {inside}.", rule="unknown-key", why=hint, fix=fix
    )


def _missing(path: Path, error: Error) -> Problem:
    key = str(path[-1])
    field = field_at(path)
    why = hints.MISSING_KEYS.get(key, (field.description or "") if field else "")
    return Problem(path, f"{key!r} is missing.", rule="missing-key", why=why, fix="Add it.")


def _literal(path: Path, error: Error) -> str:
    allowed = error["ctx"]["expected"].replace("'", "")
    return f"{echo(error['input'], path)} is not one of: {allowed}."


def _pattern(path: Path, error: Error) -> str:
    wanted = hints.PATTERNS.get(error["ctx"]["pattern"], "in the form " + error["ctx"]["pattern"])
    return f"{echo(error['input'], path)} is not {wanted}."


def _bound(path: Path, error: Error) -> str:
    context = error["ctx"]
    limit = context.get("ge", context.get("le"))
    side = "at least" if "ge" in context else "at most"
    return f"{echo(error['input'], path)} is out of range; it must be {side} {limit}."


def _length(path: Path, error: Error) -> str:
    what = "text" if error["type"] == "string_too_short" else "entry"
    return f"This is empty; at least one {what} is needed."


def _too_many(path: Path, error: Error) -> str:
    context = error["ctx"]
    return f"These are {context['actual_length']}; at most {context['max_length']} are possible."


def _value_error(path: Path, error: Error) -> str:
    text = str(error["ctx"]["error"])
    return text[0].upper() + text[1:] + "."


WORDS = {
    "literal_error": _literal,
    "string_pattern_mismatch": _pattern,
    "greater_than_equal": _bound,
    "less_than_equal": _bound,
    "too_short": _length,
    "string_too_short": _length,
    "too_long": _too_many,
    "value_error": _value_error,
}


def _kind(path: Path, error: Error) -> str:
    """Something of another kind than the field takes."""
    kind = KINDS.get(error["type"].split("_")[0])
    if kind is None:
        return f"{echo(error['input'], path)} cannot be used here: {error['msg'].lower()}."
    quotes = ""
    if kind == "text" and isinstance(error["input"], (int, float, bool)):
        quotes = " Put it in quotes."
    return f"{echo(error['input'], path)} is not {kind}.{quotes}"


def problem(error: Error) -> Problem:
    """One of pydantic's errors as a problem."""
    path: Path = tuple(error["loc"])
    if error["type"] == "extra_forbidden":
        return unknown_key(path)
    if error["type"] == "missing":
        return _missing(path, error)
    is_key = bool(path) and path[-1] == "[key]"
    if is_key:
        path = path[:-1]
    if error["input"] == ENCRYPTED:
        text = "This is encrypted in the stack file, so it cannot be judged without Pulumi."
        return Problem(path, text, rule="value", fix="Keep only secrets encrypted.")
    message = WORDS.get(error["type"], _kind)(path, error)
    field = field_at(path)
    why = (field.description or "") if field and not is_key else ""
    return Problem(path, ("As a name, " if is_key else "") + message, rule="value", why=why)
