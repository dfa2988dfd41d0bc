"""What `report` does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import typer

from gpu_passthrough.config import Stack
from gpu_passthrough.report.given import FindingsError, read_report
from gpu_passthrough.report.page import Page, render
from gpu_passthrough.report.seen import look

WRITTEN = 0
NOT_WRITTEN = 1
WRONG_USE = 2


def run_report(
    name: str, stack: Stack, kubeconfig: str, findings: Sequence[Path], output: Path
) -> int:
    """Write the page of a stack, and return the exit code."""
    try:
        given = [read_report(file) for file in findings]
    except FindingsError as error:
        typer.echo(str(error), err=True)
        return WRONG_USE
    seen = look(kubeconfig, stack.gpu_operator.namespace, stack.context)
    if seen.problem:
        typer.echo(f"{seen.problem} What only the cluster knows is shown as unknown.", err=True)
    moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    page = render(Page(name, stack, seen, given, moment))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or error
        typer.echo(f"{output} cannot be written: {reason}. Name another --output.", err=True)
        return NOT_WRITTEN
    typer.echo(f"{output}: the report of stack {name}")
    return WRITTEN
