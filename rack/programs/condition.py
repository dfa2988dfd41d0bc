"""`test` and `[`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rack.programs.process import Main, Process

_TROUBLE: Final = 2

_OF_STRINGS: Final[dict[str, Callable[[str, str], bool]]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
_OF_NUMBERS: Final[dict[str, Callable[[int, int], bool]]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}
_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "-e": ("file", "program", "folder", "link", "device"),
    "-f": ("file", "program"),
    "-d": ("folder",),
    "-c": ("device",),
    "-x": ("program", "folder"),
    "-r": ("file", "program", "folder", "device"),
    "-s": ("file", "program", "folder"),
}


def test(process: Process) -> int:
    """Evaluate a condition: 0 true, 1 false, 2 not understood."""
    args = process.args
    if process.name == "[":
        if not args or args[-1] != "]":
            process.complain("missing `]'")
            return _TROUBLE
        args = args[:-1]
    found = _evaluate(process, args)
    if found is None:
        return process.refuse(f"the condition `{' '.join(args)}`")
    return 0 if found else 1


def _evaluate(process: Process, args: list[str]) -> bool | None:
    """Whether the condition holds; None where it is not understood."""
    if args[:1] == ["!"]:
        inner = _evaluate(process, args[1:])
        return None if inner is None else not inner
    if len(args) < 2:
        return bool(args and args[0])
    if len(args) == 2:
        return _unary(process, *args)
    if len(args) == 3:
        return _binary(*args)
    for word, joins_all in (("-o", False), ("-a", True)):
        if word in args:
            at = args.index(word)
            parts = [_evaluate(process, part) for part in (args[:at], args[at + 1 :])]
            return None if None in parts else (all if joins_all else any)(map(bool, parts))
    return None


def _unary(process: Process, operator: str, value: str) -> bool | None:
    if operator in ("-n", "-z"):
        return bool(value) == (operator == "-n")
    if operator in ("-L", "-h"):
        found = process.find(value, follow=False)
        return found is not None and found.kind == "link"
    if operator not in _KINDS:
        return None
    found = process.find(value)
    return found is not None and found.kind in _KINDS[operator]


def _binary(left: str, operator: str, right: str) -> bool | None:
    if operator in _OF_STRINGS:
        return _OF_STRINGS[operator](left, right)
    if operator in _OF_NUMBERS and left.lstrip("-").isdigit() and right.lstrip("-").isdigit():
        return _OF_NUMBERS[operator](int(left), int(right))
    return None


PROGRAMS: Final[dict[str, Main]] = {"test": test, "[": test}
