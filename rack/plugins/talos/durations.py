"""Durations as Go writes them: `10m`, `1h30m`, `720h`, `1.5s`."""

from __future__ import annotations

import re
from typing import Final

SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|us|µs|ns|s)")


def seconds(text: str) -> float:
    """Return a duration in seconds.

    Raises `ValueError`: it is not a duration.
    """
    rest = text.removeprefix("+")
    if rest == "0":
        return 0.0
    if not rest or re.fullmatch(f"(?:{_PART.pattern})+", rest) is None:
        raise ValueError(f"{text!r} is not a duration such as 10m or 1h30m")
    return sum(float(number) * SECONDS[unit] for number, unit in _PART.findall(rest))
