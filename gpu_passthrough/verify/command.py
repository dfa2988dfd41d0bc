"""What `verify` prints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from gpu_passthrough.checks.diagnose import diagnose
from gpu_passthrough.checks.finding import LAYERS
from gpu_passthrough.checks.machine import UnwritableError, write_junit
from gpu_passthrough.checks.machine import as_json as to_json
from gpu_passthrough.checks.progress import Progress
from gpu_passthrough.checks.render import show
from gpu_passthrough.checks.report import WRONG_USE, UnknownCheckError, check_ignored
from gpu_passthrough.config import Stack
from gpu_passthrough.verify.cluster import Cluster, NoCluster, UnreachableError
from gpu_passthrough.verify.run import CHECKS, Choice, verify


def run_verify(
    name: str,
    stack: Stack,
    kubeconfig: str,
    choice: Choice,
    ignored: Sequence[str],
    *,
    as_json: bool = False,
    junit: Path | None = None,
    folder: Path = Path(),
) -> int:
    """Run the checks, print their report and the diagnosis, and return the exit code."""
    problem = _wrong_use(stack, choice)
    try:
        ids = check_ignored(ignored, CHECKS)
    except UnknownCheckError as error:
        problem = str(error)
    if problem:
        typer.echo(problem, err=True)
        return WRONG_USE
    cluster = _cluster(kubeconfig, stack.context)
    with Progress(lambda text: typer.echo(f"verify: {text}", err=True)) as progress:
        report = verify(name, stack, cluster, choice, progress, folder).ignoring(ids)
    if junit is not None:
        try:
            write_junit(report, junit)
        except UnwritableError as error:
            typer.echo(str(error), err=True)
            return WRONG_USE
    if as_json:
        typer.echo(to_json(report), nl=False)
    else:
        show(report, sys.stdout)
        typer.echo(diagnose(report.failures).text)
    return report.exit_code


def _cluster(kubeconfig: str, context: str | None) -> Cluster:
    """Without a way to the cluster the host may still say what is wrong."""
    try:
        return Cluster(kubeconfig, context)
    except UnreachableError as error:
        return NoCluster(str(error))


def _wrong_use(stack: Stack, choice: Choice) -> str:
    if choice.app is not None and choice.app not in stack.apps:
        return f"the stack has no app {choice.app}; it has {', '.join(stack.apps) or 'none'}"
    if choice.layer is not None and choice.layer not in LAYERS:
        return f"there is no layer {choice.layer}; there are {', '.join(LAYERS)}"
    return ""
