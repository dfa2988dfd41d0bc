"""The status of a pod from those of its containers, as a kubelet writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rack.cluster.api import Object
from rack.cluster.containers import stamp

_NOT_READY: Final = ("ContainersNotReady", "containers with unready status: [{}]")
_OWN: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
"""Conditions that only the kubelet writes."""
_NOT_INITIALISED: Final = ("ContainersNotInitialized", "containers with incomplete status: [{}]")


def status(
    pod: Mapping[str, Any],
    init: Sequence[Object],
    containers: Sequence[Object],
    *,
    has_sandbox: bool,
    address: str,
    host_address: str,
    now: float,
) -> Object:
    """The whole status.

    Args:
        pod: the pod, with its status until now.
        init: statuses of its init containers, in their order.
        containers: statuses of the others.
        has_sandbox: volumes, network and sandbox are there.
        address: the pod's address.
        host_address: its node's address.
        now: Unix time.
    """
    before = pod.get("status") or {}
    phase = _phase(pod, init, containers)
    found: Object = {
        "phase": phase,
        "conditions": _conditions(pod, init, containers, has_sandbox, phase, now),
        "hostIP": host_address,
        "hostIPs": [{"ip": host_address}],
        "startTime": before.get("startTime") or stamp(now),
        "containerStatuses": list(containers),
    }
    if init:
        found["initContainerStatuses"] = list(init)
    if has_sandbox:
        found["podIP"] = before.get("podIP") or address
        found["podIPs"] = [{"ip": found["podIP"]}]
    return found


def rejected(pod: Mapping[str, Any], reason: str, message: str, now: float) -> Object:
    """The status of a pod that its node does not take: nothing is said of containers any more."""
    known = (pod.get("status") or {}).get("conditions") or ()
    return {
        "phase": "Failed",
        "reason": reason,
        "message": message,
        "startTime": stamp(now),
        "conditions": [one for one in known if one["type"] not in _OWN],
        "containerStatuses": None,
        "initContainerStatuses": None,
    }


def is_initialised(init: Sequence[Object]) -> bool:
    """Every init container has ended well, or is a sidecar that runs."""
    return all(one["ready"] or one.get("started") for one in init)


def _phase(pod: Mapping[str, Any], init: Sequence[Object], containers: Sequence[Object]) -> str:
    policy = pod["spec"].get("restartPolicy", "Always")
    ends = [_exit_code(one) for one in containers]
    if not is_initialised(init):
        gave_up = policy == "Never" and any(_exit_code(one) not in (None, 0) for one in init)
        return "Failed" if gave_up else "Pending"
    if any("running" in one["state"] for one in containers):
        return "Running"
    if all(code is not None for code in ends):
        if policy == "Always":
            return "Running"
        if all(code == 0 for code in ends):
            return "Succeeded"
        return "Failed" if policy == "Never" else "Running"
    has_run = any(one.get("lastState") or code is not None
                  for one, code in zip(containers, ends, strict=True))  # fmt: skip
    return "Running" if has_run else "Pending"


def _exit_code(one: Mapping[str, Any]) -> int | None:
    ended = one["state"].get("terminated")
    return ended["exitCode"] if ended else None


def _conditions(
    pod: Mapping[str, Any],
    init: Sequence[Object],
    containers: Sequence[Object],
    has_sandbox: bool,
    phase: str,
    now: float,
) -> list[Object]:
    before = {one["type"]: one for one in (pod.get("status") or {}).get("conditions") or ()}
    is_done = phase == "Succeeded"
    unready = [one["name"] for one in containers if not one["ready"]]
    waiting = [one["name"] for one in init if not (one["ready"] or one.get("started"))]
    reason, text = ("PodCompleted", "") if is_done else _NOT_READY
    ready = (reason, text.format(" ".join(unready))) if unready else ("", "")
    not_initialised = (_NOT_INITIALISED[0], _NOT_INITIALISED[1].format(" ".join(waiting)))
    initialised = not_initialised if waiting else (("PodCompleted", "") if is_done else ("", ""))
    facts = {
        "PodReadyToStartContainers": (has_sandbox and phase in ("Pending", "Running"), ("", "")),
        "Initialized": (not waiting, initialised),
        "Ready": (not unready, ready),
        "ContainersReady": (not unready, ready),
    }
    found = [_condition(kind, *fact, before.get(kind), now) for kind, fact in facts.items()]
    return [*found, *(one for kind, one in before.items() if kind not in facts)]


def _condition(
    kind: str, holds: bool, why: tuple[str, str], before: Object | None, now: float
) -> Object:
    value = "True" if holds else "False"
    since = before["lastTransitionTime"] if before and before["status"] == value else stamp(now)
    found: Object = {
        "type": kind,
        "status": value,
        "lastProbeTime": None,
        "lastTransitionTime": since,
    }
    reason, message = why
    if reason:
        found["reason"] = reason
    if message:
        found["message"] = message
    return found
