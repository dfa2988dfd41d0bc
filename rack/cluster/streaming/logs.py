"""Reads a container's log as `kubectl logs` wants it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

POLL_S: Final = 0.2
"""How often a log that is followed is looked at."""


@dataclass(frozen=True)
class Wanted:
    """Which part of a log, and how."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    limit_bytes: int | None = None
    since: float | None = None
    """Unix time."""

    @classmethod
    def of(cls, query: Mapping[str, str], now: float) -> Wanted:
        """Read the options of a request.

        Raises:
            ValueError: a number or a time is none.
        """
        since = query.get("sinceTime")
        moments = [datetime.fromisoformat(since).timestamp()] if since else []
        if "sinceSeconds" in query:
            moments.append(now - int(query["sinceSeconds"]))
        return cls(
            follow=query.get("follow") == "true",
            previous=query.get("previous") == "true",
            timestamps=query.get("timestamps") == "true",
            tail=int(query["tailLines"]) if "tailLines" in query else None,
            limit_bytes=int(query["limitBytes"]) if "limitBytes" in query else None,
            since=max(moments, default=None),
        )


def read(file: Path, wanted: Wanted, is_over: Callable[[], bool]) -> Iterator[bytes]:
    """What is wanted of a log, until it is over where it is followed.

    Args:
        file: the log; it may not be there yet.
        wanted: which part.
        is_over: the container has ended, so nothing comes any more.
    """
    seen = _lines(file)
    kept = [line for line in seen if wanted.since is None or _time(line) >= wanted.since]
    if wanted.tail is not None:
        kept = kept[len(kept) - min(wanted.tail, len(kept)) :]
    text = b"".join(_shown(line, wanted) for line in kept)
    yield text if wanted.limit_bytes is None else text[: wanted.limit_bytes]
    count = len(seen)
    while wanted.follow:
        ends = is_over()  # asked first: what was written before its end is still read
        fresh = _lines(file)[count:]
        count += len(fresh)
        yield b"".join(_shown(line, wanted) for line in fresh)
        if ends:
            return
        time.sleep(POLL_S)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


def _time(line: str) -> float:
    return datetime.fromisoformat(line.partition(" ")[0]).timestamp()


def _shown(line: str, wanted: Wanted) -> bytes:
    """A line of the container runtime's format, without what people do not want to see."""
    moment, _stream, _kind, text = line.split(" ", 3)
    return f"{moment} {text}\n".encode() if wanted.timestamps else f"{text}\n".encode()
