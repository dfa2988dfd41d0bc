"""How a container's status goes on: pure, and all that a kubelet remembers is in the status itself.

A run of a container is named by the pod, the container, the number of the restart and the boot of
the machine; its identifier is made of these. So a kubelet that starts anew knows which runs are of
this boot, and which ended with the machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from rack.cluster.api import Object
from rack.cluster.pace import Pace
from rack.world.podtypes import ContainerOutcome

Policy = Literal["Always", "OnFailure", "Never"]

_KILLED_BY_REBOOT: Final = 255
"""Exit code of a container whose machine went away below it; the reason is Unknown."""
CRASH_LOOP: Final = "CrashLoopBackOff"
BACK_OFF_RESET_S: Final = 600.0
"""A container that ran this long begins to count anew."""


@dataclass(frozen=True)
class Subject:
    """A container in its pod."""

    uid: str
    """The pod's."""
    pod: str
    """The pod's name and namespace as kubelets write them, name_namespace(uid)."""
    name: str
    image: str
    policy: Policy
    """The pod's restart policy."""
    is_init: bool = False
    is_sidecar: bool = False

    @classmethod
    def of(cls, pod: Mapping[str, Any], spec: Mapping[str, Any], is_init: bool = False) -> Subject:
        """A container of a pod's specification."""
        meta = pod["metadata"]
        return cls(
            uid=meta["uid"],
            pod=f"{meta['name']}_{meta['namespace']}({meta['uid']})",
            name=spec["name"],
            image=spec["image"],
            policy=pod["spec"].get("restartPolicy", "Always"),
            is_init=is_init,
            is_sidecar=is_init and spec.get("restartPolicy") == "Always",
        )

    def restarts_after(self, exit_code: int) -> bool:
        """Whether the kubelet starts it again when it has ended so."""
        if self.is_sidecar:
            return True
        if self.is_init or self.policy == "OnFailure":
            return self.policy != "Never" and exit_code != 0
        return self.policy == "Always"


@dataclass(frozen=True)
class Moment:
    """Where and when a container is looked at."""

    boot: str
    now: float
    """Unix time."""
    pace: Pace


@dataclass(frozen=True)
class Run:
    """One run of a container that is under way, or about to begin."""

    number: int
    identity: str
    since: str | None
    """When it started; None where it begins now."""


@dataclass(frozen=True)
class Said:
    """An event about a container."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True)
class Step:
    """What a container has come to."""

    status: Object
    events: tuple[Said, ...] = ()
    due: float | None = None
    """Unix time at which to look again."""
    run: Run | None = None
    outcome: ContainerOutcome | None = None
    """What the run does, where there is one."""


Ask = Callable[[Run], ContainerOutcome]
"""What a run comes to."""


def identity(uid: str, name: str, number: int, boot: str) -> str:
    """Identifier of a run, as containerd writes it."""
    text = f"{uid}/{name}/{number}/{boot}"
    return f"containerd://{hashlib.sha256(text.encode()).hexdigest()}"


def image_id(image: str) -> str:
    """Identifier of an image, as containerd writes it."""
    return f"{image.partition('@')[0]}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"


def stamp(now: float) -> str:
    """A time as Kubernetes writes it."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(text: str) -> float:
    """Unix time of a time as Kubernetes writes it."""
    return datetime.fromisoformat(text).timestamp()


def is_of(subject: Subject, status: Mapping[str, Any], boot: str) -> bool:
    """The container's last run is of this boot."""
    number = status.get("restartCount", 0)
    return bool(status.get("containerID") == identity(subject.uid, subject.name, number, boot))


def creating(subject: Subject, before: Object | None, reason: str, now: float) -> Object:
    """A container whose pod has no sandbox yet; what ran before the reboot has ended."""
    status = _waiting(subject, before or {}, reason, "")
    running = (before or {}).get("state", {}).get("running")
    if running and before is not None:
        status["lastState"] = _lost(before, running["startedAt"], now)
    return status


