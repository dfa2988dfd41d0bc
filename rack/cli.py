"""The command line of the simulated rack."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rack import chart_cli, fault_cli, launch
from rack.charts.repository import ChartError
from rack.files import DamagedFileError
from rack.process import AlreadyRunningError, resident_mib, running_pid
from rack.settings import Settings, SettingsError
from rack.sockets import PortInUseError
from rack.token import read_token

cli = typer.Typer(
    help="The simulated rack: a Proxmox host, Talos machines and NVIDIA cards that are not there.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
cli.add_typer(fault_cli.cli, name="fault")
cli.add_typer(chart_cli.cli, name="chart")
MENDABLE = (
    AlreadyRunningError,
    ChartError,
    PortInUseError,
    SettingsError,
    DamagedFileError,
    launch.LaunchError,
)
NOT_RUNNING = 3
"""Exit status of `status` where no rack runs, as for a service of the system."""


@cli.command()
def up() -> None:
    """Start the rack, or find that it runs; go on from where it was."""
    settings = _settings()
    started = launch.start(settings)
    word = "started" if started else "runs already"
    typer.echo(f"The simulated rack {word}: Proxmox {settings.proxmox_url}")


@cli.command()
def stop() -> None:
    """Stop the rack. Its VMs go on when it starts again."""
    stopped = launch.stop(_settings())
    typer.echo("The simulated rack is stopped." if stopped else "No simulated rack runs.")


@cli.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show whether the rack runs, and what its VMs are doing."""
    settings = _settings()
    found = _status(settings)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    elif found["running"]:
        _print(found)
    else:
        typer.echo(f"No simulated rack runs ({settings.home}). `python -m rack up` starts it.")
    if not found["running"]:
        raise typer.Exit(NOT_RUNNING)


def _status(settings: Settings) -> dict[str, Any]:
    pid = running_pid(settings)
    if pid is None:
        return {"running": False, "home": str(settings.home)}
    return {
        "running": True,
        "home": str(settings.home),
        "resident_mib": resident_mib(pid),
        **(launch.about(settings) or {"pid": pid, "answers": False}),
    }


def _print(found: dict[str, Any]) -> None:
    console = Console()
    if found.get("answers") is False:
        console.print(f"The simulated rack (process {found['pid']}) runs but does not answer.")
        return
    console.print(
        f"The simulated rack runs: process {found['pid']}, {found['resident_mib']} MiB,"
        f" Proxmox {found['proxmox']}"
    )
    if found["bootstrapped"]:
        console.print(f"Kubernetes {found['kubernetes']}")
    for host, losses in found["hosts"].items():
        if losses:
            console.print(
                f"Host {host} does not answer: a VM took its {', '.join(losses)}."
                f" `python -m rack power-cycle --no-guests {host}` boots it without its VMs."
            )
    table = Table("VM", "Name", "Host", "Power", "Talos", "Addresses", "PCI functions")
    for vm in found["vms"]:
        talos = f"{vm['machine']}: {vm['problem']}" if vm["problem"] else vm["machine"]
        texts = (str(vm["vmid"]), vm["name"], vm["node"], vm["status"], talos)
        table.add_row(*texts, "\n".join(vm["addresses"]), "\n".join(vm["pci"]))
    console.print(table)


@cli.command()
def power_cycle(
    host: Annotated[str, typer.Argument(help="For example pve.")],
    guests: Annotated[
        bool,
        typer.Option(
            help="Start the VMs that have onboot, as a host does. --no-guests is the kernel's"
            " systemd.mask=pve-guests.service: for a host that lost its network card to a VM."
        ),
    ] = True,
) -> None:
    """Cut a host's power and boot it."""
    launch.power_cycle(_settings(), host, guests=guests)
    started = "the VMs with onboot start" if guests else "its VMs are off"
    typer.echo(f"Host {host} of the simulated rack has booted; {started}.")


@cli.command()
def env() -> None:
    """Print the environment for a shell: eval "$(python -m rack env)"."""
    settings = _settings()
    read_token(settings)
    typer.echo(launch.shell_environment(settings))


@cli.command()
def serve(
    ready_descriptor: Annotated[int, typer.Option(hidden=True)] = -1,
) -> None:
    """Be the rack in the foreground until interrupted."""
    # Imported here: the other commands start faster without the servers.
    from rack import daemon

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")

    def tell() -> None:
        if ready_descriptor >= 0:
            os.write(ready_descriptor, b"ready\n")
            os.close(ready_descriptor)

    daemon.serve(_settings(), tell)


def _settings() -> Settings:
    return Settings.from_environment()


def main() -> None:
    """Run a command; what a person can mend is one message, not a traceback."""
    try:
        cli()
    except MENDABLE as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        typer.echo(f"error: the simulated rack: {error.strerror or error}{where}", err=True)
        sys.exit(1)
