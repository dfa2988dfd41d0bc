"""The configuration's two ways in: Pulumi's own configuration, and a stack file.

`defaults.yaml` beside the stack file holds what the stacks share. It is merged deep: maps by key,
everything else replaced by the stack's value; null in a stack takes a default away. A stack that
starts higher up takes no defaults for the layers below.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from gpu_passthrough import document, wording
from gpu_passthrough.config import NAMESPACE, Stack
from gpu_passthrough.document import Document
from gpu_passthrough.judging import Raw, judge
from gpu_passthrough.problems import ConfigurationError, Path, Problem

PROJECT = FilePath(__file__).parent.parent
DEFAULTS = "defaults.yaml"
ENCRYPTED = "(encrypted in the stack file)"
"""Stands for a secret's value where only the file is read, without its key."""
FILE_KEYS = ("config", "environment", "encryptionsalt", "encryptedkey", "secretsprovider")
BELOW = {
    "kubernetes": ("proxmox", "cluster", "talos"),
    "talos": ("proxmox",),
    "machines": ("proxmox",),
}
"""Where a stack starts higher up: the sections below it, whose defaults do not apply."""


@dataclass(frozen=True)
class Source:
    """A file that configuration came from, and where its keys stand in it."""

    file: str
    lines: Mapping[Path, int]

    def line(self, path: Path) -> int | None:
        """The line of a path, or of the nearest thing around it that the file has."""
        for length in range(len(path), 0, -1):
            if (line := self.lines.get(path[:length])) is not None:
                return line
        return None


def merge(defaults: Any, own: Any) -> Any:
    """Put a stack's own values over the defaults."""
    if not (isinstance(defaults, dict) and isinstance(own, dict)):
        return own
    merged = dict(defaults)
    for key, value in own.items():
        if value is None and key in merged:
            del merged[key]
        else:
            merged[key] = merge(merged[key], value) if key in merged else value
    return merged


def _with_defaults(own: Raw, defaults: Raw) -> Raw:
    dropped = {below for start, sections in BELOW.items() if own.get(start) for below in sections}
    return dict(merge({k: v for k, v in defaults.items() if k not in dropped}, own))


def _locate(problems: Iterable[Problem], sources: list[Source]) -> list[Problem]:
    """Give each problem the file and line that its path has; the first source counts most."""
    located = []
    for problem in problems:
        source = next((one for one in sources if problem.path in one.lines), None)
        source = source or next((one for one in sources if one.line(problem.path)), None)
        if source is not None and problem.file is None:
            problem = problem.located(source.line, source.file)
        located.append(problem)
    return located


def _section_keys(found: Document, prefix: str) -> tuple[Raw, dict[Path, int]]:
    """The sections of a file whose keys carry a prefix, and their lines without it."""
    values = {key[len(prefix) :]: value for key, value in found.value.items()}
    lines = {
        (str(path[0])[len(prefix) :], *path[1:]): line for path, line in found.lines.items() if path
    }
    return values, lines


def _decrypted(value: Any) -> Any:
    """A file's value with a stand-in for each secret."""
    if isinstance(value, dict):
        if set(value) == {"secure"}:
            return ENCRYPTED
        return {key: _decrypted(one) for key, one in value.items()}
    return [_decrypted(one) for one in value] if isinstance(value, list) else value


def _defaults(folder: FilePath) -> tuple[Raw, list[Source], list[Problem]]:
    if not (folder / DEFAULTS).exists():
        return {}, [], []
    found = document.read(folder / DEFAULTS)
    if found.value is None:
        return {}, [], found.problems
    if not isinstance(found.value, dict):
        text = f"{DEFAULTS} holds {wording.echo(found.value, ())}, not a map of sections."
        raise ConfigurationError([Problem((), text, rule="defaults")])
    values, lines = _section_keys(found, "")
    return values, [Source(found.name, lines)], found.problems


def _not_a_map(name: str, key: str, value: Any, line: int | None) -> ConfigurationError:
    text = f"{key!r} of {name} is {wording.echo(value, ())}, not a map of keys to values."
    return ConfigurationError([Problem((), text, line=line, rule="stack-file", file=name)])


