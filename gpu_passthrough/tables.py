"""Reads the tables in data/: comma-separated, `#` starts a comment line, empty means not known."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files


@cache
def rows(name: str) -> tuple[dict[str, str], ...]:
    """The rows of data/NAME.csv, by column."""
    text = files("gpu_passthrough").joinpath("data", f"{name}.csv").read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return tuple(csv.DictReader(lines))