def advance(subject: Subject, before: Object | None, moment: Moment, ask: Ask) -> Step:
    """The container's next status.

    Args:
        subject: the container.
        before: its status until now; None where it has none.
        moment: boot and time.
        ask: says what a run comes to; not called for a container that is done or waits.

    """
    known: Object = before or {}
    last = _ended(known)
    number = known.get("restartCount", 0)
    if "running" in known.get("state", {}) and is_of(subject, known, moment.boot):
        run = Run(number, known["containerID"], known["state"]["running"]["startedAt"])
        return _go_on(subject, known, run, ask(run), moment)
    if last is not None and is_of(subject, known, moment.boot):
        if not subject.restarts_after(last["exitCode"]):
            return Step(known)
        begins = seconds(last["finishedAt"]) + _back_off(number, last, moment.pace)
        if moment.now < begins:
            return _hold_back(subject, known, last, begins, moment.pace)
    elif _is_finished(subject, last, known):
        return Step(known)
    if known.get("containerID"):
        number += 1
    run = Run(number, identity(subject.uid, subject.name, number, moment.boot), None)
    return _begin(subject, known, run, ask(run), moment)


def _is_finished(subject: Subject, last: Object | None, known: Object) -> bool:
    """It ended in an earlier boot, and a new sandbox does not bring it back."""
    if last is None or subject.is_init or "terminated" not in known.get("state", {}):
        return False
    return not subject.restarts_after(last["exitCode"])


def _ended(known: Mapping[str, Any]) -> Object | None:
    """How the last run ended; None where it did not, or where there was none."""
    state = known.get("state", {})
    if "terminated" in state:
        found: Object = state["terminated"]
        return found
    if "running" in state or not known.get("containerID"):
        return None
    last: Object | None = (known.get("lastState") or {}).get("terminated")
    return last


def _back_off(number: int, last: Mapping[str, Any], pace: Pace) -> float:
    """Seconds until the next restart: none for the first, then doubling."""
    ran = seconds(last["finishedAt"]) - seconds(last["startedAt"])
    if number == 0 or ran > BACK_OFF_RESET_S:
        return 0.0
    return min(pace.first_back_off * 2.0 ** min(number - 1, 20), pace.longest_back_off)


def _hold_back(subject: Subject, known: Object, last: Object, begins: float, pace: Pace) -> Step:
    pause = _duration(_back_off(known.get("restartCount", 0), last, pace))
    message = f"back-off {pause} restarting failed container={subject.name} pod={subject.pod}"
    status = _waiting(subject, known, CRASH_LOOP, message)
    status["lastState"] = {"terminated": last}
    is_new = known.get("state", {}).get("waiting", {}).get("reason") != CRASH_LOOP
    text = f"Back-off restarting failed container {subject.name} in pod {subject.pod}"
    events = (Said("Warning", "BackOff", text),) if is_new else ()
    return Step(status, events, due=begins)


