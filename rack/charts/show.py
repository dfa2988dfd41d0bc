"""What a comparison of charts came to, for people and for programs."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from rack.charts.compare import Comparison, Difference

LONGEST: Final = 60
"""Characters of a value that are shown."""


def plain(found: Comparison) -> dict[str, Any]:
    """Everything, as JSON."""
    return {
        "version": found.version,
        "same": not found.differences,
        "sets": found.sets,
        "singles": found.singles,
        "refused": found.refused,
        "fields": [".".join(path) for path in sorted(found.fields)],
        "differences": [
            {
                "field": ".".join(one.path),
                "values": one.case,
                "standIn": one.stand_in,
                "package": one.package,
            }
            for one in found.differences
        ],
    }


def show(found: Comparison) -> None:
    """Print it for a person."""
    console = Console(soft_wrap=True, highlight=False)
    told = ", ".join(found.refused)
    console.print(
        f"gpu-operator {found.version}: the package and the rack's stand-in, rendered with\n"
        f"  {found.sets:3} sets of values that the program's options make\n"
        f"  {found.singles:3} values of the chart changed, one at a time\n"
        f"  {len(found.refused):3} of these are refused by both{told and ': '}{told}\n"
    )
    console.print(_sections(found))
    if found.differences:
        console.print()
        console.print(_differences(found.differences))
    fields = {one.path for one in found.differences}
    result = f"differences in {len(fields)} of them" if fields else "the same in both"
    console.print(f"\n{len(found.fields)} fields that the rack's model reads: {result}.")


def _sections(found: Comparison) -> Table:
    """What the model reads, a part of the ClusterPolicy a row."""
    table = Table(box=None, pad_edge=False)
    for column in ("PART", "FIELDS", "RESULT"):
        table.add_column(column, overflow="fold")
    wrong = {one.path for one in found.differences}
    for part, paths in groupby(sorted(found.fields), key=lambda path: path[0]):
        fields = list(paths)
        bad = sum(path in wrong for path in fields)
        names = " ".join(".".join(path[1:]) for path in fields)
        table.add_row(part, names, f"{bad} of {len(fields)} differ" if bad else "same")
    return table


def _differences(differences: list[Difference]) -> Table:
    """A row for each field, with the first values that show it."""
    table = Table(box=None, pad_edge=False)
    for column in ("FIELD", "WITH", "STAND-IN", "PACKAGE"):
        table.add_column(column, overflow="fold")
    ordered = sorted(differences, key=lambda one: one.path)
    for path, group in groupby(ordered, key=lambda one: one.path):
        first, *others = group
        case = f"{first.case} and {len(others)} more" if others else first.case
        table.add_row(".".join(path), case, _short(first.stand_in), _short(first.package))
    return table


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
