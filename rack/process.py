"""The daemon as a process: its lock, whether it lives, how much memory it takes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import time
from pathlib import Path
from typing import Final

from rack.settings import Settings

POLL_SECONDS: Final = 0.05


class AlreadyRunningError(Exception):
    """Another daemon has this home."""


class PidFile:
    """The daemon's process number in a file that is locked as long as the daemon lives.

    A number that a crash left behind is not locked, so it is never taken for a daemon.
    """

    def __init__(self, settings: Settings) -> None:
        self._path = settings.pid_file
        self._handle = -1

    def acquire(self) -> None:
        """Lock the file and write this process's number.

        Raises:
            AlreadyRunningError: a daemon has it.
        """
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._handle)
            raise AlreadyRunningError(
                f"the simulated rack in {self._path.parent} runs already"
            ) from None
        os.ftruncate(self._handle, 0)
        os.write(self._handle, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Remove the file; called as the last thing that the daemon does."""
        self._path.unlink(missing_ok=True)
        os.close(self._handle)


def running_pid(settings: Settings) -> int | None:
    """Process number of the daemon; None where none runs."""
    try:
        handle = os.open(settings.pid_file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(handle, 32).decode().strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(handle)
    return None


def wait_until_gone(pid: int, seconds: float) -> bool:
    """Wait until a process has ended; False when it is still there after `seconds`."""
    if hasattr(os, "pidfd_open"):
        try:
            watched = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        try:
            return bool(select.select([watched], [], [], seconds)[0])
        finally:
            os.close(watched)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(POLL_SECONDS)
    return False


def resident_mib(pid: int) -> int:
    """Memory of a process and everything that it started, in MiB; 0 where Linux does not tell."""
    pages = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for process in [pid, *_descendants(pid)]:
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{process}/statm").read_text().split()[1]) * pages
    return total >> 20


def _descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The command stands in parentheses and may hold anything.
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(stat.parent.name))
    found, seen = [pid], []
    while found:
        children = parents.get(found.pop(), [])
        seen += children
        found += children
    return seen
