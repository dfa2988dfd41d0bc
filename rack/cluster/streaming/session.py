"""One command in a container: a program of the rack, never one of this machine.

The command's name is looked up in the container's filesystem, an absolute path as well.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from rack.cluster.streaming.channels import Channels, Name, ended, failed
from rack.programs.container import CONTAINER, POD, Container, NoContainerError, load
from rack.programs.launch import NOT_FOUND, program
from rack.settings import CHECKOUT

RUN: Final = CHECKOUT / "rack" / "programs" / "run.py"
_BLOCK: Final = 64 * 1024


@dataclass(frozen=True)
class Command:
    """What a client wants to run."""

    view: Path
    """The pod's view."""
    container: str
    argv: Sequence[str]
    has_stdin: bool
    is_terminal: bool

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which the program finds its container."""
        return {POD: str(self.view), CONTAINER: self.container}


def run(command: Command, channels: Channels) -> None:
    """Run a command to its end; the client may leave before."""
    if cause := problem(command):
        channels.write("error", failed(cause), is_last=True)
        return
    session = _Terminal(command) if command.is_terminal else _Pipes(command)
    reader = threading.Thread(target=_feed, args=(session, channels), daemon=True)
    reader.start()
    try:
        session.pump(channels)
        channels.write("error", ended(session.wait()), is_last=True)
    finally:
        session.end()


def problem(command: Command) -> str:
    """Why a command cannot be started, in the container runtime's words; empty where it can."""
    try:
        container = load(command.environment)
    except NoContainerError as error:
        return str(error)
    name = command.argv[0]
    if program(container, name, _path(container)) != NOT_FOUND:
        return ""
    cause = f'exec: "{name}": executable file not found in $PATH'
    if "/" in name:
        cause = f'exec: "{name}": stat {name}: no such file or directory'
    return (
        f'failed to exec in container: failed to start exec "{uuid.uuid4().hex}{uuid.uuid4().hex}":'
        " OCI runtime exec failed: exec failed: unable to start container process:"
        f" {cause}"
    )


def _path(container: Container) -> str:
    return container.env.get("PATH", "")


def _feed(session: _Pipes, channels: Channels) -> None:
    """Hand the client's input to the command until either ends; without a client it is killed."""
    channels.read(session.take)
    session.end()


class _Pipes:
    """A command with separate streams."""

    def __init__(self, command: Command) -> None:
        stdin = subprocess.PIPE if command.has_stdin else subprocess.DEVNULL
        self._process = _start(command, stdin, subprocess.PIPE, subprocess.PIPE)

    def take(self, name: Name, data: bytes, *, is_last: bool) -> None:
        """Take input."""
        stdin = self._process.stdin
        if name != "stdin" or stdin is None or stdin.closed:
            return
        with contextlib.suppress(OSError, ValueError):
            stdin.write(data)
            stdin.flush()
            if is_last:
                stdin.close()

    def pump(self, channels: Channels) -> None:
        """Send what the command writes until it ends."""
        streams: list[tuple[Name, IO[bytes] | None]] = [
            ("stdout", self._process.stdout),
            ("stderr", self._process.stderr),
        ]
        threads = [
            threading.Thread(target=_copy, args=(stream, name, channels), daemon=True)
            for name, stream in streams
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def wait(self) -> int:
        """Exit code; that of a signal as a shell gives it."""
        code = self._process.wait()
        return code if code >= 0 else 128 - code

    def end(self) -> None:
        """Kill the command if it still runs."""
        if self._process.poll() is None:
            self._process.kill()


class _Terminal(_Pipes):
    """A command whose streams are one terminal."""

    def __init__(self, command: Command) -> None:
        self._ours, theirs = pty.openpty()
        try:
            self._process = _start(command, theirs, theirs, theirs)
        finally:
            os.close(theirs)

    def take(self, name: Name, data: bytes, *, is_last: bool) -> None:
        """Take input, or another size."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            if name == "resize" and data:
                size = json.loads(data)
                packed = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
                fcntl.ioctl(self._ours, termios.TIOCSWINSZ, packed)
            elif name == "stdin":
                os.write(self._ours, data)

    def pump(self, channels: Channels) -> None:
        """Send what appears on the terminal."""
        with contextlib.suppress(OSError):  # reading ends with an error when the command does
            while data := os.read(self._ours, _BLOCK):
                channels.write("stdout", data)
        channels.write("stdout", b"", is_last=True)

    def wait(self) -> int:
        """Exit code."""
        code = super().wait()
        os.close(self._ours)
        return code


def _start(command: Command, stdin: int, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
    inherited: Mapping[str, str] = {
        name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ
    }
    return subprocess.Popen(
        [sys.executable, "-I", str(RUN), *command.argv],
        env={**inherited, "PYTHONUNBUFFERED": "1", **command.environment},
        cwd="/",
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def _copy(stream: IO[bytes], name: Name, channels: Channels) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(stream.fileno(), _BLOCK):
            channels.write(name, data)
        channels.write(name, b"", is_last=True)
