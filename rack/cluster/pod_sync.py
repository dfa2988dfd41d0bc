"""One pod on one node: from its assignment to its end, as its kubelet takes it there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rack.cluster import podlogs
from rack.cluster.api import Api, Object
from rack.cluster.commands import Commands
from rack.cluster.containers import Moment, Run, Step, Subject, advance, creating, is_of
from rack.cluster.crds import CrdJobs
from rack.cluster.devices import Devices
from rack.cluster.events import Events
from rack.cluster.pace import PACES
from rack.cluster.pod_status import is_initialised, rejected, status
from rack.cluster.references import missing_variable, missing_volume
from rack.cluster.surroundings import Surroundings
from rack.cluster.volumes import waits_for_attachment
from rack.files import private_folder, write_private
from rack.settings import Settings
from rack.world.nodefacts import NodeFacts
from rack.world.pod import admit, start
from rack.world.podtypes import ContainerOutcome, PodContext, PodOutcome, Rejection

CREATING: Final = "ContainerCreating"
INITIALISING: Final = "PodInitializing"
RETRY_S: Final = 2.0
"""A pod that cannot start is looked at again after this long at the latest."""


@dataclass
class Memory:
    """What is remembered of a pod between two looks."""

    markers: frozenset[str] = frozenset()
    """Files that the pod has put into its node's folder of validations."""
    seen: frozenset[str] = frozenset()
    """Such files of any pod that were there while this one ran: who waited for one has passed."""
    boot: str = ""
    """Boot of the machine in which it ran."""
    sandbox: PodContext | None = None
    """What the pod was admitted with in this boot: handlers and devices stay as they were then,
    whatever becomes of the RuntimeClass or the device plugin. None while it has no sandbox."""
    view: str = ""
    """What programs in the pod see, as it was written."""
    ends_at: float = 0.0
    """Unix time at which its containers have ended, where it was told to."""
    logged: dict[str, tuple[str, int]] | None = None
    """Run and number of lines in the log, by container."""


