"""A pod's status as a kubelet writes it: phase and conditions from its containers; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rack.cluster.api import Object
from rack.cluster.containers import Subject, creating, stamp
from rack.world.podtypes import Rejection

_FIRST: Final = "PodReadyToStartContainers"
_TERMINAL: Final = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
"""Reason why a pod that has ended is not ready, by its phase."""


@dataclass(frozen=True)
class Place:
    """Where a pod runs."""

    host: str
    """Address of the node."""
    address: str = ""
    """Address of the pod; empty before it has a network."""


@dataclass(frozen=True)
class Statuses:
    """The containers' statuses, in the order of the specification."""

    init: list[Object] = field(default_factory=list)
    main: list[Object] = field(default_factory=list)


def known_status(pod: Mapping[str, Any], name: str, is_init: bool) -> Object | None:
    """The status that a container of a pod has by now."""
    part = "initContainerStatuses" if is_init else "containerStatuses"
    for one in (pod.get("status") or {}).get(part) or ():
        if one["name"] == name:
            found: Object = one
            return found
    return None


def waiting_statuses(pod: Mapping[str, Any], now: float) -> Statuses:
    """Statuses while there is no sandbox."""
    spec = pod["spec"]
    init = spec.get("initContainers") or []
    reason = "PodInitializing" if init else "ContainerCreating"

    def every(specs: Iterable[Mapping[str, Any]], is_init: bool) -> list[Object]:
        return [
            creating(
                Subject.of(pod, one, is_init), known_status(pod, one["name"], is_init), reason, now
            )
            for one in specs
        ]

    return Statuses(every(init, True), every(spec["containers"], False))


def status(
    pod: Mapping[str, Any], found: Statuses, place: Place, now: float, *, has_sandbox: bool
) -> Object:
    """The whole status; conditions of others stay."""
    phase = phase_of(pod, found)
    before = pod.get("status") or {}
    result: Object = {
        "observedGeneration": pod["metadata"].get("generation", 1),
        "phase": phase,
        "conditions": _conditions(pod, found, phase, now, has_sandbox=has_sandbox),
        "hostIP": place.host,
        "hostIPs": [{"ip": place.host}],
        "startTime": before.get("startTime") or stamp(now),
        "containerStatuses": found.main,
    }
    if found.init:
        result["initContainerStatuses"] = found.init
    if place.address:
        result["podIP"] = place.address
        result["podIPs"] = [{"ip": place.address}]
    return result


def rejected(rejection: Rejection, now: float) -> Object:
    """The status of a pod that the node does not take."""
    return {
        "phase": "Failed",
        "reason": rejection.reason,
        "message": rejection.message,
        "startTime": stamp(now),
    }


def phase_of(pod: Mapping[str, Any], found: Statuses) -> str:
    """The phase by the kubelet's own rules."""
    spec = pod["spec"]
    for one, at in zip(spec.get("initContainers") or (), found.init, strict=True):
        subject = Subject.of(pod, one, is_init=True)
        if has_initialised(subject, at):
            continue
        ended = at["state"].get("terminated")
        is_over = ended is not None and not subject.restarts_after(ended["exitCode"])
        return "Failed" if is_over else "Pending"
    if any("waiting" in at["state"] and not _ended(at) for at in found.main):
        return "Pending"
    if any("terminated" not in at["state"] for at in found.main):
        return "Running"
    codes = [at["state"]["terminated"]["exitCode"] for at in found.main]
    subjects = [Subject.of(pod, one) for one in spec["containers"]]
    pairs = zip(subjects, codes, strict=True)
    if any(subject.restarts_after(code) for subject, code in pairs):
        return "Running"
    return "Failed" if any(codes) else "Succeeded"


def _ended(at: Mapping[str, Any]) -> bool:
    return bool((at.get("lastState") or {}).get("terminated"))


def has_initialised(subject: Subject, at: Mapping[str, Any]) -> bool:
    """The next container may start after this init container."""
    if subject.is_sidecar:
        return bool(at.get("started"))
    return at["state"].get("terminated", {}).get("exitCode") == 0


def _conditions(
    pod: Mapping[str, Any], found: Statuses, phase: str, now: float, *, has_sandbox: bool
) -> list[Object]:
    old = {one["type"]: one for one in (pod.get("status") or {}).get("conditions") or ()}
    has_ended = phase in _TERMINAL
    ready = _ready(found.main, phase)
    own = {
        _FIRST: (has_sandbox and not has_ended, "", ""),
        "Initialized": _initialised(pod, found, phase),
        "Ready": ready if not ready[0] else _gates(pod, old),
        "ContainersReady": ready,
    }
    generation = pod["metadata"].get("generation", 1)
    made = [
        _condition(kind, *verdict, generation, old.get(kind), now) for kind, verdict in own.items()
    ]
    return [*made, *(one for kind, one in old.items() if kind not in own)]


Verdict = tuple[bool, str, str]
"""Whether a condition is true, with reason and message."""


def _initialised(pod: Mapping[str, Any], found: Statuses, phase: str) -> Verdict:
    specs = pod["spec"].get("initContainers") or ()
    subjects = [Subject.of(pod, one, is_init=True) for one in specs]
    pairs = list(zip(subjects, found.init, strict=True))
    incomplete = [one.name for one, at in pairs if not has_initialised(one, at)]
    if incomplete and phase != "Succeeded":
        names = " ".join(incomplete)
        message = f"containers with incomplete status: [{names}]"
        return False, "ContainersNotInitialized", message
    return True, "PodCompleted" if phase == "Succeeded" else "", ""


def _ready(main: Sequence[Mapping[str, Any]], phase: str) -> Verdict:
    if phase in _TERMINAL:
        return False, _TERMINAL[phase], ""
    unready = [at["name"] for at in main if not at["ready"]]
    if unready:
        return (
            False,
            "ContainersNotReady",
            f"containers with unready status: [{' '.join(unready)}]",
        )
    return True, "", ""


def _gates(pod: Mapping[str, Any], old: Mapping[str, Mapping[str, Any]]) -> Verdict:
    """Conditions of others that the pod wants to be true before it is ready."""
    for gate in pod["spec"].get("readinessGates") or ():
        kind = gate["conditionType"]
        if old.get(kind, {}).get("status") != "True":
            message = f'corresponding condition of pod readiness gate "{kind}" does not exist.'
            return False, "ReadinessGatesNotReady", message
    return True, "", ""


def _condition(
    kind: str,
    is_true: bool,
    reason: str,
    message: str,
    generation: int,
    before: Mapping[str, Any] | None,
    now: float,
) -> Object:
    text = "True" if is_true else "False"
    is_same = before is not None and before["status"] == text
    made: Object = {
        "type": kind,
        "status": text,
        "lastProbeTime": None,
        "lastTransitionTime": before["lastTransitionTime"] if before and is_same else stamp(now),
        "observedGeneration": generation,
    }
    return made | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})
