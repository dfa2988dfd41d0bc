"""What is wrong with a configuration, in words for people.

A problem says what is wrong and where, why it matters, and what to do. All problems of a
configuration are raised together, so that one look at the output is enough to repair it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

Path = tuple[str | int, ...]
"""Keys and list positions from the top of the configuration, in YAML's spelling."""

LineOf = Callable[[Path], int | None]
"""Finds the line of a path in the file that it came from; None where it came from elsewhere."""


def where(path: Path) -> str:
    """Write a path as people do: `nodes.k8s-worker-1.gpus[0].card`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif "." in step or "/" in step:
            text += f'["{step}"]'
        else:
            text += f".{step}" if text else step
    return text or "the configuration"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    path: where; message: what, naming both sides of a conflict; why: what would happen;
    fix: what to do; rule: the stable name of the rule that found it; also: the paths of the other
    sides; line, also_lines and file: where path and also stand, filled in where they are known.
    """

    path: Path
    message: str
    line: int | None = None
    rule: str | None = None
    why: str = ""
    fix: str = ""
    also: tuple[Path, ...] = ()
    also_lines: tuple[int | None, ...] = ()
    file: str | None = None

    def located(self, line_of: LineOf, file: str) -> Problem:
        """The same problem with the lines that a file has for its paths."""
        line = self.line or line_of(self.path)
        also_lines = tuple(line_of(path) for path in self.also)
        return replace(self, line=line, also_lines=also_lines, file=file if line else None)

    @property
    def place(self) -> str:
        """File and line where known, and the path."""
        at = f"{self.file}:{self.line}: " if self.file and self.line else ""
        return f"{at}{where(self.path)}"

    def render(self) -> str:
        """The problem as a paragraph."""
        rule = f"  [{self.rule}]" if self.rule else ""
        lines = [f"{self.place}{rule}", f"  {self.message}"]
        for path, line in zip(self.also, self.also_lines or (None,) * len(self.also), strict=True):
            lines.append(f"  See also: {where(path)}" + (f" (line {line})" if line else ""))
        lines += [f"  Why: {self.why}"] if self.why else []
        lines += [f"  Fix: {self.fix}"] if self.fix else []
        return "\n".join(lines)


class ConfigurationError(Exception):
    """The configuration cannot work; `problems` has everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = tuple(problems)
        super().__init__(render(self.problems))


def render(problems: Sequence[Problem]) -> str:
    """All problems as text, in the order of the file."""
    count = len(problems)
    head = f"The configuration has {count} problem{'s' if count != 1 else ''}."
    ordered = sorted(problems, key=lambda problem: (problem.line is None, problem.line or 0))
    return "\n\n".join([head, *(problem.render() for problem in ordered)])
