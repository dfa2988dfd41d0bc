"""Says what is being done, once it takes longer than people wait without a word."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

PATIENCE_S: Final = 2.0
"""Seconds in which nothing is said."""


class Progress:
    """Holds words back for `PATIENCE_S`; then says the last ones, and all that follow."""

    def __init__(self, say: Callable[[str], None], patience_s: float = PATIENCE_S) -> None:
        self._say = say
        self._last = ""
        self._loud = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(patience_s, self._raise_voice)
        self._timer.daemon = True

    def __call__(self, text: str) -> None:
        """Note what is being done now."""
        with self._lock:
            self._last = text
            if self._loud:
                self._say(text)

    def _raise_voice(self) -> None:
        with self._lock:
            self._loud = True
            if self._last:
                self._say(self._last)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
