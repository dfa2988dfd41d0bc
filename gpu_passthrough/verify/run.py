"""A verification: all checks of a stack against its cluster, into one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from gpu_passthrough.checks.finding import Finding, Layer
from gpu_passthrough.checks.report import Report
from gpu_passthrough.config import Stack
from gpu_passthrough.verify import checks, compute
from gpu_passthrough.verify.checks import Check
from gpu_passthrough.verify.cluster import Cluster, ForbiddenError, UnreachableError
from gpu_passthrough.verify.state import State, read

COMMAND: Final = "verify"
API: Final = Check("kube-api", "The Kubernetes API answers", "kubernetes")
CHECKS: Final[dict[str, Check]] = {
    one.id: one
    for one in (
        API,
        checks.NODE,
        checks.TALOS,
        checks.DRIVER,
        checks.OPERANDS,
        checks.ALLOCATABLE,
        checks.LABELS,
        checks.CLASS,
        checks.APP,
        checks.VOLUMES,
        compute.BY_CLASS,
        compute.BY_CLAIM,
        compute.NO_CLAIM,
        compute.IN_APP,
        compute.PROVIDER,
    )
}
"""By id; ids are stable, because people write them into scripts."""


@dataclass(frozen=True)
class Choice:
    """What is verified."""

    layer: Layer | None = None
    app: str | None = None
    seconds: float = 60.0
    """Longest wait for one pod of the probe."""


def verify(
    name: str,
    stack: Stack,
    cluster: Cluster,
    choice: Choice,
    say: Callable[[str], None] = lambda _: None,
) -> Report:
    """Ask the cluster about every layer, and compute on every card.

    Nothing is changed but pods of its own, which are removed again.
    """
    begin = time.monotonic()
    target = f"stack {name} on {cluster.host}"
    findings: list[Finding] = []
    try:
        say("reading the cluster")
        state = read(cluster, stack.gpu_operator.namespace)
        findings.append(API.passed(cluster.host, "answers"))
        for finding in _all(stack, state, cluster, choice, say):
            if choice.layer in (None, finding.layer):
                findings.append(finding)
    except UnreachableError as error:
        findings.append(_no_cluster(str(error)))
        return Report(COMMAND, target, findings, time.monotonic() - begin, unreachable=True)
    except ForbiddenError as error:
        findings.append(_forbidden(str(error)))
    return Report(COMMAND, target, findings, time.monotonic() - begin)


def _all(
    stack: Stack,
    state: State,
    cluster: Cluster,
    choice: Choice,
    say: Callable[[str], None],
) -> Iterator[Finding]:
    yield from checks.nodes(stack, state)
    yield from checks.talos(stack, state)
    yield from checks.operator(stack, state)
    yield from checks.gpus(stack, state)
    yield from checks.runtime_class(stack, state)
    yield from checks.apps(stack, state, choice.app)
    if choice.layer in (None, "app", "runtime-class"):
        say("computing in the apps' own pods")
        yield from compute.in_apps(cluster, stack, state, choice.app)
        if choice.app is None:
            say("computing in pods of its own on every GPU node")
            prober = compute.Prober(cluster, stack, choice.seconds)
            yield from compute.on_nodes(prober, state)


def _no_cluster(why: str) -> Finding:
    return API.failed(
        "the cluster",
        why,
        "Nothing above Talos can be told.",
        "Is the control plane's VM running? talosctl health. Is it the right kubeconfig?",
        "GET /api/v1/nodes",
        why,
    )


def _forbidden(why: str) -> Finding:
    return API.unknown(
        "the cluster", f"the kubeconfig's user may not look: {why}", best_effort=False
    )
