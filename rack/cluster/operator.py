"""The GPU Operator on the rack: watches the cluster and acts as long as its own pod runs.

The operator's program cannot be had, so the rack does its work on the real API server. Removal is
left to garbage collection: everything that it makes belongs to the ClusterPolicy.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Final

from urllib3.exceptions import HTTPError

from rack.cluster import node_features
from rack.cluster.api import Api, ApiError, Object
from rack.cluster.operator_reconcile import reconcile
from rack.cluster.operator_snapshot import Snapshot, labels, read
from rack.rack import Rack
from rack.settings import Settings
from rack.world.nodefacts import NodeFacts
from rack.world.operator import NFD_LABELS_MISSING, Status, wakes

LOG: Final = logging.getLogger(__name__)
LOOK_S: Final = 1.0
"""Pause between two readings of the cluster."""
REQUEUE_S: Final = 5.0
"""The operator looks again after this long while anything is not ready."""
POLL_S: Final = 45.0
"""The same while node feature discovery has labelled no node."""


class OperatorController:
    """Node feature discovery, GPU feature discovery, device plugin and operator, in one thread."""

    def __init__(self, rack: Rack, settings: Settings, look_s: float = LOOK_S) -> None:
        self._rack = rack
        self._kubeconfig = settings.kubeconfig
        self._look_s = look_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-operator", daemon=True)
        self._api: Api | None = None
        self._api_of: tuple[Path, float] | None = None
        self._seen: object = None
        """What the last reconciliation was about."""
        self._again_at = 0.0

    def start(self) -> None:
        """Begin to watch; the cluster need not be there yet."""
        self._thread.start()

    def stop(self) -> None:
        """End, in the middle of a reading at the latest."""
        self._stop.set()
        self._thread.join(timeout=15)

    def _run(self) -> None:
        while not self._stop.wait(self._look_s):
            try:
                self.look()
            except (ApiError, HTTPError, OSError) as error:
                # The cluster comes and goes; the next look finds out.
                LOG.debug("the operator's look at the cluster failed: %s", error)
            except Exception:
                LOG.exception("the simulated GPU Operator stumbled; it tries again")

    def look(self) -> None:
        """Read the cluster once and do what there is to do."""
        api = self._connect()
        if api is None:
            return
        with self._rack.lock() as world:
            facts = {node.name: node for node in world.nodes}
        self.act(api, facts)

    def act(self, api: Api, facts: dict[str, NodeFacts]) -> None:
        """Do what a cluster with these machines needs."""
        snapshot = read(api)
        node_features.apply(api, snapshot, facts)
        if snapshot.operator is None or not snapshot.operator_works or not snapshot.policies:
            self._seen = None
            return
        self._reconcile(api, snapshot, snapshot.operator["metadata"]["namespace"])

    def _reconcile(self, api: Api, snapshot: Snapshot, namespace: str) -> None:
        """Reconcile on an event of the policy, a node or an owned daemon set, and on time.

        A RuntimeClass is not among them: one that was deleted comes back at the next event.
        """
        policy = snapshot.policy
        if policy is None:
            return
        seen = _events(
            snapshot, policy, api.list(f"/apis/apps/v1/namespaces/{namespace}/daemonsets")
        )
        if seen == self._seen and time.monotonic() < self._again_at:
            return
        found = reconcile(api, snapshot, policy, namespace)
        self._seen = seen
        self._again_at = time.monotonic() + _pause(found)

    def _connect(self) -> Api | None:
        """The API server of the kubeconfig, anew when the file is another one."""
        try:
            made = self._kubeconfig, self._kubeconfig.stat().st_mtime
        except FileNotFoundError:
            self._api = self._api_of = None
            return None
        if made != self._api_of:
            self._api, self._api_of = Api(self._kubeconfig), made
            self._seen = None
        return self._api


def _pause(found: Status) -> float:
    """Seconds until the operator looks again without an event."""
    if found.state != "ready":
        return REQUEUE_S
    is_blind = any(one.reason == NFD_LABELS_MISSING for one in found.conditions)
    return POLL_S if is_blind else float("inf")


def _events(snapshot: Snapshot, policy: Object, sets: list[Object]) -> object:
    """What the operator is woken by, as a value that changes when it would be."""
    return (
        # A new pod of the operator begins with a reconciliation.
        sorted(pod["metadata"]["uid"] for pod in snapshot.operator_pods),
        policy["metadata"]["uid"],
        policy["metadata"]["generation"],
        sorted(
            (name, seen)
            for name, node in snapshot.nodes.items()
            if any(seen := wakes(labels(node)))
        ),
        sorted((one["metadata"]["name"], one["metadata"]["resourceVersion"]) for one in sets),
    )
