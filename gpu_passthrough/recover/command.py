"""What `recover` prints."""

from __future__ import annotations

from pathlib import Path

import typer

from gpu_passthrough import kubeapi
from gpu_passthrough.config import RELEASE, Stack
from gpu_passthrough.preflight.client import DeniedError, TokenError, UnreachableError
from gpu_passthrough.preflight.token import revealed
from gpu_passthrough.recover.engine import Engine, EngineError
from gpu_passthrough.recover.host import host_of
from gpu_passthrough.recover.settle import recover


def settle_stack(name: str, stack: Stack, folder: Path) -> bool:
    """Settle a stack and say what was done; whether the next update can go on."""
    try:
        site = stack.proxmox and revealed(stack.proxmox, name, folder)
        outcome = recover(
            Engine(name, folder),
            host_of(site),
            lambda text: typer.echo(text, err=True),
            (stack.gpu_operator.namespace, RELEASE),
            stack.context,
        )
    except EngineError as error:
        typer.echo(f"Nothing was settled. Pulumi says:\n{error}", err=True)
        return False
    except (UnreachableError, TokenError, DeniedError) as error:
        typer.echo(f"Nothing was settled: the Proxmox VE host was asked, and {error}", err=True)
        return False
    except (kubeapi.UnreachableError, kubeapi.ForbiddenError) as error:
        typer.echo(
            f"Not everything was settled: the cluster was asked, and {error}\n"
            "Run this again when it answers; a lock of a process that is gone was removed already.",
            err=True,
        )
        return False
    for line in outcome.done:
        typer.echo(f"- {line}")
    for line in outcome.open:
        typer.echo(f"! {line}", err=True)
    if outcome.open:
        typer.echo("The rest waits for you; then run this again.", err=True)
    elif outcome.done:
        typer.echo("Settled. `pulumi up` or `pulumi destroy` goes on from here.")
    else:
        typer.echo("Nothing is unfinished.")
    return not outcome.open
