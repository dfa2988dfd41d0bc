"""What a kubelet knows besides the pod: the cluster as it was last told."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network
from typing import Any, Final

from rack.cluster.api import Api, Object
from rack.cluster.mirror import Mirror
from rack.cluster.operator_snapshot import POLICIES, labels
from rack.cluster.references import Reference
from rack.world.operator import device_list_strategy
from rack.world.podtypes import PodContext
from rack.world.sharing import NO_SHARING, Sharing, sharing

_PATHS: Final = {
    "pods": "/api/v1/pods",
    "nodes": "/api/v1/nodes",
    "configmaps": "/api/v1/configmaps",
    "secrets": "/api/v1/secrets",
    "claims": "/api/v1/persistentvolumeclaims",
    "volumes": "/api/v1/persistentvolumes",
    "attachments": "/apis/storage.k8s.io/v1/volumeattachments",
    "runtime_classes": "/apis/node.k8s.io/v1/runtimeclasses",
    "policies": POLICIES,
}


class Surroundings:
    """Mirrors of everything that matters to a kubelet."""

    def __init__(self, api: Api, changed: Callable[[], None]) -> None:
        self._mirrors = {name: Mirror(api, path, changed) for name, path in _PATHS.items()}

    def start(self) -> None:
        """Begin to watch."""
        for mirror in self._mirrors.values():
            mirror.start()

    def stop(self) -> None:
        """End."""
        for mirror in self._mirrors.values():
            mirror.stop()

    @property
    def is_complete(self) -> bool:
        """Everything that there was at the beginning is known."""
        return all(mirror.is_complete.is_set() for mirror in self._mirrors.values())

    def all(self, what: str) -> list[Object]:
        """Every object of one of the collections."""
        return self._mirrors[what].all()

    def put(self, what: str, written: Object) -> None:
        """Remember an object of a collection as it was just written."""
        self._mirrors[what].put(written)

    def gpu_resources(self, node: str) -> dict[str, int]:
        """The node's capacity of every GPU resource."""
        capacity = (self._node(node).get("status") or {}).get("capacity") or {}
        return {name: int(n) for name, n in capacity.items() if name.startswith("nvidia.com/gpu")}

    def references(self, namespace: str) -> set[Reference]:
        """ConfigMaps and Secrets of a namespace."""
        return {
            (kind, one["metadata"]["name"])
            for kind, what in (("configmap", "configmaps"), ("secret", "secrets"))
            for one in self.all(what)
            if one["metadata"]["namespace"] == namespace
        }

    def sharing(self, node: str) -> Sharing:
        """How the cards of a node are offered."""
        policy = self._policy()
        if policy is None:
            return NO_SHARING
        named = (policy["spec"].get("devicePlugin") or {}).get("config") or {}
        name = named.get("name")
        maps = (one for one in self.all("configmaps") if one["metadata"]["name"] == name)
        config: dict[str, str] = next(maps, {}).get("data") or {}
        return sharing(policy, config, labels(self._node(node)))

    def pod_network(self, node: str) -> list[str]:
        """Addresses that pods of a node can have; none before the node has its range."""
        network = (self._node(node).get("spec") or {}).get("podCIDR")
        return [str(one) for one in ip_network(network).hosts()] if network else []

    def context(self, node: str) -> PodContext:
        """What is the same for all pods of a node."""
        policy = self._policy()
        strategy = {"device_list_strategy": device_list_strategy(policy)} if policy else {}
        return PodContext(
            runtime_classes={
                one["metadata"]["name"]: one["handler"] for one in self.all("runtime_classes")
            },
            gpu_capacity=sum(self.gpu_resources(node).values()),
            largest_claim=self.sharing(node).largest_claim,
            **strategy,
        )

    def _policy(self) -> Object | None:
        return min(
            self.all("policies"),
            key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]),
            default=None,
        )

    def _node(self, name: str) -> Any:
        found = (one for one in self.all("nodes") if one["metadata"]["name"] == name)
        return next(found, {"metadata": {}})
