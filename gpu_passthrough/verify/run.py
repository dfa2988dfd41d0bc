"""A verification: all checks of a stack against its cluster, into one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gpu_passthrough.checks.finding import Finding, Layer
from gpu_passthrough.checks.report import Report
from gpu_passthrough.config import Stack
from gpu_passthrough.verify import apps, compute, dcgm, host, nodes, offers, operator, soak
from gpu_passthrough.verify.check import ALLOW, Check
from gpu_passthrough.verify.cluster import Cluster, ForbiddenError, UnreachableError
from gpu_passthrough.verify.state import State, read

COMMAND: Final = "verify"
API: Final = Check("kube-api", "The Kubernetes API answers", "kubernetes")
CHECKS: Final[dict[str, Check]] = {
    **{id_: Check(id_, entry.title, entry.layer) for id_, entry in host.CHECKS.items()},
    **{
        one.id: one
        for one in (
            API,
            nodes.NODE,
            nodes.TALOS,
            nodes.DRIVER,
            nodes.RESTARTS,
            nodes.TAINTS,
            operator.OPERANDS,
            offers.ALLOCATABLE,
            offers.LABELS,
            dcgm.METRICS,
            offers.CLASS,
            apps.FAILED_PODS,
            apps.APP,
            apps.VOLUMES,
            compute.BY_CLASS,
            compute.BY_CLAIM,
            compute.NO_CLAIM,
            compute.IN_APP,
            compute.BY_HOLDER,
            compute.PROVIDER,
            soak.SOAK_NODE,
            soak.SOAK_APP,
        )
    },
}
"""By id; ids are stable, because people write them into scripts."""


@dataclass(frozen=True)
class Choice:
    """What is verified."""

    layer: Layer | None = None
    app: str | None = None
    seconds: float = 300.0
    """Longest wait for one pod of the probe: a node may have to pull an app's image for it."""
    asks_host: bool = True
    """Whether the Proxmox VE host is asked as well."""
    asks_holders: bool = False
    """Whether the probe also runs in pods of others that hold a GPU; it takes memory there."""
    soak_s: float = 0.0
    """How long to look afterwards whether anything restarts."""


def verify(
    name: str,
    stack: Stack,
    cluster: Cluster,
    choice: Choice,
    say: Callable[[str], None] = lambda _: None,
    folder: Path = Path(),
) -> Report:
    """Ask host and cluster about every layer, and compute on every card.

    Nothing is changed but pods of its own, which are removed again. folder: where the stack file
    is, for a token in it.
    """
    begin = time.monotonic()
    target = f"stack {name} on {cluster.host}"
    below = _host(name, stack, choice, say, folder)
    findings = list(below.findings)
    unreachable = False
    try:
        say("reading the cluster")
        state = read(cluster, stack.gpu_operator.namespace)
        findings.append(API.passed(cluster.host, "answers"))
        down = {one.part for one in findings if one.id == "vm" and one.fails}
        findings += _all(stack, state, cluster, choice, say, down)
    except UnreachableError as error:
        findings = [*_counting(below), _no_cluster(str(error))]
        unreachable = True
    except ForbiddenError as error:
        findings.append(_forbidden(str(error)))
    wanted = [one for one in findings if unreachable or _is_wanted(one, choice)]
    if not wanted:
        wanted = [_nothing(choice)]
    return Report(COMMAND, target, wanted, time.monotonic() - begin, unreachable=unreachable)


def _is_wanted(found: Finding, choice: Choice) -> bool:
    """Of the chosen layer; or a reason for which nothing of it could be asked."""
    return choice.layer in (None, found.layer) or (found.fails and not found.ignorable)


def _nothing(choice: Choice) -> Finding:
    """Nothing was asked, so nothing is proven."""
    why = f"nothing of the layer {choice.layer} could be asked: the stack has none, or was not to"
    return replace(API.unknown("the stack", why, best_effort=False), ignorable=False)


def _host(
    name: str, stack: Stack, choice: Choice, say: Callable[[str], None], folder: Path
) -> Report:
    if choice.asks_host and choice.layer in (None, *host.LAYERS):
        return host.ask(name, stack, say, folder)
    return Report("host", name, [])


def _counting(below: Report) -> list[Finding]:
    """A host that is silent explains a cluster that is silent."""
    return [replace(one, best_effort=False) if below.unreachable else one for one in below.findings]


def looked(stack: Stack, state: State, app: str | None = None) -> Iterator[Finding]:
    """What shows in the cluster's objects alone, lowest layer first."""
    yield from nodes.nodes(stack, state)
    yield from nodes.talos(stack, state)
    yield from nodes.restarts(stack, state)
    yield from nodes.taints(stack, state)
    yield from operator.operator(stack, state)
    yield from offers.gpus(stack, state)
    yield from offers.runtime_class(stack, state)
    yield from apps.apps(stack, state, app)


def _all(
    stack: Stack,
    state: State,
    cluster: Cluster,
    choice: Choice,
    say: Callable[[str], None],
    down: Collection[str],
) -> Iterator[Finding]:
    yield from looked(stack, state, choice.app)
    yield from dcgm.metrics(cluster, stack, state, down)
    if choice.layer in (None, "app", "runtime-class"):
        say("computing in the apps' own pods")
        yield from compute.in_apps(cluster, stack, state, choice.app, down)
        if choice.app is None:
            say("computing in pods of its own on every GPU node")
            prober = compute.Prober(cluster, stack, choice.seconds, choice.asks_holders)
            yield from compute.on_nodes(prober, state, down)
    if choice.soak_s:
        say(f"watching for {choice.soak_s:.0f} s whether anything restarts")
        yield from soak.Soak(cluster, stack, choice.soak_s, say).run()


def _no_cluster(why: str) -> Finding:
    found = API.failed(
        "the cluster",
        why,
        "Nothing above Talos can be told.",
        "Is the control plane's VM running, is every part of it healthy? Is it the kubeconfig of"
        " this cluster: one that was built anew has another certificate?",
        "GET /api/v1/nodes",
        why,
    )
    return replace(found, ignorable=False)


def _forbidden(why: str) -> Finding:
    found = API.unknown(
        "the cluster",
        f"the kubeconfig's user may not look: {why}",
        best_effort=False,
        fix=ALLOW,
    )
    return replace(found, ignorable=False)