def _key_problem(key: str, line: int | None, name: str) -> Problem | None:
    """What is wrong with a key of `config`, or None where it is somebody else's or ours."""
    namespace, colon, rest = key.partition(":")
    if namespace == NAMESPACE and colon and rest:
        return None
    wanted = f"{NAMESPACE}:{rest or namespace}"
    alike = difflib.SequenceMatcher(None, namespace, NAMESPACE).ratio() > 0.8
    if colon and not alike:
        return None
    return Problem(
        (key,),
        f"{key!r} does not begin with {NAMESPACE}:.",
        line=line,
        rule="unknown-key",
        why="Pulumi would hand it to somebody else, or to nobody.",
        fix=f"Did you mean {wanted!r}?",
        file=name,
    )


def _own_keys(found: Document) -> tuple[Raw, dict[Path, int], list[Problem]]:
    """The project's part of a stack file."""
    root = found.value if found.value is not None else {}
    if not isinstance(root, dict):
        raise _not_a_map(found.name, "the whole", root, 1)
    config = root.get("config")
    config = {} if config is None else config
    if not isinstance(config, dict):
        raise _not_a_map(found.name, "config", config, found.lines.get(("config",)))
    problems = list(found.problems)
    for key in root:
        if key not in FILE_KEYS:
            near = wording.nearest_key(key, list(FILE_KEYS))
            fix = (
                f"Did you mean {near!r}?" if near else f"Put it below config as {NAMESPACE}:{key}."
            )
            line = found.lines.get((key,))
            text = f"{key!r} is not a key of a stack file."
            problems.append(Problem((key,), text, line, "unknown-key", fix=fix, file=found.name))
    values: Raw = {}
    for key, value in config.items():
        if problem := _key_problem(key, found.lines.get(("config", key)), found.name):
            problems.append(problem)
        elif key.startswith(f"{NAMESPACE}:"):
            values[key.removeprefix(f"{NAMESPACE}:")] = value
    lines: dict[Path, int] = {}
    prefix = f"{NAMESPACE}:"
    for path, line in found.lines.items():
        if len(path) > 1 and path[0] == "config" and str(path[1]).startswith(prefix):
            lines[(str(path[1]).removeprefix(prefix), *path[2:])] = line
    return values, lines, problems


def _judge_files(
    own: Raw, sources: list[Source], folder: FilePath, problems: list[Problem]
) -> Stack:
    defaults, more, wrong = _defaults(folder)
    try:
        stack = judge(_with_defaults(own, defaults))
    except ConfigurationError as error:
        found = _locate(error.problems, sources + more)
        raise ConfigurationError([*problems, *wrong, *found]) from None
    if problems or wrong:
        raise ConfigurationError([*problems, *wrong])
    return stack


def load_stack_file(path: FilePath | str) -> Stack:
    """Read and judge a stack file without Pulumi; secrets stay encrypted and are not judged.

    Raises ConfigurationError with every problem, each with its line.
    """
    path = FilePath(path)
    found = document.read(path)
    values, lines, problems = _own_keys(found)
    return _judge_files(_decrypted(values), [Source(path.name, lines)], path.parent, problems)


def _from_pulumi(config: Mapping[str, str]) -> tuple[Raw, list[Problem]]:
    """Pulumi hands every value over as text; what is not a plain one is JSON."""
    values: Raw = {}
    problems: list[Problem] = []
    for key, text in config.items():
        namespace, _, section = key.partition(":")
        if namespace != NAMESPACE:
            continue
        try:
            values[section] = json.loads(text)
        except (ValueError, RecursionError):
            values[section] = text
    return values, problems


def _stack_file_lines(file: FilePath) -> list[Source]:
    """Where the keys of the stack file stand, as far as the file can be read."""
    try:
        _, lines, _ = _own_keys(document.read(file))
    except ConfigurationError:
        return []
    return [Source(file.name, lines)]


def load_stack(folder: FilePath = PROJECT) -> Stack:
    """Read and judge the configuration of the running Pulumi program.

    Raises ConfigurationError with every problem; lines are those of the stack file, where the
    value came from it and not from an environment or the command line.
    """
    import pulumi
    from pulumi.runtime import config as runtime

    values, problems = _from_pulumi({**runtime.get_config_env(), **runtime.CONFIG.get()})
    try:
        return _judge_files(values, [], folder, problems)
    except ConfigurationError as error:
        sources = _stack_file_lines(folder / f"Pulumi.{pulumi.get_stack()}.yaml")
        raise ConfigurationError(_locate(error.problems, sources)) from None