class PodSync:
    """All pods of one API server."""

    def __init__(
        self,
        api: Api,
        events: Events,
        settings: Settings,
        around: Surroundings,
        devices: Devices,
        commands: Commands,
    ) -> None:
        self._api = api
        self._settings = settings
        self._around = around
        self._devices = devices
        self._commands = commands
        self._events = events
        self._crd_jobs = CrdJobs(api, settings.chart_packages)
        self._pace = PACES[settings.latency]
        self._memory: dict[str, Memory] = {}

    def markers(self, node: NodeFacts, uids: set[str]) -> frozenset[str]:
        """Files in the folder of validations of a node, from pods that are there now."""
        found = [
            memory.markers
            for uid, memory in self._memory.items()
            if uid in uids and memory.boot == node.boot_id
        ]
        return frozenset().union(*found)

    def look(
        self, pod: Object, node: NodeFacts, markers: frozenset[str], now: float
    ) -> float | None:
        """Take a pod one step further; Unix time of the next look, None where nothing is due."""
        meta = pod["metadata"]
        if meta.get("deletionTimestamp"):
            return self._end(pod, now)
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            self._devices.release(meta["uid"])
            self._memory.setdefault(meta["uid"], Memory()).markers = frozenset()
            return None
        memory = self._memory.setdefault(meta["uid"], Memory())
        if memory.boot != node.boot_id:
            self._memory[meta["uid"]] = memory = Memory(boot=node.boot_id)
        memory.seen |= markers
        around = self._around.context(node.name)
        if memory.sandbox is None:
            context = self._admission(pod, node, around)
            refusal = None if _runs(pod, node.boot_id) else self._refusal(pod, node, context)
            if refusal is not None:
                return self._refuse(pod, node, refusal, now)
            memory.sandbox = context
        update = {"markers": memory.seen, "gpu_capacity": around.gpu_capacity}
        return self._run(pod, node, memory.sandbox.model_copy(update=update), memory, now)

    def forget(self, uids: set[str]) -> None:
        """Remove what is left of pods that are gone; `uids` are those that are there."""
        for uid in self._memory.keys() - uids:
            del self._memory[uid]
            self._events.forget(uid)
        self._devices.keep_only(uids)
        podlogs.keep_only(self._settings, uids)
        folder = self._settings.pods_home
        for file in folder.iterdir() if folder.exists() else ():
            if file.suffix == ".json" and file.stem not in uids:
                file.unlink(missing_ok=True)

    def _end(self, pod: Object, now: float) -> float | None:
        """Stop the containers and tell the API server that the pod is gone."""
        meta = pod["metadata"]
        asked = meta.get("deletionGracePeriodSeconds") or 0
        memory = self._memory.setdefault(meta["uid"], Memory())
        memory.ends_at = memory.ends_at or now + min(self._pace.stop, asked)
        if now < memory.ends_at:
            return memory.ends_at
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        self._api.delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", options)
        return None

    def _admission(self, pod: Object, node: NodeFacts, around: PodContext) -> PodContext:
        """What the pod is admitted with.

        Without a registered device plugin there are no devices, not even those that the pod had
        before the machine's reboot. A pod that survived the kubelet keeps what it has.
        """
        if around.gpu_capacity == 0 and not _runs(pod, node.boot_id):
            return around
        gpus = [gpu.uuid for gpu in node.driver.gpus] if node.driver else []
        replicas = self._around.sharing(node.name).replicas
        return around.model_copy(update={"gpus": self._devices.of(pod, gpus, replicas)})

    def _refusal(self, pod: Object, node: NodeFacts, context: PodContext) -> Rejection | None:
        """Why the pod has no sandbox yet."""
        volume, message = missing_volume(pod, self._around.references(pod["metadata"]["namespace"]))
        if volume:
            text = f'MountVolume.SetUp failed for volume "{volume}" : {message}'
            return Rejection(reason="FailedMount", message=text, is_final=False)
        if not self._around.pod_network(node.name):
            return Rejection(reason="", message="", is_final=False)
        claims, attachments = self._around.all("claims"), self._around.all("attachments")
        if waits_for_attachment(pod, claims, attachments):
            return Rejection(reason="", message="", is_final=False)
        return admit(pod, node, context.runtime_classes, context)

    def _refuse(self, pod: Object, node: NodeFacts, refusal: Rejection, now: float) -> float | None:
        if refusal.reason:
            self._events.record(pod, "Warning", refusal.reason, refusal.message, now)
        if refusal.is_final:
            self._write(pod, rejected(pod, refusal.reason, refusal.message, now))
            self._devices.release(pod["metadata"]["uid"])
            return None
        self._write_creating(pod, node, now)
        return now + RETRY_S

    def _write_creating(self, pod: Object, node: NodeFacts, now: float) -> None:
        has_init = bool(pod["spec"].get("initContainers"))
        known = _statuses(pod)
        parts = {
            part: [
                creating(
                    Subject.of(pod, spec, is_init=part == "initContainers"),
                    known.get(spec["name"]),
                    INITIALISING if has_init else CREATING,
                    now,
                )
                for spec in pod["spec"].get(part) or ()
            ]
            for part in ("initContainers", "containers")
        }
        self._write(
            pod,
            status(
                pod,
                parts["initContainers"],
                parts["containers"],
                has_sandbox=False,
                address="",
                host_address=node.address,
                now=now,
            ),
        )

    def _run(
        self, pod: Object, node: NodeFacts, context: PodContext, memory: Memory, now: float
    ) -> float | None:
        outcome = start(pod, node, context)
        self._show(pod, outcome, memory)
        moment = Moment(boot=node.boot_id, now=now, pace=self._pace)
        look = _Look(self, pod, outcome, moment)
        init = look.init_steps()
        is_ready = is_initialised([step.status for step in init])
        mains = look.main_steps(is_ready)
        steps = [*init, *mains]
        for step in steps:
            self._log(pod["metadata"]["uid"], step, memory)
            for said in step.events:
                self._events.record(pod, said.type, said.reason, said.message, now)
        memory.markers = outcome.markers
        self._write(
            pod,
            status(
                pod,
                [step.status for step in init],
                [step.status for step in mains],
                has_sandbox=True,
                address=self._address(pod, node),
                host_address=node.address,
                now=now,
            ),
        )
        dues = [step.due for step in steps if step.due is not None]
        if outcome.retry_after is not None:
            dues.append(now + outcome.retry_after)
        return min(dues, default=None)

    def ask(
        self, pod: Object, spec: Mapping[str, Any], outcome: PodOutcome, run: Run
    ) -> ContainerOutcome:
        """What a run of a container comes to."""
        known = self._around.references(pod["metadata"]["namespace"])
        if message := missing_variable(spec, known):
            return ContainerOutcome(
                state="waiting", reason="CreateContainerConfigError", message=message
            )
        name = spec["name"]
        asked = outcome.init.get(name) or outcome.containers[name]
        if asked.state == "exited" and (done := self._crd_jobs.outcome(spec)) is not None:
            return done
        return self._commands.outcome(run.identity, outcome.view, name, asked)

    def _show(self, pod: Object, outcome: PodOutcome, memory: Memory) -> None:
        """Let programs in the pod see what it is, before it runs."""
        view = outcome.view.model_dump_json()
        if view == memory.view:
            return
        private_folder(self._settings.pods_home)
        write_private(self._settings.pods_home / f"{pod['metadata']['uid']}.json", view)
        memory.view = view

    def _log(self, uid: str, step: Step, memory: Memory) -> None:
        if step.run is None or step.outcome is None or step.outcome.state == "waiting":
            return
        memory.logged = memory.logged or {}
        name, lines = step.status["name"], step.outcome.log_lines
        run, count = memory.logged.get(name, ("", 0))
        if run != step.run.identity:
            podlogs.begin(self._settings, uid, name, lines)
        elif len(lines) > count:
            podlogs.extend(self._settings, uid, name, lines[count:])
        memory.logged[name] = step.run.identity, max(len(lines), count if run else 0)

    def _address(self, pod: Object, node: NodeFacts) -> str:
        """An address of the node's range that no other pod has."""
        if pod["spec"].get("hostNetwork"):
            return node.address
        pods = [one for one in self._around.all("pods") if one["spec"].get("nodeName") == node.name]
        taken = {(one.get("status") or {}).get("podIP") for one in pods}
        _gateway, *others = self._around.pod_network(node.name)
        return next(one for one in others if one not in taken)

    def _write(self, pod: Object, wanted: Object) -> None:
        """Write the status where it differs."""
        before = pod.get("status") or {}
        if all(before.get(key) == value for key, value in wanted.items()):
            return
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
        written = self._api.merge(path, {"metadata": {"uid": meta["uid"]}, "status": wanted})
        self._around.put("pods", written)


