"""The kubelets of all machines, in one thread: they are told by watches and look again on time."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Final

from urllib3.exceptions import HTTPError

from rack.cluster import volumes
from rack.cluster.api import Api, ApiError, Object
from rack.cluster.commands import Commands
from rack.cluster.devices import Devices
from rack.cluster.events import Events
from rack.cluster.listeners import CHECKPOINT
from rack.cluster.members import members
from rack.cluster.pod_sync import PodSync
from rack.cluster.streaming.server import KubeletServer
from rack.cluster.surroundings import Surroundings
from rack.rack import Rack
from rack.settings import Settings
from rack.world.nodefacts import NodeFacts

LOG: Final = logging.getLogger(__name__)
LOOK_S: Final = 0.5
"""Longest pause between two looks: machines come and go without an event of the API server."""
SETTLE_S: Final = 0.02
"""What comes together is looked at together."""
AGAIN_S: Final = 1.0
"""Pause after a pod whose status could not be written."""


class Kubelet:
    """All kubelets of a rack; the cluster comes and goes."""

    def __init__(self, rack: Rack, settings: Settings) -> None:
        self._rack = rack
        self._settings = settings
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self._cluster: _Cluster | None = None

    def start(self) -> None:
        """Begin; the cluster need not be there yet."""
        self._thread.start()

    def stop(self) -> None:
        """End; the pods stay as they are."""
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout=15)

    def _run(self) -> None:
        pause = LOOK_S
        while not self._stop.is_set():
            self._wake.wait(pause)
            self._stop.wait(SETTLE_S)
            self._wake.clear()
            pause = LOOK_S
            try:
                pause = self._look()
            except (ApiError, HTTPError, OSError) as error:
                LOG.debug("the kubelets' look at the cluster failed: %s", error)
            except Exception:
                LOG.exception("the simulated rack's kubelets stumbled; they try again")
        if self._cluster is not None:
            self._cluster.close()

    def _look(self) -> float:
        """Look at every pod once; seconds until the next look."""
        cluster = self._connect()
        if cluster is None or not cluster.around.is_complete:
            return LOOK_S
        with self._rack.lock() as world:
            machines = {node.name: node for node in members(world)}
        due = cluster.look(machines, self._rack.now())
        return LOOK_S if due is None else min(LOOK_S, max(due - self._rack.now(), 0.0))

    def _connect(self) -> _Cluster | None:
        """The cluster of the kubeconfig, anew when the file is another one."""
        try:
            made = self._settings.kubeconfig.stat().st_mtime
        except FileNotFoundError:
            made = 0.0
        if self._cluster is not None and self._cluster.made != made:
            self._cluster.close()
            self._cluster = None
        if made and self._cluster is None:
            self._cluster = _Cluster(self._settings, made, self._wake)
        return self._cluster


class _Cluster:
    """One API server and what is known of it."""

    def __init__(self, settings: Settings, made: float, wake: threading.Event) -> None:
        self.made = made
        self._api = Api(Path(settings.kubeconfig))
        volumes.install(self._api)
        self.around = Surroundings(self._api, wake.set)
        devices = Devices(settings.kubernetes_home / CHECKPOINT)
        self._events = Events(self._api)
        self._pods = PodSync(
            self._api, self._events, settings, self.around, devices, Commands(wake.set)
        )
        self._in_use: dict[str, list[str]] = {}
        self._boots: dict[str, str] = {}
        """Boot of each node's machine that was seen last."""
        self._up: frozenset[str] = frozenset()
        """Nodes whose machines run."""
        self._server = KubeletServer(settings, self._api, lambda node: node in self._up)
        self._server.start()
        self.around.start()

    def close(self) -> None:
        """Watch no longer, answer no longer."""
        self._server.stop()
        self.around.stop()

    def look(self, machines: dict[str, NodeFacts], now: float) -> float | None:
        """Serve volumes and pods; Unix time of the next look."""
        self._up = frozenset(machines)
        around = self.around
        volumes.serve(
            self._api, around.all("claims"), around.all("volumes"), around.all("attachments")
        )
        pods = [one for one in around.all("pods") if one["spec"].get("nodeName")]
        uids = {one["metadata"]["uid"] for one in pods}
        self._pods.forget(uids)
        dues: list[float] = []
        for name, node in machines.items():
            self._begin_boot(node, now)
            mine = [one for one in pods if one["spec"]["nodeName"] == name]
            dues += self._look_at(mine, node, uids, now)
            self._report_volumes(name, mine)
        return min(dues, default=None)

    def _begin_boot(self, node: NodeFacts, now: float) -> None:
        """Tell of a reboot; the node offers no GPUs until its device plugin registers again."""
        known = self._boots.get(node.name, node.boot_id)
        self._boots[node.name] = node.boot_id
        if known == node.boot_id:
            return
        message = f"Node {node.name} has been rebooted, boot id: {node.boot_id}"
        self._events.record_of_node(node.name, "Warning", "Rebooted", message, now)
        offered = self.around.gpu_resources(node.name)
        if any(offered.values()):
            none = dict.fromkeys(offered, "0")
            change = {"status": {"capacity": none, "allocatable": none}}
            self.around.put("nodes", self._api.merge(f"/api/v1/nodes/{node.name}/status", change))

    def _look_at(
        self, pods: list[Object], node: NodeFacts, uids: set[str], now: float
    ) -> list[float]:
        """Every pod of a node; again at once where one has told the others something."""
        markers = self._pods.markers(node, uids)
        dues = [due for pod in pods if (due := self._one(pod, node, markers, now)) is not None]
        if self._pods.markers(node, uids) != markers:
            dues.append(now)
        return dues

    def _one(
        self, pod: Object, node: NodeFacts, markers: frozenset[str], now: float
    ) -> float | None:
        try:
            return self._pods.look(pod, node, markers, now)
        except ApiError as error:
            # Gone, or changed by somebody else: the watch tells.
            LOG.debug("pod %s: %s", pod["metadata"]["name"], error)
            return now + AGAIN_S

    def _report_volumes(self, node: str, pods: list[Object]) -> None:
        """Say in the node's status which volumes are mounted: others are safe to detach."""
        mounted = volumes.in_use(
            one["spec"]["volumeName"]
            for one in self.around.all("claims")
            if one["spec"].get("volumeName")
            and any(
                one["metadata"]["namespace"] == pod["metadata"]["namespace"]
                and one["metadata"]["name"] in volumes.claims_of(pod)
                and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
                for pod in pods
            )
        )
        if mounted != self._in_use.get(node, []):
            change = {"status": {"volumesInUse": mounted or None}}
            self._api.merge(f"/api/v1/nodes/{node}/status", change)
            self._in_use[node] = mounted
