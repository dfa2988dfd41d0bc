"""Labels and GPU capacity of the nodes: what discovery and the device plugin find there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from rack.cluster.api import Api, Object
from rack.cluster.operator_snapshot import Snapshot, is_available, labels
from rack.world import gfd
from rack.world.images import repository_and_tag
from rack.world.injection import HANDLER
from rack.world.nodefacts import NodeFacts
from rack.world.operator import NFD_PREFIX, nfd_labels
from rack.world.sharing import NO_SHARING, RESOURCE, Sharing, sharing

OWNED: Final = "nfd.node.kubernetes.io/feature-labels"
"""Annotation in which node feature discovery keeps the names of its labels."""
PLUGIN_IMAGE: Final = "/k8s-device-plugin"
PLAIN_PLUGIN: Final = "nvidia-device-plugin-ctr"
"""Container of the device plugin's own chart, which is the way on Talos before 1.13."""


def discovered(
    node: Object, facts: NodeFacts | None, snapshot: Snapshot, shared: Sharing
) -> dict[str, str] | None:
    """The labels that discovery wants on a node; None where nobody looks at the moment.

    Without node feature discovery there are none: uninstalling it takes them away.
    """
    if snapshot.nfd_master is None:
        return {}
    name = node["metadata"]["name"]
    is_looking = is_available(snapshot.nfd_master) and snapshot.has_nfd_worker(name)
    if facts is None or not is_looking:
        return None
    found = nfd_labels(facts)
    pod = snapshot.ready_pod(name, "gpu-feature-discovery", PLUGIN_IMAGE)
    if pod is None:
        return found
    _, tag = repository_and_tag(pod["spec"]["containers"][0]["image"])
    return found | gfd.labels(facts, tag, shared, _started(pod))


def _started(pod: Object) -> int:
    """When the pod started, as Unix time."""
    text = pod["status"].get("startTime") or pod["metadata"]["creationTimestamp"]
    return int(datetime.fromisoformat(text).timestamp())


def label_changes(node: Object, wanted: Mapping[str, str]) -> dict[str, Any] | None:
    """A merge patch that leaves exactly `wanted` of discovery's labels; None where all is well."""
    annotations = node["metadata"].get("annotations") or {}
    names = ",".join(sorted(key.removeprefix(NFD_PREFIX) for key in wanted))
    owned = {_full(name) for name in annotations.get(OWNED, "").split(",") if name}
    have = labels(node)
    changes: dict[str, str | None] = dict.fromkeys(sorted((owned - set(wanted)) & set(have)))
    changes |= {key: value for key, value in wanted.items() if have.get(key) != value}
    if not changes and annotations.get(OWNED, "") == names:
        return None
    return {"metadata": {"labels": changes, "annotations": {OWNED: names or None}}}


def _full(name: str) -> str:
    return name if "/" in name else NFD_PREFIX + name


def offered(
    name: str, facts: NodeFacts | None, snapshot: Snapshot, shared: Sharing
) -> dict[str, int]:
    """What a node's device plugin offers, by the resource's name; nothing where none runs."""
    pod = snapshot.ready_pod(name, "nvidia-device-plugin", PLUGIN_IMAGE)
    if pod is None or facts is None or facts.driver is None:
        return {}
    if pod["spec"]["containers"][0]["name"] == PLAIN_PLUGIN and not _is_injected(pod):
        return {}  # runs, and waits for devices
    return {shared.resource: len(facts.driver.gpus) * shared.replicas}


def _is_injected(pod: Object) -> bool:
    """The pod runs under the handler that injects the driver."""
    return bool(pod["spec"].get("runtimeClassName") == HANDLER)


def capacity_changes(node: Object, wanted: Mapping[str, int]) -> dict[str, Any] | None:
    """A merge patch of the node's status; None where all is well.

    A plugin that goes leaves the resource's name with a count of 0.
    """
    status = node.get("status") or {}
    have = status.get("capacity") or {}
    known = {name for name in have if name.split(".shared")[0] == RESOURCE}
    counts = {name: str(wanted.get(name, 0)) for name in known | set(wanted)}
    allocatable = status.get("allocatable") or {}
    if all(have.get(key) == allocatable.get(key) == count for key, count in counts.items()):
        return None
    return {"status": {"capacity": counts, "allocatable": counts}}


def apply(api: Api, snapshot: Snapshot, facts: Mapping[str, NodeFacts]) -> None:
    """Bring every node's labels and capacity to what runs there."""
    config = plugin_config(api, snapshot)
    for name, node in snapshot.nodes.items():
        if name not in facts:
            continue  # its machine does not run: nobody writes, and the node stays as it was
        shared = NO_SHARING
        if snapshot.policy is not None:
            shared = sharing(snapshot.policy, config, labels(node))
        wanted = discovered(node, facts.get(name), snapshot, shared)
        change = None if wanted is None else label_changes(node, wanted)
        if change is not None:
            api.merge(f"/api/v1/nodes/{name}", change)
        counts = offered(name, facts.get(name), snapshot, shared)
        if (change := capacity_changes(node, counts)) is not None:
            api.merge(f"/api/v1/nodes/{name}/status", change)


def plugin_config(api: Api, snapshot: Snapshot) -> dict[str, str]:
    """Data of the device plugin's ConfigMap; empty where the ClusterPolicy names none."""
    if snapshot.policy is None or snapshot.operator is None:
        return {}
    named = (snapshot.policy["spec"].get("devicePlugin") or {}).get("config") or {}
    if not named.get("name"):
        return {}
    namespace = snapshot.operator["metadata"]["namespace"]
    found = api.get(f"/api/v1/namespaces/{namespace}/configmaps/{named['name']}")
    return {} if found is None else found.get("data") or {}
