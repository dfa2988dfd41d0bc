"""One line that says what is being done, for how long, and what is left."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

QUIET = 2.0
"""Seconds that a step may take without a word."""
REPEAT_IN_A_PIPE = 60.0
"""Seconds between two lines where the output is no terminal."""


def clock(seconds: float) -> str:
    """Seconds as m:ss."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


def say(text: str) -> None:
    """Print a whole line of progress. Standard output is left to results."""
    print(text, file=sys.stderr, flush=True)


class Step:
    """Shows `doing … 1:23 of about 6 min, then …` until the block ends."""

    def __init__(self, doing: str, expected: float = 0.0, left: str = "") -> None:
        """`expected` in seconds, 0 where it is not known; `left` names what comes after."""
        self._doing = doing
        self._expected = expected
        self._left = left
        self._started = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._terminal = sys.stderr.isatty()

    def _line(self) -> str:
        about = f" of about {clock(self._expected)}" if self._expected else ""
        left = f", then {self._left}" if self._left else ""
        return f"{self._doing} … {clock(time.monotonic() - self._started)}{about}{left}"

    def _show(self) -> None:
        if self._done.wait(QUIET):
            return
        while True:
            if self._terminal:
                print(f"\r\033[K{self._line()}", end="", file=sys.stderr, flush=True)
            else:
                say(self._line())
            if self._done.wait(1.0 if self._terminal else REPEAT_IN_A_PIPE):
                return

    def __enter__(self) -> Step:
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()
        took = time.monotonic() - self._started
        if took < QUIET:
            return
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr)
        result = "failed after" if kind else "done in"
        say(f"{self._doing}: {result} {clock(took)}")
