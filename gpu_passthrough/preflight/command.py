"""What `preflight` and its neighbours print."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from gpu_passthrough.checks.machine import UnwritableError, write_junit
from gpu_passthrough.checks.machine import as_json as to_json
from gpu_passthrough.checks.progress import Progress
from gpu_passthrough.checks.render import brief, show
from gpu_passthrough.checks.report import (
    FAILED,
    PASSED,
    UNREACHABLE,
    WRONG_USE,
    Report,
    UnknownCheckError,
    check_ignored,
)
from gpu_passthrough.config import Proxmox, Stack
from gpu_passthrough.preflight import inventory
from gpu_passthrough.preflight.client import (
    TIMEOUT_S,
    Client,
    DeniedError,
    TokenError,
    UnreachableError,
)
from gpu_passthrough.preflight.findings import NOT_UNDERSTOOD
from gpu_passthrough.preflight.registry import CHECKS
from gpu_passthrough.preflight.run import COMMAND, preflight
from gpu_passthrough.preflight.token import revealed


@dataclass(frozen=True)
class Output:
    """How a report is printed."""

    as_json: bool = False
    junit: Path | None = None
    is_brief: bool = False


def run_preflight(
    name: str,
    stack: Stack,
    ignored: Sequence[str],
    output: Output,
    *,
    folder: Path = Path(),
    timeout_s: float = TIMEOUT_S,
) -> int:
    """Run the checks, print their report, and return the exit code."""
    try:
        ids = check_ignored(ignored, CHECKS)
    except UnknownCheckError as error:
        typer.echo(str(error), err=True)
        return WRONG_USE
    if stack.proxmox is None:
        typer.echo(f"Stack {name} builds no VMs: there is no host to ask.", err=True)
        report = Report(COMMAND, f"stack {name}", [])
    else:
        with Progress(lambda text: typer.echo(f"preflight: {text}", err=True)) as progress:
            report = preflight(
                name, stack, stack.proxmox, progress, folder=folder, timeout_s=timeout_s
            )
    _name_unused(ids, report)
    return _print(report.ignoring(ids), output)


def _name_unused(ids: frozenset[str], report: Report) -> None:
    """An `ID:PART` that no finding has is a typing error, or out of date."""
    names = {one.name.lower() for one in report.findings}
    for unused in sorted(one for one in ids - names if ":" in one):
        typer.echo(f"--ignore {unused}: no finding has this name.", err=True)


def _print(report: Report, output: Output) -> int:
    if output.junit is not None:
        try:
            write_junit(report, output.junit)
        except UnwritableError as error:
            typer.echo(str(error), err=True)
            return WRONG_USE
    if output.as_json:
        typer.echo(to_json(report), nl=False)
    elif output.is_brief:
        typer.echo(brief(report), nl=False)
    elif report.findings:
        show(report, sys.stdout)
    return report.exit_code


def run_devices(name: str, site: Proxmox, folder: Path) -> int:
    """Print the hosts' cards as entries of a stack file, and return the exit code."""
    try:
        client = Client(revealed(site, name, folder))
        client.connect()
        for line in inventory.devices(client):
            typer.echo(line)
    except UnreachableError as error:
        typer.echo(f"{site.endpoint} cannot be asked: {error}.", err=True)
        return UNREACHABLE
    except (TokenError, DeniedError, *NOT_UNDERSTOOD) as error:
        typer.echo(f"{site.endpoint} does not tell its devices: {error}.", err=True)
        return FAILED
    return PASSED
