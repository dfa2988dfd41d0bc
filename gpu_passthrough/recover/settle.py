"""The recovery itself: lock, Helm releases, pending operations, in this order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpu_passthrough.recover.cluster import Cluster, unfinished
from gpu_passthrough.recover.engine import Engine, kubeconfig_of, plain
from gpu_passthrough.recover.locks import Lock, is_dead, locks
from gpu_passthrough.recover.pending import (
    Pending,
    Proxmox,
    Verdict,
    World,
    judge,
    pending_operations,
    strays,
)

Say = Callable[[str], None]


@dataclass
class Outcome:
    """What was found and done."""

    done: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    """What only a person can settle, each with what to do."""


def recover(
    engine: Engine,
    proxmox: Proxmox | None,
    say: Say,
    release: tuple[str, str],
    context: str | None = None,
) -> Outcome:
    """Settle what an interruption left; nothing is created or deleted on host and machines.

    release: namespace and name of the stack's Helm release.
    context: of the kubeconfig, where the stack names one.

    Raises:
        EngineError: Pulumi refused.
        kubeapi.UnreachableError, kubeapi.ForbiddenError: the cluster did, while it was asked.
    """
    outcome = Outcome()
    if not _unlock(engine, outcome):
        return outcome
    exported = engine.export("--show-secrets")
    text = kubeconfig_of(exported)
    cluster = Cluster(text, context) if text else None
    if cluster is not None and cluster.answers():
        _helm(cluster, release, outcome)
    operations = [
        Pending(one.urn, one.type, one.kind, plain(one.inputs))
        for one in pending_operations(exported)
    ]
    if operations:
        say(f"asking about {len(operations)} unfinished operations")
    reachable = cluster if cluster is not None and cluster.answers() else None
    _settle(engine, [judge(one, World(proxmox, reachable)) for one in operations], outcome)
    if proxmox is not None and not outcome.open:
        _adopt_strays(engine, proxmox, outcome)
    return outcome


def _adopt_strays(engine: Engine, proxmox: Proxmox, outcome: Outcome) -> None:
    """Take over what exists on the host under the stack's ids, and no state knows of."""
    planned = engine.planned()
    verdicts = [judge(one, World(proxmox, None)) for one in strays(planned)]
    outcome.open += [f"{one.pending.name}: {one.why}" for one in verdicts if not one.is_clear]
    found = {one.pending.urn: one.found for one in verdicts if one.found}
    if found:
        engine.settle(found, (), (), planned)
    outcome.done += [
        f"{one.pending.name}: taken into the state, which did not know of it ({one.why})"
        for one in verdicts
        if one.found
    ]


def _unlock(engine: Engine, outcome: Outcome) -> bool:
    """Remove locks of dead processes; False where another one may be at work."""
    for lock in locks(engine.backend(), engine.full_name()):
        if is_dead(lock):
            lock.path.unlink(missing_ok=True)
            outcome.done.append(f"removed the state's lock: {lock.holder}, is gone")
        else:
            outcome.open.append(_held(lock, engine.stack))
    return not outcome.open


def _held(lock: Lock, stack: str) -> str:
    return (
        f"the state is locked by {lock.holder}. It may be at work: wait for it or end it. If it"
        f" is surely gone: pulumi cancel --stack {stack}"
    )


def _helm(cluster: Cluster, release: tuple[str, str], outcome: Outcome) -> None:
    """Clear an unfinished revision of the stack's own release; others are somebody else's."""
    namespace, name = release
    mine = [one for one in cluster.revisions(namespace) if one.release == name]
    for one in unfinished(mine):
        cluster.forget(one)
        outcome.done.append(
            f"cleared revision {one.number} of the Helm release {one.release}, which was"
            f" {one.status}: the next update goes on from there"
        )


def _settle(engine: Engine, verdicts: list[Verdict], outcome: Outcome) -> None:
    clear = [one for one in verdicts if one.is_clear]
    outcome.open += [f"{one.pending.name}: {one.why}" for one in verdicts if not one.is_clear]
    found = {one.pending.urn: one.found for one in clear if one.found}
    read = [one.pending.urn for one in clear if one.is_read]
    if clear:
        engine.settle(found, read, {one.pending.urn for one in clear} - {*found, *read})
    outcome.done += [f"{one.pending.name}: {_done(one)} ({one.why})" for one in clear]


def _done(verdict: Verdict) -> str:
    if verdict.found:
        return "taken into the state"
    return "compared" if verdict.is_read else "left to the next update"
