"""`python -m rack chart`: the vendor's chart packages beside the rack's stand-ins."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.progress import Progress

if TYPE_CHECKING:
    from rack.charts.compare import Comparison

cli = typer.Typer(
    help="The vendor's packages of the GPU Operator's chart beside the rack's stand-ins.",
    no_args_is_help=True,
    add_completion=False,
)
DIFFERENT: Final = 1
UNUSABLE: Final = 2
"""Exit status where nothing could be compared, as for a wrong use of the command."""


@cli.callback()
def chart() -> None:
    """Keep `compare` a command of its own: an app with one command would be that command."""


@cli.command(name="compare")
def compare_package(
    package: Annotated[
        Path,
        typer.Argument(
            metavar="PACKAGE", help="The vendor's, for example gpu-operator-v26.3.3.tgz."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Compare a vendor's chart package with the rack's stand-in of its version.

    Both are rendered by the Helm that `pulumi up` uses: with every set of
    values that the program's options make, and with every value of the chart
    changed, one at a time. Compared is each field of the ClusterPolicy that the
    rack's model reads, as the API server would keep it. Which fields those are
    is found by running the model on what was rendered.

    Nothing is installed, and neither a rack nor a cluster is needed. It takes
    a minute or two.

    Exit status: 0 the same, 1 different, 2 nothing could be compared.
    """
    # Imported here: the other commands start faster without the model and Pulumi's protocol.
    from rack.charts import show
    from rack.charts.helm import RenderError
    from rack.charts.repository import ChartError

    try:
        found = _compared(package)
    except (ChartError, RenderError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(UNUSABLE) from None
    except OSError as error:
        typer.echo(f"error: {package} cannot be read: {error.strerror or error}", err=True)
        raise typer.Exit(UNUSABLE) from None
    if as_json:
        typer.echo(json.dumps(show.plain(found), indent=2))
    else:
        show.show(found)
    if found.differences:
        raise typer.Exit(DIFFERENT)


def _compared(package: Path) -> Comparison:
    """Compare, and show a person how far it is."""
    from rack.charts.compare import compare

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("rendering")
        return compare(package, lambda done, of: progress.update(task, completed=done, total=of))
