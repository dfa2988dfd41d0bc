"""A stack file's own layer: Pulumi's keys, the project's prefix, encrypted values, lines."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from gpu_passthrough import document, wording
from gpu_passthrough.config import NAMESPACE
from gpu_passthrough.document import Document
from gpu_passthrough.fields import ENCRYPTED, Raw
from gpu_passthrough.problems import ConfigurationError, Path, Problem

PREFIX = f"{NAMESPACE}:"
FILE_KEYS = ("config", "environment", "encryptionsalt", "encryptedkey", "secretsprovider")
ALIKE = 0.8
"""From this likeness on, another prefix is taken for a misspelt one of ours."""


@dataclass(frozen=True)
class Source:
    """A file that configuration came from, and where its keys stand in it."""

    file: str
    lines: Mapping[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int | None:
        """The line of a path, or of the nearest thing around it that the file has."""
        for length in range(len(path), 0, -1):
            if (line := self.lines.get(path[:length])) is not None:
                return line
        return None


@dataclass(frozen=True)
class StackFile:
    """The project's part of a stack file, and what is wrong with the rest."""

    values: Raw
    source: Source
    problems: tuple[Problem, ...]


def decrypted(value: Any) -> Any:
    """A file's value with a stand-in for each secret."""
    if isinstance(value, dict):
        if set(value) == {"secure"}:
            return ENCRYPTED
        return {key: decrypted(one) for key, one in value.items()}
    return [decrypted(one) for one in value] if isinstance(value, list) else value


def as_map(value: Any, what: str, name: str, line: int | None = None) -> Raw:
    """A value that has to be a map; nothing at all is an empty one."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    text = f"{what} of {name} is {wording.echo(value, ())}, not a map of keys to values."
    raise ConfigurationError([Problem((), text, line=line, rule="stack-file", file=name)])


def _top_problem(key: str, line: int | None, name: str) -> Problem:
    near = wording.nearest_key(key, list(FILE_KEYS))
    fix = f"Did you mean {near!r}?" if near else f"Put it below config, as {PREFIX}{key}."
    text = f"{key!r} is not a key of a stack file."
    return Problem((key,), text, line=line, rule="unknown-key", fix=fix, file=name)


def _prefix_problem(key: str, line: int | None, name: str) -> Problem | None:
    """What is wrong with a key of `config`; None where it is ours or somebody else's."""
    namespace, colon, rest = key.partition(":")
    alike = difflib.SequenceMatcher(None, namespace, NAMESPACE).ratio() > ALIKE
    if (namespace == NAMESPACE and rest) or (colon and not alike):
        return None
    return Problem(
        (key,),
        f"{key!r} does not begin with {PREFIX}.",
        line=line,
        rule="unknown-key",
        why="Pulumi would hand it to somebody else, or to nobody.",
        fix=f"Did you mean {PREFIX + (rest or namespace)!r}?",
        file=name,
    )


def _own_lines(found: Document) -> dict[Path, int]:
    return {
        (str(path[1]).removeprefix(PREFIX), *path[2:]): line
        for path, line in found.lines.items()
        if len(path) > 1 and path[0] == "config" and str(path[1]).startswith(PREFIX)
    }


def read(path: FilePath) -> StackFile:
    """Read a stack file; ConfigurationError where it cannot be read at all."""
    found = document.read(path)
    root = as_map(found.value, "The whole", found.name, 1)
    config = as_map(root.get("config"), "config", found.name, found.lines.get(("config",)))
    problems = list(found.problems)
    problems += [
        _top_problem(key, found.lines.get((key,)), found.name)
        for key in root
        if key not in FILE_KEYS
    ]
    wrong = (_prefix_problem(key, found.lines.get(("config", key)), found.name) for key in config)
    problems += [problem for problem in wrong if problem]
    values = {
        key.removeprefix(PREFIX): decrypted(value)
        for key, value in config.items()
        if key.startswith(PREFIX) and key != PREFIX
    }
    return StackFile(values, Source(found.name, _own_lines(found)), tuple(problems))
