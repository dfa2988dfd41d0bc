"""`sh`: a small POSIX-like shell over the pod's filesystem and programs.

It has lists, pipes, groups, `if`, `for`, quotes, variables, command substitution, patterns and
redirections, and says so plainly where a script asks for more.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TextIO

from rack.programs.launch import by_name, program, run
from rack.programs.process import Main, Process, empty
from rack.programs.shell_grammar import (
    Command,
    For,
    Group,
    If,
    Pipeline,
    Redirection,
    Sequence,
    Simple,
    parse,
)
from rack.programs.shell_words import Scope, ShellError, expand, expand_one
from rack.world.filetree import File

_SYNTAX: Final = 2
_NOT_FOUND: Final = 127


class _Exit(Exception):  # noqa: N818 - a way out, not an error
    def __init__(self, status: int) -> None:
        self.status = status


@dataclass
class Shell:
    """A running shell."""

    process: Process
    arguments: list[str]
    exported: set[str]
    variables: dict[str, str]
    status: int = 0
    stops_on_failure: bool = False
    _failures_matter: bool = field(default=True)

    def script(self, text: str) -> int:
        """Run a script; its exit status."""
        try:
            self.sequence(parse(text))
        except ShellError as error:
            self.process.complain(str(error))
            self.status = _SYNTAX
        except _Exit as end:
            self.status = end.status
        return self.status

    def sequence(self, found: Sequence) -> None:
        """Run pipelines as far as `&&` and `||` let them."""
        for index, (condition, pipeline) in enumerate(found.items):
            if self._is_skipped(condition):
                continue
            self.pipeline(pipeline)
            following = found.items[index + 1][0] if index + 1 < len(found.items) else ";"
            is_tested = following != ";" or pipeline.is_negated
            if self.status and self.stops_on_failure and not is_tested and self._failures_matter:
                raise _Exit(self.status)

    def _is_skipped(self, condition: str) -> bool:
        return (condition == "&&" and self.status != 0) or (condition == "||" and self.status == 0)

    def pipeline(self, found: Pipeline) -> None:
        """Run commands one after the other, each with the output of the one before."""
        source = self.process.stdin
        for index, command in enumerate(found.commands):
            is_last = index == len(found.commands) - 1
            sink: TextIO = self.process.out if is_last else io.StringIO()
            shell = self if len(found.commands) == 1 else self.subshell()
            with shell.streams(stdin=source, out=sink):
                shell.command(command)
            self.status = shell.status
            if isinstance(sink, io.StringIO) and not is_last:
                source = io.StringIO(sink.getvalue())
        if found.is_negated:
            self.status = int(not self.status)

    def command(self, found: Command) -> None:
        """Run one command with its redirections."""
        try:
            with self.redirected(found.redirections):
                if isinstance(found, Simple):
                    self.simple(found)
                elif isinstance(found, Group):
                    self.group(found)
                elif isinstance(found, If):
                    self.condition(found)
                else:
                    self.loop(found)
        except _RedirectionError as error:
            self.process.complain(str(error))
            self.status = _SYNTAX

    def group(self, found: Group) -> None:
        """Run commands in brackets."""
        shell = self.subshell() if found.is_subshell else self
        try:
            shell.sequence(found.body)
        except _Exit as end:
            if not found.is_subshell:
                raise
            shell.status = end.status
        self.status = shell.status

    def condition(self, found: If) -> None:
        """Run the first branch whose condition holds."""
        for test, body in found.branches:
            before, self._failures_matter = self._failures_matter, False
            self.sequence(test)
            self._failures_matter = before
            if self.status == 0:
                self.sequence(body)
                return
        self.status = 0
        if found.otherwise is not None:
            self.sequence(found.otherwise)

    def loop(self, found: For) -> None:
        """Run the body once for each word."""
        self.status = 0
        for value in [one for word in found.words for one in expand(word, self.scope())]:
            self.variables[found.name] = value
            self.sequence(found.body)

    def simple(self, found: Simple) -> None:
        """Run a built-in or a program; without one, set variables."""
        scope = self.scope()
        words = [one for word in found.words for one in expand(word, scope)]
        values = {name: expand_one(value, scope) for name, value in found.assignments}
        if not words:
            self.variables |= values
            self.status = 0
            return
        builtin = BUILTINS.get(words[0])
        if builtin is not None:
            self.status = builtin(self, words[1:])
            return
        env = {name: self.variables[name] for name in self.exported & set(self.variables)} | values
        child = self.process.child(words, env=env)
        if words[0] in WITHOUT_PATH:
            self.status = by_name(words[0])(child)
            return
        if program(self.process.container, words[0], env.get("PATH", "")) == _NOT_FOUND:
            self.process.err.write(f"{self.process.name}: 1: {words[0]}: not found\n")
            self.status = _NOT_FOUND
            return
        self.status = run(child)

    def scope(self) -> Scope:
        """What words are expanded with now."""
        return Scope(self.variables, self.status, self.arguments, self.output_of, self.matches)

    def output_of(self, script: str) -> str:
        """Output of a command substitution, without the line ends behind it."""
        shell, sink = self.subshell(), io.StringIO()
        with shell.streams(stdin=empty(), out=sink):
            self.status = shell.script(script)
        return sink.getvalue().rstrip("\n")

    def matches(self, pattern: str) -> list[str]:
        """Paths that fit a pattern."""
        tree = self.process.container.tree
        if pattern.startswith("/"):
            return tree.glob(pattern)
        base = self.process.cwd.rstrip("/") + "/"
        return [path.removeprefix(base) for path in tree.glob(base + pattern)]

    def subshell(self) -> Shell:
        """A copy whose changes are lost."""
        copy = self.process.child(list(self.process.argv))
        return Shell(
            copy,
            list(self.arguments),
            set(self.exported),
            dict(self.variables),
            self.status,
            self.stops_on_failure,
        )

    @contextmanager
    def streams(self, **changes: TextIO) -> Iterator[None]:
        """Other streams for a while: stdin, out, err."""
        before = {name: getattr(self.process, name) for name in changes}
        for name, stream in changes.items():
            setattr(self.process, name, stream)
        try:
            yield
        finally:
            for name, stream in before.items():
                setattr(self.process, name, stream)

    @contextmanager
    def redirected(self, found: list[Redirection]) -> Iterator[None]:
        """Streams as the redirections say, in their order."""
        names = {0: "stdin", 1: "out", 2: "err"}
        now = {name: getattr(self.process, name) for name in names.values()}
        written: list[tuple[str, io.StringIO]] = []
        for one in found:
            target = expand_one(one.target, self.scope())
            if one.operator == ">&":
                now[names[one.stream]] = now[names[int(target)]]
            elif one.operator == "<":
                now["stdin"] = io.StringIO(self.read(target))
            else:
                sink = io.StringIO()
                if one.operator == ">>" and self.process.find(target):
                    sink.write(self.read(target))
                now[names[one.stream]] = sink
                written.append((self.process.path(target), sink))
        with self.streams(**now):
            yield
        for path, sink in written:
            if path != "/dev/null":
                self.process.container.tree.put(path, File("file", sink.getvalue()))

    def read(self, name: str) -> str:
        """Content of a file."""
        entry = self.process.find(name)
        if entry is None:
            raise _RedirectionError(f"1: cannot open {name}: No such file")
        return entry.text


class _RedirectionError(Exception):
    pass


def _cd(shell: Shell, args: list[str]) -> int:
    target = args[0] if args else shell.variables.get("HOME", "/")
    real = shell.process.container.tree.real_path(shell.process.path(target))
    entry = None if real is None else shell.process.container.tree.get(real)
    if real is None or entry is None or entry.kind != "folder":
        shell.process.complain(f"1: cd: can't cd to {target}")
        return 2
    shell.process.cwd = real
    return 0


def _exit(shell: Shell, args: list[str]) -> int:
    raise _Exit(int(args[0]) if args and args[0].isdigit() else shell.status)


def _export(shell: Shell, args: list[str]) -> int:
    for arg in args:
        name, equals, value = arg.partition("=")
        shell.exported.add(name)
        if equals:
            shell.variables[name] = value
    return 0


def _unset(shell: Shell, args: list[str]) -> int:
    for name in args:
        shell.variables.pop(name, None)
    return 0


def _set(shell: Shell, args: list[str]) -> int:
    letters = "".join(arg[1:] for arg in args if arg.startswith("-"))
    if set(letters) - set("eux") or "-o" in args:
        return shell.process.refuse(f"set {' '.join(args)}")
    shell.stops_on_failure = shell.stops_on_failure or "e" in letters
    return 0


def _command(shell: Shell, args: list[str]) -> int:
    """`command -v`, `type`: where a program is; `command NAME`, `exec NAME`: run it."""
    if args[:1] != ["-v"]:
        shell.simple(Simple(words=[f"'{arg}'" for arg in args]))
        return shell.status
    path = shell.variables.get("PATH", "")
    for name in args[1:]:
        found = name if name in BUILTINS else shell.process.container.tree.program(name, path)
        if found is None:
            return _NOT_FOUND
        shell.process.say(found)
    return 0


def _run_and_exit(shell: Shell, args: list[str]) -> int:
    raise _Exit(_command(shell, args))


BUILTINS: Final = {
    ":": lambda shell, args: 0,
    "cd": _cd,
    "command": _command,
    "exec": _run_and_exit,
    "exit": _exit,
    "export": _export,
    "set": _set,
    "type": lambda shell, args: _command(shell, ["-v", *args]),
    "unset": _unset,
}


WITHOUT_PATH: Final = frozenset({"[", "test", "echo", "printf", "pwd", "true", "false"})
"""Programs that a shell has in itself."""


def sh(process: Process) -> int:
    """Run a script: of -c, of a file, or of stdin."""
    args = list(process.args)
    stops = False
    while args and args[0].startswith("-") and "c" not in args[0]:
        stops = stops or "e" in args.pop(0)
    if args and args[0].startswith("-"):
        stops = stops or "e" in args[0]
        if len(args) < 2:
            process.complain("-c requires an argument")
            return _SYNTAX
        script, arguments = args[1], args[2:] or [process.name]
    elif args:
        entry = process.find(args[0])
        if entry is None:
            process.complain(f"0: cannot open {args[0]}: No such file")
            return _NOT_FOUND
        script, arguments = entry.text, args
    else:
        script, arguments = process.stdin.read(), [process.name]
    shell = Shell(process, arguments, set(process.env), dict(process.env), stops_on_failure=stops)
    return shell.script(script)


PROGRAMS: Final[dict[str, Main]] = {"sh": sh, "bash": sh}
