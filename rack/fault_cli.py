"""`python -m rack fault`: break things on purpose, and mend them."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from rack import launch
from rack.settings import Settings
from rack.world.sabotage import SABOTAGES

cli = typer.Typer(
    help="Break things on purpose: `list` shows what, `inject` does it, `clear` mends it.",
    no_args_is_help=True,
    add_completion=False,
)


@cli.command(name="list")
def list_faults(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show every fault, what it does, where it shows, and whether it is on."""
    settings = Settings.from_environment()
    active = launch.faults(settings) if launch.about(settings) else {}
    if as_json:
        found = {
            name: {
                "text": one.text,
                "layer": one.layer,
                "parameters": one.parameters,
                "active": active.get(name),
            }
            for name, one in SABOTAGES.items()
        }
        typer.echo(json.dumps(found, indent=2))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("FAULT", "ARGUMENTS", "SHOWS AT", "ON", "WHAT HAPPENS"):
        table.add_column(column, overflow="fold")
    for name, one in SABOTAGES.items():
        arguments = " ".join(parameter.upper() for parameter in one.parameters)
        on = "yes" if name in active else ""
        table.add_row(name, arguments, one.layer, on, one.text)
    Console().print(table)


@cli.command()
def inject(
    fault: Annotated[str, typer.Argument(help="A name that `list` shows.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="What `list` shows; * is any target.")
    ] = None,
) -> None:
    """Break something: for example `inject node-dead k8s-worker-1`."""
    launch.inject(Settings.from_environment(), fault, arguments or [])
    undo = "" if SABOTAGES[fault].clear is None else f" `python -m rack fault clear {fault}` mends."
    typer.echo(f"{SABOTAGES[fault].text}{undo}")


@cli.command()
def clear(
    fault: Annotated[str, typer.Argument(help="A name that `list` shows, or all.")] = "all",
) -> None:
    """Mend a fault, or all of them."""
    launch.clear(Settings.from_environment(), fault)
    typer.echo(f"Mended: {fault}.")
