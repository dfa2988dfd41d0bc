"""The table of docs/physics.md names tests that exist, and messages that are really printed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CHECKOUT = TESTS.parent
PAGE = CHECKOUT / "docs" / "physics.md"
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split("|")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and "test_" in line
]
SEES, TEST = 3, 5
"""Columns of a row."""
SPEAKS_FOR_ITSELF = re.compile(r"/\S+|lspci|nvidia-smi -L")
"""What is shown as code and is a file or a command, not a message."""


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def names_in(name: str) -> set[str]:
    return {
        one.name
        for file in TESTS.rglob(name)
        for one in ast.walk(parsed(file))
        if isinstance(one, ast.FunctionDef)
    }


def texts(files: Iterator[Path]) -> Iterator[str]:
    """Every text of some programs; what is filled in is left out as …."""
    for file in files:
        for one in ast.walk(parsed(file)):
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                yield one.value
            elif isinstance(one, ast.JoinedStr):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "…"
                    for part in one.values
                )


@cache
def said_by_the_rack() -> tuple[str, ...]:
    return tuple(texts((CHECKOUT / "rack").rglob("*.py")))


def test_the_table_is_read() -> None:
    assert len(ROWS) > 45
    assert all(len(row) == 6 and all(row) for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_each_row_names_tests(row: list[str]) -> None:
    for name in row[TEST].split(", "):
        found = re.fullmatch(r"`(test_\w+\.py)::(test_\w+)`", name)
        assert found, name
        assert found[2] in names_in(found[1])


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_each_message_is_printed_somewhere(row: list[str]) -> None:
    files = re.findall(r"test_\w+\.py", row[TEST])
    said = [*said_by_the_rack(), *texts(one for name in files for one in TESTS.rglob(name))]
    for message in re.findall(r"`([^`]+)`", row[SEES]):
        if not SPEAKS_FOR_ITSELF.fullmatch(message):
            # A placeholder of the page stands for a value in a test's text, too.
            wanted = re.compile(".*?".join(map(re.escape, message.split("…"))), re.DOTALL)
            assert any(wanted.search(text) for text in said), message
