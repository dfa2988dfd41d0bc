"""Programs that live as long as the daemon does, and no longer.

A child is started by this very file, which asks Linux to end it with its parent before it becomes
the program. Where that cannot be had, and after a crash, the next start ends what was left over:
every child has the rack's home among its arguments.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

LOG: Final = logging.getLogger(__name__)
_PR_SET_PDEATHSIG: Final = 1
_RESTART_S: Final = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Pauses before the first, second, … restart; the last one repeats."""
_STEADY_S: Final = 30.0
"""After this long, a death counts as the first again."""


class Child:
    """One program; it is started again when it dies."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        logs: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._argv = list(argv)
        self._log = logs / f"{name}.log"
        self._environment = dict(os.environ if environment is None else environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._deaths = 0
        self._started = 0.0

    @property
    def lives(self) -> bool:
        """It was started and did not end."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it; what it says is in its log, from the beginning."""
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(os.getpid()), *self._argv],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        finally:
            os.close(log)
        self._started = time.monotonic()

    def keep_alive(self) -> bool:
        """Start it again if it died and its pause is over; True when it lives."""
        if self._process is None or self.lives:
            return self._process is not None
        if self._process.returncode is not None and self._started:
            steady = time.monotonic() - self._started > _STEADY_S
            self._deaths = 0 if steady else self._deaths
        pause = _RESTART_S[min(self._deaths, len(_RESTART_S) - 1)]
        if time.monotonic() - self._started < pause:
            return False
        code = self._process.returncode
        LOG.warning("%s ended with %s; see %s. It starts again", self.name, code, self._log)
        self._deaths += 1
        self.start()
        return True

    def terminate(self) -> None:
        """Ask it to end."""
        if self._process is not None and self.lives:
            self._process.terminate()

    def wait(self, seconds: float) -> None:
        """Wait until it has ended; it is killed when it takes longer."""
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None and self.lives:
            self._process.kill()
            self._process.wait()


def end_left_over(home: Path, programs: Collection[str]) -> None:
    """End what an earlier daemon of this home left behind of these programs."""
    listing = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,command="], capture_output=True, text=True, check=False
    )
    for line in listing.stdout.splitlines():
        number, _, command = line.strip().partition(" ")
        program = command.partition(" ")[0].rpartition("/")[2]
        if program not in programs or f"{home}{os.sep}" not in command:
            continue
        LOG.warning("%s (process %s) was left over; it is ended", program, number)
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(number), signal.SIGKILL)


def _become(parent: int, argv: list[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            return  # the parent ended in between
    os.execvp(argv[0], argv)  # noqa: S606 - to become the program is the purpose


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
