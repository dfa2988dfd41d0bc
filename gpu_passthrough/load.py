"""The configuration's two ways in: Pulumi's own configuration, and a stack file.

`stacks/defaults.yaml` beside the stack file holds what the stacks share. It is merged deep: maps
by key, everything else replaced by the stack's value; null in a stack takes a default away. A
stack that starts higher up takes no defaults for the layers below.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any

from gpu_passthrough import document, missing, stackfile
from gpu_passthrough.config import NAMESPACE, Stack
from gpu_passthrough.fields import Raw
from gpu_passthrough.judging import judge
from gpu_passthrough.problems import ConfigurationError, Problem
from gpu_passthrough.stackfile import Source

PROJECT = FilePath(__file__).parent.parent
DEFAULTS = "stacks/defaults.yaml"
BELOW = {
    "kubernetes": ("proxmox", "cluster", "talos"),
    "talos": ("proxmox",),
    "machines": ("proxmox",),
}
"""Where a stack starts higher up: the sections below it, whose defaults do not apply."""


def merge(common: Any, own: Any) -> Any:
    """Put a stack's own values over the defaults."""
    if not (isinstance(common, dict) and isinstance(own, dict)):
        return own
    merged = dict(common)
    for key, value in own.items():
        if value is None and key in merged:
            del merged[key]
        else:
            merged[key] = merge(merged[key], value) if key in merged else value
    return merged


def _with_defaults(own: Raw, common: Raw) -> Raw:
    dropped = {
        below
        for start, sections in BELOW.items()
        if own.get(start)
        for below in sections
        if below not in own
    }
    return dict(merge({k: v for k, v in common.items() if k not in dropped}, own))


def _defaults(folder: FilePath) -> tuple[Raw, Source, list[Problem]]:
    """What the stacks share, where it stands, and what is wrong with that file."""
    if not (folder / DEFAULTS).exists():
        return {}, Source(DEFAULTS), []
    found = document.read(folder / DEFAULTS)
    values = stackfile.as_map(found.value, "The whole", DEFAULTS, 1)
    return values, Source(DEFAULTS, found.lines), found.problems


def defaults(folder: FilePath = PROJECT) -> Raw:
    """What the stacks of a folder share."""
    return _defaults(folder)[0]


def _locate(problems: Iterable[Problem], sources: list[Source]) -> list[Problem]:
    """Give each problem the file and line that its path has; the first source counts most."""
    located = []
    for problem in problems:
        exact = (one for one in sources if problem.path in one.lines)
        around = (one for one in sources if one.line(problem.path))
        source = next(exact, None) or next(around, None)
        if source is not None and problem.file is None:
            problem = problem.located(source.line, source.file)
        located.append(problem)
    return located


def _judge(own: Raw, folder: FilePath, source: Callable[[], Source]) -> Stack:
    """Judge a stack's own values over the defaults; `source` is read only to place problems."""
    common, shared, wrong = _defaults(folder)
    found: list[Problem] = []
    try:
        stack = judge(_with_defaults(own, common))
    except ConfigurationError as error:
        found = _locate(error.problems, [source(), shared])
    if wrong or found:
        raise ConfigurationError([*wrong, *found])
    return stack


def load_stack_file(path: FilePath | str) -> Stack:
    """Read and judge a stack file without Pulumi; secrets stay encrypted and are not judged.

    Raises ConfigurationError with every problem, each with its line.
    """
    path = FilePath(path)
    file = stackfile.read(path)
    found: list[Problem] = list(file.problems)
    try:
        stack = _judge(file.values, path.parent, lambda: file.source)
    except ConfigurationError as error:
        found += error.problems
    if found:
        raise ConfigurationError(found)
    return stack


def _from_pulumi(config: Mapping[str, str]) -> Raw:
    """Pulumi hands every value over as text, and what is not a plain one as JSON."""
    values: Raw = {}
    for key, text in config.items():
        namespace, _, section = key.partition(":")
        if namespace == NAMESPACE:
            try:
                values[section] = json.loads(text)
            except (ValueError, RecursionError):
                values[section] = text
    return values


def load_stack(folder: FilePath = PROJECT) -> Stack:
    """Read and judge the configuration of the running Pulumi program.

    Raises ConfigurationError with every problem, and with every secret that is missing; lines are
    those of the stack file, where the value came from it and not from an environment or the
    command line.
    """
    import pulumi
    from pulumi.runtime import config as runtime

    def source() -> Source:
        file = folder / f"Pulumi.{pulumi.get_stack()}.yaml"
        try:
            return stackfile.read(file).source
        except ConfigurationError:
            return Source(file.name)

    values = _from_pulumi({**runtime.get_config_env(), **runtime.CONFIG.get()})
    stack = _judge(values, folder, source)
    if absent := list(missing.secrets(stack, pulumi.get_stack(), os.environ)):
        raise ConfigurationError(absent)
    return stack
