"""Turns a configuration's plain values into the model, or into all of its problems.

One mistake does not hide the others. A misspelt key is judged as the nearest known one; a wrong
value is left out with as little around it as possible, and every rule that does not need what is
wrong is still applied.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from gpu_passthrough import rules, wording
from gpu_passthrough.config import Stack
from gpu_passthrough.fields import Raw
from gpu_passthrough.problems import ConfigurationError, Path, Problem

STAND_INS: dict[Path, Any] = {
    ("cluster", "name"): "stand-in",
    ("cluster", "endpoint"): "https://stand-in:6443",
    ("cluster", "talosVersion"): "v1.13.9",
    ("cluster", "kubernetesVersion"): "v1.34.0",
    ("proxmox", "endpoint"): "https://stand-in:8006",
    ("proxmox", "network", "dns"): ["9.9.9.9"],
    ("gpuOperator", "version"): "v26.3.1",
    ("gpuOperator",): {"version": "v26.3.1"},
}
"""Values with which the rest can be judged, where a required one is wrong. What a rule then finds
about such a value is not reported."""


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value


def _holder(raw: Raw, path: Path) -> Any:
    """What holds the last step of a path; None where that is gone already."""
    found: Any = raw
    for step in path[:-1]:
        try:
            found = found[step]
        except (KeyError, IndexError, TypeError):
            return None
    return found


def _errors(raw: Raw) -> list[Any]:
    try:
        Stack.model_validate(raw, by_alias=True, by_name=False)
    except ValidationError as error:
        return error.errors(include_url=False)
    return []


def _respell(raw: Raw, path: Path) -> None:
    """Judge the rest as if a misspelt key were the nearest known one; otherwise without it."""
    holder = _holder(raw, path)
    value = holder.pop(path[-1])
    near = wording.nearest_key(str(path[-1]), wording.keys_at(path[:-1]))
    if near is not None and near not in holder:
        holder[near] = value


def _respell_all(raw: Raw) -> tuple[list[Problem], list[Any]]:
    """Leave known keys only; gives the unknown ones, and the errors that remain."""
    unknown: list[Problem] = []
    while True:
        errors = _errors(raw)
        extra = [one for one in errors if one["type"] == "extra_forbidden"]
        if not extra:
            return unknown, errors
        for one in extra:
            unknown.append(wording.problem(one))
            _respell(raw, tuple(one["loc"]))


def _can_go(path: Path) -> bool:
    """Whether a stack is complete without what stands at a path: an item, or what has a default."""
    if isinstance(path[-1], int):
        return True
    field = wording.field_at(path)
    return field is None or not field.is_required()


def _leave_out(raw: Raw, path: Path) -> None:
    """Take away what is wrong, with as little around it as possible."""
    if _holder(raw, path) is None:
        return  # it went with something around it
    for length in range(len(path), 0, -1):
        part = path[:length]
        holder = _holder(raw, part)
        if part in STAND_INS and isinstance(holder, dict):
            holder[part[-1]] = _copy(STAND_INS[part])
            return
        # What is not there cannot be what has to go: then it is something around it.
        if _can_go(part) and _take_out(holder, part[-1]):
            return


def _take_out(holder: Any, step: Any) -> bool:
    """Remove one item; False where there is none."""
    if isinstance(holder, dict) and step in holder:
        del holder[step]
        return True
    if isinstance(holder, list) and isinstance(step, int) and step < len(holder):
        del holder[step]
        return True
    return False


def _last_first(path: Path) -> list[tuple[bool, int, str]]:
    """Orders later list positions first, so that earlier ones keep theirs."""
    return [(isinstance(s, str), -s if isinstance(s, int) else 0, str(s)) for s in path]


def _paths(errors: Iterable[Any]) -> list[Path]:
    """Where the errors are."""
    paths: set[Path] = {tuple(step for step in one["loc"] if step != "[key]") for one in errors}
    return sorted(paths, key=_last_first)


def _sound_part(raw: Raw, errors: list[Any]) -> tuple[Stack, rules.Soundness]:
    """What can be judged in spite of errors."""
    touched = {str(path[0]) for path in _paths(errors)}
    while errors:
        for path in _paths(errors):
            _leave_out(raw, path)
        errors = _errors(raw)
    stack = Stack.model_validate(raw, by_alias=True, by_name=False)
    return stack, rules.Soundness(frozenset(touched - set(raw)), frozenset(touched))


def _touches(problem: Problem, wrong: list[Path]) -> bool:
    """Whether a problem is about something that was left out or stood in for."""
    sides = (problem.path, *problem.also)
    return any(
        side[: len(path)] == path or path[: len(side)] == side for side in sides for path in wrong
    )


def _all_problems(raw: Raw) -> list[Problem]:
    """Everything that is wrong with values that are not a stack as they stand."""
    raw = _copy(raw)
    unknown, errors = _respell_all(raw)
    wrong = _paths(errors)
    stack, soundness = _sound_part(raw, errors)
    found = [one for one in rules.judge(stack, soundness) if not _touches(one, wrong)]
    return unknown + [wording.problem(error) for error in errors] + found


def judge(raw: Raw) -> Stack:
    """The configuration as a model; ConfigurationError with everything that is wrong with it."""
    try:
        stack = Stack.model_validate(raw, by_alias=True, by_name=False)
    except ValidationError:
        raise ConfigurationError(_all_problems(raw)) from None
    if problems := rules.judge(stack):
        raise ConfigurationError(problems)
    return stack
