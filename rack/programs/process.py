"""A running program: its arguments, variables, folder and streams."""

from __future__ import annotations

import io
import posixpath
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from rack.programs.container import Container
from rack.world.filetree import Entry

Main = Callable[["Process"], int]


@dataclass
class Process:
    """One run of a program."""

    container: Container
    argv: list[str]
    env: dict[str, str]
    cwd: str = "/"
    stdin: TextIO = field(default_factory=lambda: sys.stdin)
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)

    @property
    def name(self) -> str:
        """The program's name, for its messages."""
        return posixpath.basename(self.argv[0])

    @property
    def args(self) -> list[str]:
        """Arguments without the program's name."""
        return self.argv[1:]

    def path(self, name: str) -> str:
        """A path from the process's folder."""
        return posixpath.join(self.cwd, name)

    def find(self, name: str, *, follow: bool = True) -> Entry | None:
        """What is at a path; None where there is nothing."""
        return self.container.tree.get(self.path(name), follow=follow)

    def say(self, text: str) -> None:
        """Write a line to stdout."""
        self.out.write(f"{text}\n")

    def complain(self, text: str) -> None:
        """Write a line to stderr, with the program's name in front."""
        self.err.write(f"{self.name}: {text}\n")

    def refuse(self, what: str) -> int:
        """Say that the rack's program has less than the real one; the exit status for it."""
        self.complain(f"simulated rack: {what} is not supported here")
        return 2

    def child(self, argv: list[str], **changes: object) -> Process:
        """A process that this one starts."""
        values: dict[str, object] = {
            "container": self.container,
            "argv": argv,
            "env": dict(self.env),
            "cwd": self.cwd,
            "stdin": self.stdin,
            "out": self.out,
            "err": self.err,
        }
        return Process(**{**values, **changes})  # type: ignore[arg-type]

    def inputs(self, names: list[str]) -> list[tuple[str, str]]:
        """Contents of files by name, of stdin without names; what is missing is complained of."""
        found = []
        for name in names or ["-"]:
            if name == "-":
                found.append((name, self.stdin.read()))
                continue
            entry = self.find(name)
            if entry is None:
                self.complain(f"{name}: No such file or directory")
            elif entry.kind == "folder":
                self.complain(f"{name}: Is a directory")
            else:
                found.append((name, entry.text))
        return found


def empty() -> TextIO:
    """A stream with nothing in it."""
    return io.StringIO()
