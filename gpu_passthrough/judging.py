"""Turns a configuration's plain values into the model, or into all of its problems.

One mistake does not hide the others: a misspelt key is judged as the nearest known one, a wrong
item is left out, and every rule that does not need what is wrong is still applied.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from gpu_passthrough import rules, wording
from gpu_passthrough.config import Stack
from gpu_passthrough.fields import Raw
from gpu_passthrough.problems import ConfigurationError, Path, Problem

ITEMS = frozenset({"nodes", "machines", "apps"})
"""Sections made of independent items: one that is wrong does not hide the others."""
PLACEHOLDER = {"gpuOperator": {"version": "v0.0.0"}}
"""Stands for a required section that cannot be read; no rule that reads it is applied."""


def _respell(raw: Raw, path: Path) -> None:
    """Judge the rest as if a misspelt key were the nearest known one; otherwise without it."""
    holder: Any = raw
    for step in path[:-1]:
        holder = holder[step]
    value = holder.pop(path[-1])
    near = wording.nearest_key(str(path[-1]), wording.keys_at(path[:-1]))
    if near is not None and near not in holder:
        holder[near] = value


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value


def _known_keys_only(raw: Raw) -> tuple[Raw, list[Problem], list[Any]]:
    """The configuration with its unknown keys respelt or removed, and what is wrong besides."""
    raw = _copy(raw)
    unknown: list[Problem] = []
    while True:
        try:
            Stack.model_validate(raw, by_alias=True, by_name=False)
        except ValidationError as error:
            errors = error.errors(include_url=False)
            extra = [one for one in errors if one["type"] == "extra_forbidden"]
            if not extra:
                return raw, unknown, errors
            for one in extra:
                unknown.append(wording.problem(one))
                _respell(raw, tuple(one["loc"]))
        else:
            return raw, unknown, []


def _sound_part(raw: Raw, errors: list[Any]) -> tuple[Stack, rules.Soundness]:
    """What can be judged in spite of errors: without the wrong items and sections."""
    raw, broken, partial = _copy(raw), set(), set()
    for path in {tuple(error["loc"]) for error in errors}:
        section = str(path[0])
        if section in ITEMS and len(path) > 1:
            partial.add(section)
            raw[section].pop(path[1], None)
        else:
            broken.add(section)
            raw.pop(section, None)
    return Stack.model_validate(PLACEHOLDER | raw), rules.Soundness(
        frozenset(broken), frozenset(partial)
    )


def judge(raw: Raw) -> Stack:
    """The configuration as a model; ConfigurationError with everything that is wrong with it."""
    try:
        stack = Stack.model_validate(raw, by_alias=True, by_name=False)
    except ValidationError:
        known, problems, errors = _known_keys_only(raw)
        problems += [wording.problem(error) for error in errors]
        stack, soundness = _sound_part(known, errors)
        problems += rules.judge(stack, soundness)
    else:
        problems = rules.judge(stack)
    if problems:
        raise ConfigurationError(problems)
    return stack
