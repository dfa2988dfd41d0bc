"""What `preflight` prints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from gpu_passthrough.checks.machine import as_json as to_json
from gpu_passthrough.checks.machine import write_junit
from gpu_passthrough.checks.render import brief, show
from gpu_passthrough.checks.report import PASSED, WRONG_USE, UnknownCheckError, check_ignored
from gpu_passthrough.config import Stack
from gpu_passthrough.preflight.registry import CHECKS
from gpu_passthrough.preflight.run import preflight


def run_preflight(
    name: str,
    stack: Stack,
    ignored: Sequence[str],
    *,
    as_json: bool = False,
    junit: Path | None = None,
    is_brief: bool = False,
) -> int:
    """Run the checks, print their report, and return the exit code."""
    try:
        ids = check_ignored(ignored, CHECKS)
    except UnknownCheckError as error:
        typer.echo(str(error), err=True)
        return WRONG_USE
    if stack.proxmox is None:
        typer.echo(f"Stack {name} builds no VMs: there is no host to ask.")
        return PASSED
    report = preflight(name, stack, stack.proxmox).ignoring(ids)
    if junit is not None:
        write_junit(report, junit)
    if as_json:
        typer.echo(to_json(report), nl=False)
    elif is_brief:
        typer.echo(brief(report), nl=False)
    else:
        show(report, sys.stdout)
    return report.exit_code
