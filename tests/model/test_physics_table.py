"""The table of docs/physics.md names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "physics.md"
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split("|")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and "test_" in line
]


def names_in(name: str) -> set[str]:
    return {
        one.name
        for file in TESTS.rglob(name)
        for one in ast.walk(ast.parse(file.read_text()))
        if isinstance(one, ast.FunctionDef)
    }


def test_the_table_is_read() -> None:
    assert len(ROWS) > 35
    assert all(len(row) == 5 and all(row) for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_each_row_names_a_test(row: list[str]) -> None:
    found = re.fullmatch(r"`(test_\w+\.py)::(test_\w+)`", row[4])
    assert found
    assert found[2] in names_in(found[1])
