"""The structure of Talos' machine configuration documents: which keys there are, of which type.

What is allowed is data (data/machine_config_*.yaml); this module compares a parsed document with
it and speaks as Talos does about what does not fit.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

Node = Any
"""A node of a parsed YAML document."""

MAIN: Final = "v1alpha1"
"""Talos' name of the document that has no kind."""

_MAIN_TYPE: Final = "Config"
_SCALARS: Final = frozenset({"string", "bool", "int", "duration", "size", "url", "base64"})
_BOOLEANS: Final = frozenset(("y", "yes", "on", "n", "no", "off", "true", "false"))
_TAGS: Final = {bool: "!!bool", int: "!!int", float: "!!float", str: "!!str"}
_OLDEST: Final = (1, 0)


@dataclass(frozen=True)
class Field:
    """One key of a document."""

    type: str
    """A scalar, `any`, the name of a part, `[type]`, `{type}` or words separated by `|`."""
    since: tuple[int, int]
    """Talos minor that brought the key."""
    required: bool


@dataclass(frozen=True)
class Kind:
    """One kind of document."""

    since: tuple[int, int]
    fields: dict[str, Field]


@cache
def kinds() -> dict[str, Kind]:
    """Every kind of document that some Talos release knows."""
    found = {MAIN: Kind(_OLDEST, parts()[_MAIN_TYPE])}
    for name, fields in _read("machine_config_documents.yaml")["documents"].items():
        kind, since = _split_version(name)
        found[kind] = Kind(since, _fields(fields))
    return found


@cache
def parts() -> dict[str, dict[str, Field]]:
    """Every named structure inside documents."""
    shared = _read("machine_config_documents.yaml")["parts"]
    return {
        name: _fields(fields)
        for name, fields in {**_read("machine_config_v1alpha1.yaml"), **shared}.items()
    }


def _read(name: str) -> dict[str, Any]:
    text = resources.files("rack.world").joinpath("data", name).read_text(encoding="utf-8")
    found: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return found


def _fields(written: dict[str, str]) -> dict[str, Field]:
    found = {}
    for key, text in written.items():
        spelled, since = _split_version(text)
        found[key] = Field(spelled.removesuffix("!"), since, spelled.endswith("!"))
    return found


def _split_version(text: str) -> tuple[str, tuple[int, int]]:
    name, _, version = text.partition("@")
    if not version:
        return name, _OLDEST
    major, minor = version.split(".")
    return name, (int(major), int(minor))


class Structure:
    """Compares one document with the keys of one Talos minor."""

    def __init__(self, minor: tuple[int, int]) -> None:
        self._minor = minor

    def mismatches(self, node: Node, fields: dict[str, Field]) -> Iterator[str]:
        """What has the wrong type, with its line, in the words of Talos' YAML reader."""
        for key, value in node.items():
            field = self._known(fields, key)
            if field is not None and value is not None:
                yield from self._mismatches(value, field.type, _line(node, key))

    def _mismatches(self, value: Node, wanted: str, line: int) -> Iterator[str]:
        if wanted.startswith("["):
            yield from self._list_mismatches(value, wanted[1:-1], line)
        elif wanted.startswith("{") or wanted in parts():
            yield from self._mapping_mismatches(value, wanted, line)
        elif wanted != "any" and (problem := _scalar_problem(value, wanted)):
            yield f"line {line}: {problem}"

    def _list_mismatches(self, value: Node, wanted: str, line: int) -> Iterator[str]:
        if not isinstance(value, CommentedSeq):
            yield _cannot(value, "a list", line)
            return
        for index, item in enumerate(value):
            yield from self._mismatches(item, wanted, value.lc.item(index)[0] + 1)

    def _mapping_mismatches(self, value: Node, wanted: str, line: int) -> Iterator[str]:
        if not isinstance(value, CommentedMap):
            yield _cannot(value, "a mapping", line)
        elif wanted in parts():
            yield from self.mismatches(value, parts()[wanted])
        else:
            for key, item in value.items():
                yield from self._mismatches(item, wanted[1:-1], _line(value, key))

    def unknown(self, node: Node, fields: dict[str, Field]) -> dict[str, Node]:
        """The part of a mapping that Talos does not know, with the path that leads to it."""
        found: dict[str, Node] = {}
        for key, value in node.items():
            field = self._known(fields, key)
            if field is None:
                found[key] = value
            elif inner := self._unknown(value, field.type):
                found[key] = inner
        return found

    def _unknown(self, value: Node, wanted: str) -> Node:
        if wanted in parts() and isinstance(value, dict):
            return self.unknown(value, parts()[wanted])
        if wanted.startswith("[") and isinstance(value, list):
            return [inner for item in value if (inner := self._unknown(item, wanted[1:-1]))]
        if wanted.startswith("{") and isinstance(value, dict):
            items = {key: self._unknown(item, wanted[1:-1]) for key, item in value.items()}
            return {key: inner for key, inner in items.items() if inner}
        return None

    def _known(self, fields: dict[str, Field], key: str) -> Field | None:
        field = fields.get(key)
        return field if field is not None and field.since <= self._minor else None


def missing(node: Node, fields: dict[str, Field]) -> list[str]:
    """Required keys that a document lacks."""
    return [key for key, field in fields.items() if field.required and node.get(key) in (None, "")]


def write(node: Node) -> str:
    """YAML with Talos' indentation, for messages."""
    writer = YAML(typ="rt", pure=True)
    writer.indent(mapping=4, sequence=6, offset=4)
    out = io.StringIO()
    writer.dump(_plain(node), out)
    return out.getvalue()


def _line(node: Node, key: Any) -> int:
    """Where a key's value is written; for one that came by a merge, where its mapping starts."""
    try:
        return int(node.lc.value(key)[0]) + 1
    except KeyError:
        return int(node.lc.line or 0) + 1


def _plain(node: Node) -> Node:
    """The node without the style that it was written in."""
    if isinstance(node, dict):
        return {key: _plain(value) for key, value in node.items()}
    return [_plain(item) for item in node] if isinstance(node, list) else node


def _cannot(value: Node, wanted: str, line: int) -> str:
    tag = "!!map" if isinstance(value, dict) else "!!seq" if isinstance(value, list) else "!!str"
    shown = "" if isinstance(value, (dict, list)) else f" `{value}`"
    return f"line {line}: cannot unmarshal {tag}{shown} into {wanted}"


def _scalar_problem(value: Node, wanted: str) -> str:
    if isinstance(value, (dict, list)):
        return f"cannot unmarshal {'!!map' if isinstance(value, dict) else '!!seq'} into {wanted}"
    if wanted not in _SCALARS:
        words = wanted.split("|")
        return "" if _text(value) in words else f"{_text(value)!r} is not one of {', '.join(words)}"
    tag = next((name for kind, name in _TAGS.items() if isinstance(value, kind)), "!!str")
    refusal = f"cannot unmarshal {tag} `{value}` into {wanted}"
    if wanted == "bool":
        return "" if isinstance(value, bool) or str(value).lower() in _BOOLEANS else refusal
    if wanted == "int":
        whole = isinstance(value, int) and not isinstance(value, bool)
        return "" if whole or re.fullmatch(r"0[xo]?[0-9a-fA-F]+|\d+", str(value)) else refusal
    return _base64_problem(str(value)) if wanted == "base64" else ""


def _base64_problem(text: str) -> str:
    """The value may be a key, so it is not repeated."""
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return "illegal base64 data"
    return ""


def _text(value: Node) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
