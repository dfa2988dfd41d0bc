"""The commands of `python -m gpu_passthrough`.

Exit codes: 0 fine, 2 refused; a stack file that cannot be read is refused as well. A cluster that
cannot be read is 1.
"""

from __future__ import annotations

import json
from pathlib import Path as FilePath
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gpu_passthrough import compatibility, placement
from gpu_passthrough.config import Stack
from gpu_passthrough.load import PROJECT, load_stack_file
from gpu_passthrough.placement import Plan
from gpu_passthrough.problems import ConfigurationError, Problem, where

REFUSED = 2
UNREADABLE = 1
DEFAULT_STACK = "dev"

app = typer.Typer(
    help="Check a stack's configuration, plan its GPUs, look at its cluster. Nothing is changed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

StackName = Annotated[
    str, typer.Argument(help="A stack's name, as in Pulumi.NAME.yaml, or the path of a stack file.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Junit = Annotated[FilePath | None, typer.Option(help="Also write JUnit's XML to this file.")]
Ignore = Annotated[
    list[str] | None, typer.Option(help="A check whose failure you live with; or all.")
]
Kubeconfig = Annotated[
    str, typer.Option(envvar="KUBECONFIG", help="The cluster's kubeconfig file.")
]


def stack_file(stack: str) -> FilePath:
    """The file that a stack's name or path means."""
    path = FilePath(stack)
    if path.suffix in {".yaml", ".yml"} or len(path.parts) > 1:
        return path
    return PROJECT / f"Pulumi.{stack}.yaml"


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "rule": problem.rule,
        "path": where(problem.path),
        "file": problem.file,
        "line": problem.line,
        "message": problem.message,
        "why": problem.why,
        "fix": problem.fix,
        "also": [where(path) for path in problem.also],
    }


def _print(value: object) -> None:
    """Print as it is: rich would wrap lines and colour what looks like markup."""
    typer.echo(value if isinstance(value, str) else json.dumps(value, indent=2))


def _load(file: FilePath, as_json: bool) -> Stack:
    """The stack, or exit code 2 with everything that is wrong with it."""
    try:
        return load_stack_file(file)
    except ConfigurationError as error:
        if as_json:
            found = [_problem(problem) for problem in error.problems]
            _print({"stack": file.name, "ok": False, "problems": found})
        else:
            typer.echo(str(error), err=True)
        raise typer.Exit(REFUSED) from None


def _facts(stack: Stack) -> dict[str, str]:
    verdict = compatibility.verdict(stack)
    gpus = sum(len(machine.gpus) for machine in stack.members.values())
    return {
        "starts at": stack.starts_at,
        "nodes": f"{len(stack.members)}, {len(stack.gpu_nodes)} of them with {gpus} GPUs",
        "apps": ", ".join(stack.apps) or "none",
        "compatibility": verdict.text.removeprefix("Compatibility: "),
    }


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


@app.command()
def check(stack: StackName = DEFAULT_STACK, as_json: AsJson = False) -> None:
    """Check a stack's configuration: exit code 0 when it can work, 2 when it cannot."""
    file = stack_file(stack)
    loaded = _load(file, as_json)
    facts = _facts(loaded)
    if as_json:
        level = compatibility.verdict(loaded).level
        _print({"stack": file.name, "ok": True, "problems": [], "verdict": level, **facts})
        return
    table = _table(file.name, "can work")
    for name, value in facts.items():
        table.add_row(name, value)
    Console().print(table)


def _rows(plan: Plan) -> list[dict[str, Any]]:
    """One row per app and node, and one per node that still has free slots."""
    kinds = {offer.node: offer.kind.described for offer in plan.offers}
    rows: list[dict[str, Any]] = [
        {"app": placed.app, "node": node, "card": kinds[node], "gpus": count * placed.gpus}
        for placed in plan.apps
        for node, count in placed.nodes.items()
        if count
    ]
    free = [(node, count) for node, count in plan.free.items() if count]
    rows += [{"app": None, "node": node, "card": kinds[node], "gpus": n} for node, n in free]
    return rows


@app.command()
def plan(stack: StackName = DEFAULT_STACK, as_json: AsJson = False) -> None:
    """Show which app fits on which card. The scheduler may choose another card that fits."""
    file = stack_file(stack)
    found = placement.plan(_load(file, as_json))
    rows = _rows(found)
    if as_json:
        _print({"stack": file.name, "judged": found.judged, "plan": rows})
        return
    if not found.judged:
        _print("The stack does not list its machines, so where apps fit cannot be told.")
        return
    table = _table("APP", "NODE", "CARD", "GPUS")
    for row in rows:
        table.add_row(row["app"] or "(free)", row["node"], row["card"], str(row["gpus"]))
    Console().print(table)


@app.command()
def overview(
    kubeconfig: Kubeconfig = "~/.kube/config",
) -> None:
    """Show a cluster's nodes, their GPUs and the pods that hold them."""
    from gpu_passthrough import overview as cluster
    from gpu_passthrough.kubeapi import ForbiddenError, UnreachableError

    try:
        found = cluster.collect(str(FilePath(kubeconfig).expanduser()))
    except (UnreachableError, ForbiddenError) as error:
        typer.echo(f"The cluster cannot be read: {error}", err=True)
        raise typer.Exit(UNREADABLE) from None
    cluster.show(found, Console())


@app.command()
def recover(stack: StackName = DEFAULT_STACK) -> None:
    """Settle what an interrupted `pulumi up` or `destroy` left; then run it again.

    Exit code 0 when the next update can go on, 1 when something is left that only you can decide.
    """
    from gpu_passthrough.recover.command import settle_stack

    file = stack_file(stack)
    loaded = _load(file, as_json=False)
    if not settle_stack(file.stem.removeprefix("Pulumi."), loaded, file.absolute().parent):
        raise typer.Exit(UNREADABLE)


@app.command()
def preflight(
    stack: StackName = DEFAULT_STACK,
    as_json: AsJson = False,
    junit: Junit = None,
    ignore: Ignore = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Longest wait for one answer of the host, in seconds.")
    ] = 10.0,
    brief: Annotated[bool, typer.Option(help="Print only what needs attention.")] = False,
) -> None:
    """Ask the Proxmox VE host whether the stack can work there. It only reads.

    Exit codes: 0 everything passed, 1 a check failed, 2 wrong use or a configuration that cannot
    work, 3 the host does not answer.
    """
    from gpu_passthrough.preflight.command import Output, run_preflight

    file = stack_file(stack)
    code = run_preflight(
        file.stem.removeprefix("Pulumi."),
        _load(file, as_json),
        ignore or [],
        Output(as_json=as_json, junit=junit, is_brief=brief),
        folder=file.absolute().parent,
        timeout_s=timeout,
    )
    raise typer.Exit(code)


@app.command()
def devices(stack: StackName = DEFAULT_STACK) -> None:
    """Print the hosts' NVIDIA cards as entries of a stack file. It only reads.

    Of the stack file it needs the section proxmox alone. Exit codes: 0 printed, 1 the host does not
    tell, 2 wrong use or no way to a host, 3 the host does not answer.
    """
    from gpu_passthrough.preflight.command import run_devices
    from gpu_passthrough.preflight.inventory import site_of

    file = stack_file(stack)
    try:
        site = site_of(file)
    except ConfigurationError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(REFUSED) from None
    folder = file.absolute().parent
    raise typer.Exit(run_devices(file.stem.removeprefix("Pulumi."), site, folder))


@app.command()
def role(
    stack: Annotated[
        str | None,
        typer.Argument(
            help="A token that reaches nothing but this stack's hosts, storages and VMs."
        ),
    ] = None,
) -> None:
    """Print the commands that make the least-privilege role, user and token on the host."""
    from gpu_passthrough.preflight.role import commands, narrow_commands

    if stack is None:
        typer.echo(commands())
        return
    loaded = _load(stack_file(stack), False)
    if loaded.proxmox is None:
        typer.echo(f"Stack {stack} builds no VMs: it needs no token.", err=True)
        return
    typer.echo(narrow_commands(loaded, loaded.proxmox))


@app.command()
def verify(
    stack: StackName = DEFAULT_STACK,
    kubeconfig: Kubeconfig = "~/.kube/config",
    layer: Annotated[str | None, typer.Option(help="Only this layer, such as operator.")] = None,
    only_app: Annotated[str | None, typer.Option("--app", help="Only this app.")] = None,
    timeout: Annotated[
        float, typer.Option(help="Longest wait for one pod of the probe, in seconds.")
    ] = 300.0,
    host: Annotated[
        bool, typer.Option(help="Ask the Proxmox VE host as well, where the stack has one.")
    ] = True,
    holders: Annotated[
        bool,
        typer.Option(
            "--holders",
            help="Compute also in pods of others that hold a GPU; it takes memory on their card.",
        ),
    ] = False,
    soak: Annotated[
        float,
        typer.Option(min=0, help="Watch so many seconds afterwards whether anything restarts."),
    ] = 0.0,
    as_json: AsJson = False,
    junit: Junit = None,
    ignore: Ignore = None,
) -> None:
    """Prove that the stack works, from its host to a program that computes on each GPU.

    Exit codes: 0 everything passed, 1 a check failed, 2 wrong use or a configuration that cannot
    work, 3 the cluster does not answer.
    """
    from typing import cast

    from gpu_passthrough.verify.command import run_verify
    from gpu_passthrough.verify.run import Choice

    file = stack_file(stack)
    loaded = _load(file, as_json)
    choice = Choice(
        cast("Any", layer), only_app, timeout, asks_host=host, asks_holders=holders, soak_s=soak
    )
    code = run_verify(
        file.stem.removeprefix("Pulumi."),
        loaded,
        str(FilePath(kubeconfig).expanduser()),
        choice,
        ignore or [],
        as_json=as_json,
        junit=junit,
        folder=file.absolute().parent,
    )
    raise typer.Exit(code)


@app.command()
def report(
    stack: StackName = DEFAULT_STACK,
    output: Annotated[
        FilePath | None, typer.Option(help="The page's file; report-STACK.html where left out.")
    ] = None,
    findings: Annotated[
        list[FilePath] | None,
        typer.Option(help="What `preflight --json` or `verify --json` printed; may be repeated."),
    ] = None,
    kubeconfig: Annotated[
        str,
        typer.Option(envvar="KUBECONFIG", help="The cluster's kubeconfig file; '' looks at none."),
    ] = "~/.kube/config",
) -> None:
    """Write one HTML page: each GPU's way from the host to a pod. It only reads.

    Exit codes: 0 written, also where a layer is broken or the cluster does not answer; 1 the file
    cannot be written; 2 wrong use or a configuration that cannot work.
    """
    from gpu_passthrough.report.command import run_report

    file = stack_file(stack)
    name = file.stem.removeprefix("Pulumi.")
    path = str(FilePath(kubeconfig).expanduser()) if kubeconfig else ""
    wanted = output or FilePath(f"report-{name}.html")
    raise typer.Exit(run_report(name, _load(file, False), path, findings or [], wanted))


@app.command()
def watch(
    kubeconfig: Kubeconfig = "~/.kube/config",
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON per look.")] = False,
) -> None:
    """Show what every GPU of a cluster does, and for which pod, until Ctrl-C. It only reads.

    Exit codes: 0 fine, also after Ctrl-C; 1 with --once where a GPU could not be read or there is
    none; 2 wrong use; 3 the cluster does not answer, or does not let you list nodes and pods.
    """
    from gpu_passthrough.watch.command import Options, run_watch

    options = Options(interval_s=interval, once=once, as_json=as_json)
    raise typer.Exit(run_watch(str(FilePath(kubeconfig).expanduser()), options))
