"""What a cluster was at one moment, and simple questions to that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gpu_passthrough.config import Stack
from gpu_passthrough.verify.cluster import GPU, Cluster, Object

COUNT: Final = "nvidia.com/gpu.count"
DONE = ("Succeeded", "Failed")
RECENT: Final = timedelta(minutes=15)
"""How far back restarts count."""


@dataclass(frozen=True)
class State:
    """Everything that the checks look at."""

    nodes: Mapping[str, Object]
    pods: list[Object]
    runtime_classes: Mapping[str, Object]
    policies: list[Object]
    daemon_sets: list[Object]
    """Of the operator's namespace."""
    deployments: list[Object]
    claims: list[Object]
    namespace: Object | None
    """The operator's."""
    reboot_events: list[Object]
    """What kubelets said within RECENT after a restart of their machine."""

    def reboots(self, node: str) -> int:
        """How often a machine restarted within RECENT."""
        return sum(
            int(one.get("count") or 1)
            for one in self.reboot_events
            if one["involvedObject"]["name"] == node
        )

    def pods_of(self, namespace: str, app: str) -> list[Object]:
        """Pods of an app that are not on their way out."""
        return [
            pod
            for pod in self._all_pods_of(namespace, app)
            if not pod["metadata"].get("deletionTimestamp")
            and pod["status"].get("phase") not in DONE
        ]

    def failed_pods_of(self, namespace: str, app: str) -> list[Object]:
        """Pods of an app that have failed and are still listed."""
        pods = self._all_pods_of(namespace, app)
        return [pod for pod in pods if pod["status"].get("phase") == "Failed"]

    def _all_pods_of(self, namespace: str, app: str) -> list[Object]:
        return [
            pod
            for pod in self.pods
            if pod["metadata"]["namespace"] == namespace
            and (pod["metadata"].get("labels") or {}).get("app.kubernetes.io/name") == app
        ]

    def deployment(self, namespace: str, name: str) -> Object | None:
        """A Deployment; None where there is none."""
        wanted = (namespace, name)
        return next(
            (
                one
                for one in self.deployments
                if (one["metadata"]["namespace"], one["metadata"]["name"]) == wanted
            ),
            None,
        )

    def free(self, node: str) -> int:
        """GPUs of a node that no pod claims."""
        taken = sum(
            claimed(pod)
            for pod in self.pods
            if pod["spec"].get("nodeName") == node and pod["status"].get("phase") not in DONE
        )
        return max(allocatable(self.nodes[node]) - taken, 0)

    def holders(self, node: str) -> list[Object]:
        """Running pods of a node that claim a GPU."""
        return [
            pod
            for pod in self.pods
            if pod["spec"].get("nodeName") == node and claimed(pod) and is_ready(pod)
        ]


def cards_by_node(stack: Stack, state: State) -> dict[str, int]:
    """GPU nodes with their cards: as the stack says, or as the cluster does where it says none."""
    if stack.members:
        return {name: len(machine.gpus) for name, machine in stack.gpu_nodes.items()}
    found = {name: card_count(node, stack.slots_per_card) for name, node in state.nodes.items()}
    return {name: count for name, count in found.items() if count}


def read(cluster: Cluster, operator_namespace: str) -> State:
    """Ask for everything once."""
    return State(
        nodes=_named(cluster.items("/api/v1/nodes")),
        pods=cluster.items("/api/v1/pods"),
        runtime_classes=_named(cluster.items("/apis/node.k8s.io/v1/runtimeclasses")),
        policies=cluster.items("/apis/nvidia.com/v1/clusterpolicies"),
        daemon_sets=cluster.items(f"/apis/apps/v1/namespaces/{operator_namespace}/daemonsets"),
        deployments=cluster.items("/apis/apps/v1/deployments"),
        claims=cluster.items("/api/v1/persistentvolumeclaims"),
        namespace=cluster.get(f"/api/v1/namespaces/{operator_namespace}"),
        reboot_events=[
            one
            for one in cluster.items("/api/v1/events?fieldSelector=reason%3DRebooted")
            if _is_recent(one)
        ],
    )


def _is_recent(event: Object) -> bool:
    last = str(event.get("lastTimestamp") or event["metadata"]["creationTimestamp"])
    return datetime.now(UTC) - datetime.fromisoformat(last) < RECENT


def _named(objects: Iterable[Object]) -> dict[str, Object]:
    return {one["metadata"]["name"]: one for one in objects}


def claimed(pod: Mapping[str, Any]) -> int:
    """GPUs that a pod claims, under the usual name or the shared one, as the scheduler counts.

    Init containers that stay (restartPolicy Always) add to the containers; of the others only the
    largest counts, because they run one after the other.
    """
    spec = pod["spec"]
    first = spec.get("initContainers") or ()
    stay = [one for one in first if one.get("restartPolicy") == "Always"]
    running = sum(_limit(one) for one in (*spec["containers"], *stay))
    return max([running, *(_limit(one) for one in first if one not in stay)])


def _limit(container: Mapping[str, Any]) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return sum(int(limits.get(name, 0)) for name in (GPU, f"{GPU}.shared"))


def allocatable(node: Mapping[str, Any]) -> int:
    """GPUs that a node offers."""
    offered = (node.get("status") or {}).get("allocatable") or {}
    return sum(int(offered.get(name, 0)) for name in (GPU, f"{GPU}.shared"))


def card_count(node: Mapping[str, Any], slots: int = 1) -> int:
    """Cards of a node: as GFD counted them, else as they are offered, in slots of a card each."""
    counted = str((node["metadata"].get("labels") or {}).get(COUNT) or "")
    if counted.isdecimal():
        return int(counted)
    capacity = (node.get("status") or {}).get("capacity") or {}
    return sum(int(capacity.get(name) or 0) for name in (GPU, f"{GPU}.shared")) // slots


def gpu_container(pod: Mapping[str, Any]) -> str:
    """The first container that claims a GPU; empty where none does."""
    spec = pod["spec"]
    containers = (*spec["containers"], *(spec.get("initContainers") or ()))
    return next((one["name"] for one in containers if _claims(one)), "")


def _claims(container: Mapping[str, Any]) -> bool:
    limits = (container.get("resources") or {}).get("limits") or {}
    return any(name.startswith(GPU) and str(n) != "0" for name, n in limits.items())


def is_ready(thing: Mapping[str, Any]) -> bool:
    """The condition Ready is true."""
    conditions = (thing.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
