"""What the operator's controller reads from the cluster in one go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from rack.cluster.api import Api, Object
from rack.world.images import repository_and_tag

POLICIES: Final = "/apis/nvidia.com/v1/clusterpolicies"
OPERATOR: Final = "gpu-operator"
"""Name of the operator's Deployment in every release of the chart."""
_NFD_MASTER: Final = "app.kubernetes.io/name=node-feature-discovery,role=master"
_NFD_WORKER: Final = ("app.kubernetes.io/name", "node-feature-discovery")


@dataclass(frozen=True)
class Snapshot:
    """One reading of the cluster."""

    nodes: dict[str, Object]
    pods: list[Object]
    policies: list[Object]
    operator: Object | None
    """The operator's Deployment."""
    nfd_master: Object | None
    """The Deployment of node feature discovery's master."""

    @property
    def policy(self) -> Object | None:
        """The ClusterPolicy that counts: the oldest one."""
        return min(
            self.policies,
            key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]),
            default=None,
        )

    @property
    def operator_works(self) -> bool:
        """The operator's own pod runs."""
        return is_available(self.operator)

    @property
    def operator_pods(self) -> list[Object]:
        """Ready pods of the operator's Deployment."""
        selector = (self.operator or {}).get("spec", {}).get("selector", {})
        wanted = selector.get("matchLabels", {}).items()
        if self.operator is None or not wanted:
            return []
        namespace = self.operator["metadata"]["namespace"]
        return [
            pod
            for pod in self.pods
            if pod["metadata"]["namespace"] == namespace
            and wanted <= labels(pod).items()
            and is_ready(pod)
        ]

    def ready_pod(self, node: str, container: str, image: str) -> Object | None:
        """A ready pod of a node with such a container of such an image.

        `container` is how the container's name begins, `image` how the repository's name ends.
        """
        for pod in self.pods:
            if pod["spec"].get("nodeName") == node and is_ready(pod):
                for one in pod["spec"]["containers"]:
                    repository, _ = repository_and_tag(one["image"])
                    if one["name"].startswith(container) and repository.endswith(image):
                        return pod
        return None

    def has_nfd_worker(self, node: str) -> bool:
        """Node feature discovery's worker runs on the node."""
        key, value = _NFD_WORKER
        return any(
            pod["spec"].get("nodeName") == node
            and is_ready(pod)
            and labels(pod).get(key) == value
            and labels(pod).get("role") == "worker"
            for pod in self.pods
        )


def read(api: Api) -> Snapshot:
    """Read what there is."""
    deployments = "/apis/apps/v1/deployments"
    operators = api.list(f"{deployments}?fieldSelector=metadata.name%3D{OPERATOR}")
    masters = api.list(f"{deployments}?labelSelector={_NFD_MASTER.replace('=', '%3D')}")
    return Snapshot(
        nodes={node["metadata"]["name"]: node for node in api.list("/api/v1/nodes")},
        pods=api.list("/api/v1/pods"),
        policies=api.list(POLICIES),
        operator=next(iter(operators), None),
        nfd_master=next(iter(masters), None),
    )


def labels(thing: Object) -> dict[str, str]:
    """Labels of an object."""
    return thing["metadata"].get("labels") or {}


def is_available(deployment: Object | None) -> bool:
    """At least one pod of the Deployment serves."""
    return bool(deployment and (deployment.get("status") or {}).get("availableReplicas"))


def is_ready(pod: Object) -> bool:
    """The pod's condition Ready is true, and it is not on its way out."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions: list[dict[str, Any]] = (pod.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
