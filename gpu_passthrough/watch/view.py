"""A moment of the GPUs: a table for a terminal, lines for a pipe, an object for a program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpu_passthrough.watch.metrics import Reading
from gpu_passthrough.watch.sample import GpuSample

_COLUMNS: Final = ("NODE", "GPU", "CARD", "UTIL", "MEMORY", "TEMP", "POWER", "POD", "SOURCE")
_NUMBERS: Final = frozenset({"UTIL", "MEMORY", "TEMP", "POWER"})
_LONG: Final = frozenset({"CARD", "POD"})
"""Columns that are wrapped in a narrow terminal."""
_NONE: Final = "-"
NOTHING: Final = (
    "No GPU: no node offers one, and no DCGM exporter runs. Is the operator installed and healthy?"
)


def row(sample: GpuSample) -> tuple[str, ...]:
    """One GPU, a text for each column."""
    memory = f"{_text(sample.used_mib)}/{_text(sample.total_mib)} MiB"
    texts = (
        sample.node,
        sample.bus_id if sample.index is None else str(sample.index),
        sample.name.removeprefix("NVIDIA "),
        _text(sample.utilisation, " %"),
        _NONE if sample.used_mib is None else memory,
        _text(sample.temperature_c, " °C"),
        _text(sample.power_w, " W"),
        ", ".join(sample.pods) or "(free)",
        sample.source,
    )
    return tuple(harmless(one) or _NONE for one in texts)


def harmless(text: str) -> str:
    """Text from a pod, without what would steer a terminal."""
    return "".join(one for one in text if one.isprintable())


def _text(value: float | None, unit: str = "") -> str:
    return _NONE if value is None else f"{value:.0f}{unit}"


def _remarks(reading: Reading) -> Iterator[str]:
    if not reading.samples and not reading.unread:
        yield NOTHING
    yield from (f"not read: {harmless(one)}" for one in reading.unread)
    yield from (f"note: {harmless(one)}" for one in reading.notes)


def table(reading: Reading, now: datetime) -> RenderableType:
    """For a terminal."""
    made = Table(box=None, pad_edge=False, title=f"{now:%H:%M:%S}", title_justify="left")
    for name in _COLUMNS:
        made.add_column(
            name,
            justify="right" if name in _NUMBERS else "left",
            overflow="ellipsis" if name == "POD" else "fold",
            no_wrap=name == "POD" or name not in _LONG,
        )
    for sample in reading.samples:
        texts = [Text(one) for one in row(sample)]
        texts[_COLUMNS.index("UTIL")].stylize(_colour(sample.utilisation))
        made.add_row(*texts)
    remarks = [Text(one, style="yellow") for one in _remarks(reading)]
    return Group(made, *remarks) if reading.samples else Group(*remarks)


def _colour(utilisation: float | None) -> str:
    if utilisation is None:
        return "dim"
    return "green" if utilisation < 50 else "yellow" if utilisation < 90 else "red"


def plain(reading: Reading, now: datetime) -> str:
    """For a pipe: the same without colours and wrapping."""
    rows = [_COLUMNS, *map(row, reading.samples)] if reading.samples else []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(one, widths, strict=True)).rstrip()
        for one in rows
    ]
    return "".join(f"{line}\n" for line in [f"{now:%H:%M:%S}", *lines, *_remarks(reading)])


def as_json(reading: Reading, now: datetime) -> str:
    """For a program: one line."""
    found = {
        "time": now.isoformat(timespec="milliseconds"),
        "gpus": [asdict(one) for one in reading.samples],
        "unread": reading.unread,
        "notes": reading.notes,
    }
    return json.dumps(found) + "\n"


def error_as_json(message: str, now: datetime) -> str:
    """A moment in which the cluster did not answer, as one line."""
    return json.dumps({"time": now.isoformat(timespec="milliseconds"), "error": message}) + "\n"
