"""Reads a YAML file as Pulumi does, and remembers on which line everything stands.

PyYAML's C parser does the parsing; plain scalars are resolved here, because YAML 1.1 would read
the PCI path 0000:01:00 as the number 60 and `on` as true, and Pulumi's parser does not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import yaml

from gpu_passthrough.problems import ConfigurationError, Path, Problem

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"^[-+]?(0|[1-9][0-9]{0,17})$")
_FLOAT = re.compile(r"^[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]{1,3})?$")
_LONG_INT = re.compile(r"^[-+]?[0-9]+$")
MAX_NODES = 500_000
"""Aliases can grow a small file without bound; no stack needs as much as this."""
MAX_DEPTH = 100
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


@dataclass
class Document:
    """A YAML file's value, the line of each path, and what is wrong with its keys."""

    name: str
    value: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0

    def problem(self, path: Path, line: int, message: str, fix: str = "") -> None:
        """Note something that is wrong with the file itself."""
        self.problems.append(
            Problem(path, message, line=line, fix=fix, rule="yaml", file=self.name)
        )


def _scalar(node: Any) -> Any:
    """The value of a scalar; quoted and block scalars are always text."""
    text: str = node.value
    if node.style:
        return text
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.match(text):
        return int(text)
    if _FLOAT.match(text) and not _LONG_INT.match(text):
        return float(text)
    return text


def _mapping(document: Document, node: Any, path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            document.problem(path, line, "A key must be a word, not a list or a map.")
            continue
        key: str = key_node.value
        if key == "<<" and key_node.style is None:
            inherited = _value(document, value_node, path)
            for source in inherited if isinstance(inherited, list) else [inherited]:
                found = {**source, **found} if isinstance(source, dict) else found
            continue
        here = (*path, key)
        first = document.lines.get(here) if key in found else None
        if first is not None:
            document.problem(
                here, line, f"{key!r} is given twice, on lines {first} and {line}.", "Keep one."
            )
        document.lines[here] = line
        found[key] = _value(document, value_node, here)
    return found


def _value(document: Document, node: Any, path: Path) -> Any:
    document.nodes += 1
    if document.nodes > MAX_NODES or len(path) > MAX_DEPTH:
        mark = node.start_mark.line + 1
        reason = "is nested too deeply" if len(path) > MAX_DEPTH else "grows too large by aliases"
        text = f"The file {reason} to be a configuration."
        raise ConfigurationError(
            [Problem(path[:4], text, line=mark, rule="yaml", file=document.name)]
        )
    if isinstance(node, yaml.MappingNode):
        return _mapping(document, node, path)
    if isinstance(node, yaml.SequenceNode):
        items = []
        for position, item in enumerate(node.value):
            document.lines.setdefault((*path, position), item.start_mark.line + 1)
            items.append(_value(document, item, (*path, position)))
        return items
    return _scalar(node)


def _unreadable(name: str, message: str, line: int | None = None) -> ConfigurationError:
    return ConfigurationError([Problem((), message, line=line, rule="yaml", file=name)])


def parse(text: str, name: str) -> Document:
    """Parse YAML; ConfigurationError where it is none."""
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        detail = error.problem or error.context or "cannot be parsed"
        raise _unreadable(name, f"{name} is not valid YAML: {detail}.", line) from None
    except (yaml.YAMLError, RecursionError) as error:
        detail = str(error).splitlines()[0] if str(error) else "cannot be parsed"
        raise _unreadable(name, f"{name} is not valid YAML: {detail}.") from None
    document = Document(name)
    document.value = None if root is None else _value(document, root, ())
    return document


def read(path: FilePath) -> Document:
    """Read and parse a YAML file; ConfigurationError where that cannot be done."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise _unreadable(path.name, f"{path} does not exist.") from None
    except UnicodeDecodeError:
        raise _unreadable(path.name, f"{path} is not UTF-8 text.") from None
    except OSError as error:
        raise _unreadable(path.name, f"{path} cannot be read: {error.strerror}.") from None
    return parse(text, path.name)