@dataclass
class _Look:
    """One look at the containers of a pod."""

    sync: PodSync
    pod: Object
    outcome: PodOutcome
    moment: Moment

    def init_steps(self) -> list[Step]:
        """Init containers, one after the other until one has not ended well."""
        steps: list[Step] = []
        for spec in self.pod["spec"].get("initContainers") or ():
            if is_initialised([step.status for step in steps]):
                steps.append(self._advance(spec, is_init=True))
            else:
                steps.append(self._hold(spec, is_init=True))
        return steps

    def main_steps(self, is_ready: bool) -> list[Step]:
        """The others, once the init containers have ended."""
        specs = self.pod["spec"]["containers"]
        return [self._advance(spec) if is_ready else self._hold(spec) for spec in specs]

    def _advance(self, spec: Mapping[str, Any], is_init: bool = False) -> Step:
        subject = Subject.of(self.pod, spec, is_init)
        known = _statuses(self.pod).get(spec["name"])
        return advance(
            subject,
            known,
            self.moment,
            lambda run: self.sync.ask(self.pod, spec, self.outcome, run),
        )

    def _hold(self, spec: Mapping[str, Any], is_init: bool = False) -> Step:
        subject = Subject.of(self.pod, spec, is_init)
        known = _statuses(self.pod).get(spec["name"])
        return Step(creating(subject, known, INITIALISING, self.moment.now))


def _runs(pod: Object, boot: str) -> bool:
    """The pod was started in this boot of its machine already: the daemon came back, not it."""
    known = _statuses(pod)
    return any(
        spec["name"] in known
        and is_of(Subject.of(pod, spec, part == "initContainers"), known[spec["name"]], boot)
        for part in ("initContainers", "containers")
        for spec in pod["spec"].get(part) or ()
    )


def _statuses(pod: Object) -> dict[str, Object]:
    known = pod.get("status") or {}
    return {
        one["name"]: one
        for part in ("initContainerStatuses", "containerStatuses")
        for one in known.get(part) or ()
    }
