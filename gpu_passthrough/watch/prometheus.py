"""Prometheus' text format, as far as gauges need it.

https://prometheus.io/docs/instrumenting/exposition_formats/: comments, metric name, labels with
three escapes, value, and a time that may follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_NAME: Final = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL: Final = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_LINE: Final = re.compile(
    rf'\s*({_NAME})\s*(?:\{{((?:[^"}}]|"(?:[^"\\]|\\.)*")*)\}})?\s*(\S+)(?:\s+-?\d+)?\s*$'
)
_ESCAPES: Final = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


class MetricsError(ValueError):
    """The text is not Prometheus' format; the message says where."""


class Sample(NamedTuple):
    """One value."""

    name: str
    labels: dict[str, str]
    value: float
    """May be NaN or infinite."""


def parse(text: str) -> Iterator[Sample]:
    """Every sample of a text.

    Raises:
        MetricsError: a line is none of the format.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.match(line)
        if found is None:
            raise MetricsError(f"line {number} is no metric: {line[:80]!r}")
        try:
            yield Sample(found[1], dict(_labels(found[2] or "")), float(found[3]))
        except ValueError as error:
            raise MetricsError(f"line {number} is no metric: {error}") from None


def _labels(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text.rstrip()):
        found = _LABEL.match(text, at)
        if found is None:
            raise ValueError(f"labels {text[at : at + 80]!r}")
        yield found[1], re.sub(r"\\.", lambda one: _ESCAPES.get(one[0], one[0]), found[2])
        at = found.end()
