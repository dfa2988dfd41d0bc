"""Looks at the cluster once, and says what it saw or why it could not look. It only reads."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_passthrough.checks.report import Report
from gpu_passthrough.config import Stack
from gpu_passthrough.verify.cluster import Cluster, ForbiddenError, UnreachableError
from gpu_passthrough.verify.run import looked
from gpu_passthrough.verify.state import State, read

COMMAND = "look"
"""Name of the report that this look gives: verify's checks that need no pod."""


@dataclass(frozen=True)
class Seen:
    """What the cluster was at one moment."""

    state: State | None = None
    host: str = ""
    problem: str = "No cluster was asked."
    """Why there is no state."""


def look(kubeconfig: str, operator_namespace: str, context: str | None = None) -> Seen:
    """Read the cluster of a kubeconfig file; an empty name asks none."""
    if not kubeconfig:
        return Seen()
    try:
        cluster = Cluster(kubeconfig, context)
    except UnreachableError as error:
        return Seen(problem=f"The cluster was not asked: {error}")
    try:
        return Seen(read(cluster, operator_namespace), cluster.host, "")
    except UnreachableError as error:
        return Seen(host=cluster.host, problem=f"The cluster cannot be read: {error}")
    except ForbiddenError as error:
        return Seen(host=cluster.host, problem=f"The cluster cannot be read: {error}")


def judged(stack: Stack, seen: Seen) -> Report | None:
    """What verify says of a look, as far as looking goes: nothing is computed."""
    if (state := seen.state) is None:
        return None
    return Report(COMMAND, f"the cluster at {seen.host}", list(looked(stack, state)))


def together(own: Report | None, given: list[Report]) -> list[Report]:
    """All reports; what the cluster says now replaces an older answer to the same question."""
    if own is None:
        return given
    asked = {(one.id, one.subject) for one in own.findings}
    older = [
        Report(
            report.command,
            report.target,
            [one for one in report.findings if (one.id, one.subject) not in asked],
            report.seconds,
            report.unreachable,
        )
        for report in given
    ]
    return [own, *older]
