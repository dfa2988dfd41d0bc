"""The Kubernetes side of the rack: runs what the machines of the world say, and nothing else."""

from __future__ import annotations

import logging
import threading
from typing import Final

from urllib3.exceptions import HTTPError

from rack.authority import AuthorityError
from rack.cluster.api import Api, ApiError
from rack.cluster.control_plane import ControlPlane, wipe_etcd
from rack.cluster.kubelet import Kubelet
from rack.cluster.members import members
from rack.cluster.nodes import Nodes
from rack.cluster.operator import OperatorController
from rack.rack import Rack
from rack.settings import Settings
from rack.world.nodefacts import ClusterFacts

LOG: Final = logging.getLogger(__name__)
STARTING_LOOK_S: Final = 0.05
LOOK_S: Final = 1.0
"""Pause between two looks where the world does not change."""


class ClusterController:
    """One thread that owns the control plane, and the controllers that work on its API."""

    def __init__(self, rack: Rack, settings: Settings) -> None:
        self._rack = rack
        self._settings = settings
        self._control_plane: ControlPlane | None = None
        self._nodes: Nodes | None = None
        self._refused: ClusterFacts | None = None
        self._dead: frozenset[str] = frozenset()
        """Programs that a fault keeps from running."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cluster", daemon=True)
        self._controllers = (Kubelet(rack, settings), OperatorController(rack, settings))

    def start(self) -> None:
        """Begin; a cluster that was bootstrapped earlier comes up again by itself."""
        self._settings.kubeconfig.unlink(missing_ok=True)
        self._thread.start()
        for controller in self._controllers:
            controller.start()

    def stop(self) -> None:
        """End everything; etcd's data stays with the machine's disk."""
        self._stop.set()
        with self._rack.changed:
            self._rack.changed.notify_all()
        for controller in self._controllers:
            controller.stop()
        self._thread.join()

    def _run(self) -> None:
        # Every child is started by this thread: on Linux it would end with its thread.
        while not self._stop.is_set():
            try:
                self._look()
            except (ApiError, HTTPError, OSError) as error:
                LOG.debug("the API server does not answer: %s", error)
            except Exception:
                LOG.exception("the simulated rack's cluster stumbled; it tries again")
            self._wait()
        if self._control_plane is not None:
            self._control_plane.stop()

    def _wait(self) -> None:
        """Until the world changes, or a moment has passed."""
        is_starting = self._control_plane is not None and not self._control_plane.is_ready
        with self._rack.changed:
            if not self._stop.is_set():
                self._rack.changed.wait(STARTING_LOOK_S if is_starting else LOOK_S)

    def _look(self) -> None:
        with self._rack.lock() as world:
            cluster, machines = world.cluster, members(world)
            self._dead = frozenset(world.faults.dead_programs)
            disks = {system.etcd for vm in world.vms.values() for system in vm.systems.values()}
        self._follow(cluster)
        wipe_etcd(self._settings, disks)
        control_plane = self._control_plane
        if control_plane is None:
            return
        control_plane.look(self._is_dead)
        if control_plane.is_ready:
            if self._nodes is None:
                self._nodes = Nodes(Api(self._settings.kubeconfig), self._settings.ports.kubelet)
            self._nodes.report(machines, self._rack.now())

    def _follow(self, cluster: ClusterFacts | None) -> None:
        """Run the control plane of this cluster; stop that of any other."""
        running = self._control_plane
        if running is not None and running.facts != cluster:
            self._control_plane = self._nodes = None
            running.stop()
        if cluster is None or self._control_plane is not None or cluster == self._refused:
            return
        started = ControlPlane(self._settings, cluster)
        try:
            started.start()
        except AuthorityError as error:
            LOG.error(
                "the control plane of %s cannot start: its secrets hold %s", cluster.name, error
            )
            self._refused = cluster
        else:
            self._control_plane = started

    def _is_dead(self, program: str) -> bool:
        """A fault keeps this program from running."""
        return program in self._dead