def _duration(pause: float) -> str:
    """Seconds as Go writes a duration."""
    minutes, rest = divmod(int(pause), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _go_on(
    subject: Subject, known: Object, run: Run, outcome: ContainerOutcome, moment: Moment
) -> Step:
    """A run that is under way: only its end changes anything."""
    if outcome.state != "exited":
        return Step(known, run=run, outcome=outcome)
    ended = _terminated(run, outcome, moment)
    status = _status(subject, known, {"terminated": ended}, run)
    status["lastState"] = known.get("lastState") or {}
    return Step(status, run=run, outcome=outcome, due=moment.now)


def _begin(
    subject: Subject, known: Object, run: Run, outcome: ContainerOutcome, moment: Moment
) -> Step:
    """A run that begins, if it does."""
    if outcome.state == "waiting":
        status = _waiting(subject, known, outcome.reason, outcome.message)
        if running := known.get("state", {}).get("running"):
            status["lastState"] = _lost(known, running["startedAt"], moment.now)
        return Step(status, _why_waiting(subject, known, outcome))
    if outcome.state == "running":
        state: Object = {"running": {"startedAt": stamp(moment.now)}}
    else:
        state = {"terminated": _terminated(run, outcome, moment)}
    status = _status(subject, known, state, run)
    status["lastState"] = _last_state(known, moment.now)
    due = moment.now if outcome.state == "exited" else None
    return Step(status, _started(subject, outcome), due, run, outcome)


def _last_state(known: Object, now: float) -> Object:
    state = known.get("state", {})
    if "running" in state:
        return _lost(known, state["running"]["startedAt"], now)
    if "terminated" in state:
        return {"terminated": state["terminated"]}
    return known.get("lastState") or {}


def _lost(known: Object, started: str, now: float) -> Object:
    """The end of a run that nobody saw end."""
    return {
        "terminated": {
            "exitCode": _KILLED_BY_REBOOT,
            "reason": "Unknown",
            "startedAt": started,
            "finishedAt": stamp(now),
            "containerID": known.get("containerID", ""),
        }
    }


def _terminated(run: Run, outcome: ContainerOutcome, moment: Moment) -> Object:
    ended = {
        "exitCode": outcome.exit_code,
        "reason": outcome.reason or ("Error" if outcome.exit_code else "Completed"),
        "startedAt": run.since or stamp(moment.now),
        "finishedAt": stamp(moment.now),
        "containerID": run.identity,
    }
    return {**ended, "message": outcome.message} if outcome.message else ended


def _status(subject: Subject, known: Object, state: Object, run: Run) -> Object:
    is_running = "running" in state
    has_succeeded = state.get("terminated", {}).get("exitCode") == 0
    return {
        "name": subject.name,
        "image": subject.image,
        "imageID": image_id(subject.image),
        "containerID": run.identity,
        "restartCount": run.number,
        "ready": is_running or (subject.is_init and has_succeeded),
        "started": is_running,
        "state": state,
        "lastState": {},
    }


def _waiting(subject: Subject, known: Object, reason: str, message: str) -> Object:
    waiting = {"reason": reason, "message": message} if message else {"reason": reason}
    return {
        "name": subject.name,
        "image": subject.image,
        "imageID": known.get("imageID", ""),
        "containerID": known.get("containerID", ""),
        "restartCount": known.get("restartCount", 0),
        "ready": False,
        "started": False,
        "state": {"waiting": waiting},
        "lastState": _last_ended(known),
    }


def _last_ended(known: Object) -> Object:
    ended = known.get("state", {}).get("terminated")
    return {"terminated": ended} if ended else known.get("lastState") or {}


def _started(subject: Subject, outcome: ContainerOutcome) -> tuple[Said, ...]:
    made = Said("Normal", "Created", f"Created container: {subject.name}")
    if outcome.reason == "StartError":
        return made, Said("Warning", "Failed", f"Error: {outcome.message}")
    return made, Said("Normal", "Started", f"Started container {subject.name}")


def _why_waiting(subject: Subject, known: Object, outcome: ContainerOutcome) -> tuple[Said, ...]:
    """Events of a container that cannot begin; once for each reason."""
    if known.get("state", {}).get("waiting", {}).get("reason") == outcome.reason:
        return ()
    if outcome.reason == "ImagePullBackOff":
        cause = outcome.message.partition("ErrImagePull: ")[2]
        return (
            Said("Warning", "Failed", f'Failed to pull image "{subject.image}": {cause}'),
            Said("Warning", "Failed", "Error: ErrImagePull"),
            Said("Normal", "BackOff", f'Back-off pulling image "{subject.image}"'),
            Said("Warning", "Failed", "Error: ImagePullBackOff"),
        )
    if outcome.reason == "CreateContainerConfigError":
        return (Said("Warning", "Failed", f"Error: {outcome.message}"),)
    return ()
