"""One reconciliation of the GPU Operator: writes to the cluster what the model wants."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from rack.cluster.api import Api, ApiError, Object
from rack.cluster.operator_snapshot import POLICIES, Snapshot, labels
from rack.world.daemonsets import OPERANDS
from rack.world.operator import DaemonSetView, NodeView, Plan, Status, plan, status

RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
_REFUSALS: Final = (400, 403, 409, 422)
_STATES: Final = {operand.name: operand.state for operand in OPERANDS}
HASH: Final = "nvidia.com/last-applied-hash"
"""Annotation by which the operator knows that a daemon set is as it wrote it."""


class StateError(Exception):
    """The API server refused what a state of the operator wants."""


@contextmanager
def _state(name: str) -> Iterator[None]:
    """Name the state in which a refusal came; what may pass by itself is not one."""
    try:
        yield
    except ApiError as refusal:
        if refusal.status not in _REFUSALS:
            raise
        raise StateError(f"Failed to reconcile {name}: {refusal.message}") from None


def reconcile(api: Api, snapshot: Snapshot, policy: Object, namespace: str) -> Status:
    """Do everything once, and return what the ClusterPolicy's status has become."""
    nodes = [NodeView(name=name, labels=labels(node)) for name, node in snapshot.nodes.items()]
    wanted = plan(policy, nodes, namespace)
    error = ""
    try:
        _apply(api, policy, wanted, namespace)
    except StateError as failure:
        error = str(failure)
    found = status(wanted, _views(api, namespace), error)
    _write_status(api, policy, found)
    return found


def _apply(api: Api, policy: Object, wanted: Plan, namespace: str) -> None:
    for name, changes in wanted.node_labels.items():
        api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": changes}})
    if wanted.namespace_labels:
        change = {"metadata": {"labels": wanted.namespace_labels}}
        api.merge(f"/api/v1/namespaces/{namespace}", change)
    if wanted.error:
        return
    with _state("pre-requisites"):
        for name in wanted.removed_runtime_classes:
            api.delete(f"{RUNTIME_CLASSES}/{name}")
        for name, handler in wanted.runtime_classes.items():
            _write_runtime_class(api, policy, name, handler)
    _write_daemon_sets(api, policy, wanted, namespace)


def _write_runtime_class(api: Api, policy: Object, name: str, handler: str) -> None:
    """Create it, or overwrite all of it: labels, annotations and owners of others are lost."""
    fresh: Object = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/component": "gpu-operator"},
            "ownerReferences": [owner(policy)],
        },
        "handler": handler,
    }
    found = api.get(f"{RUNTIME_CLASSES}/{name}")
    if found is None:
        api.create(RUNTIME_CLASSES, fresh)
    else:
        fresh["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        api.replace(f"{RUNTIME_CLASSES}/{name}", fresh)


def _write_daemon_sets(api: Api, policy: Object, wanted: Plan, namespace: str) -> None:
    """Create what is missing, update what differs, delete what is switched off."""
    folder = _daemon_sets(namespace)
    have = {one["metadata"]["name"]: one for one in _owned_daemon_sets(api, policy, namespace)}
    for manifest in wanted.daemon_sets:
        name = manifest["metadata"]["name"]
        with _state(_STATES[name]):
            _write_daemon_set(api, policy, manifest, have.get(name))
    names = {one["metadata"]["name"] for one in wanted.daemon_sets}
    if wanted.has_gpu_nodes:
        for name in have.keys() - names:
            api.delete(f"{folder}/{name}")


def _write_daemon_set(
    api: Api, policy: Object, manifest: Mapping[str, Any], found: Object | None
) -> None:
    digest = _digest(manifest)
    if found and (found["metadata"].get("annotations") or {}).get(HASH) == digest:
        return
    namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    _write_service_account(api, policy, manifest, namespace)
    body = _stamped(manifest, policy, digest)
    if found is None:
        api.create(_daemon_sets(namespace), body)
    else:
        body["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        api.replace(f"{_daemon_sets(namespace)}/{name}", body)


def _write_service_account(
    api: Api, policy: Object, manifest: Mapping[str, Any], namespace: str
) -> None:
    name = manifest["spec"]["template"]["spec"]["serviceAccountName"]
    folder = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    if api.get(f"{folder}/{name}") is None:
        metadata = {"name": name, "namespace": namespace, "ownerReferences": [owner(policy)]}
        api.create(folder, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


def _stamped(manifest: Mapping[str, Any], policy: Object, digest: str) -> Object:
    metadata = {
        **manifest["metadata"],
        "annotations": {HASH: digest},
        "ownerReferences": [owner(policy)],
    }
    return {**manifest, "metadata": metadata}


def _digest(manifest: Mapping[str, Any]) -> str:
    text = json.dumps(manifest, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def owner(policy: Object) -> Object:
    """The reference by which garbage collection removes everything with the ClusterPolicy."""
    return {
        "apiVersion": policy["apiVersion"],
        "kind": policy["kind"],
        "name": policy["metadata"]["name"],
        "uid": policy["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _daemon_sets(namespace: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/daemonsets"


def _owned_daemon_sets(api: Api, policy: Object, namespace: str) -> list[Object]:
    uid = policy["metadata"]["uid"]
    return [
        one
        for one in api.list(_daemon_sets(namespace))
        if any(ref["uid"] == uid for ref in one["metadata"].get("ownerReferences") or ())
    ]


def _views(api: Api, namespace: str) -> list[DaemonSetView]:
    """The operator's daemon sets in the order of its states, by their own status.

    A status that is older than the specification says nothing yet: all its pods are missing.
    """
    have = {one["metadata"]["name"]: one for one in api.list(_daemon_sets(namespace))}
    found = []
    for operand in OPERANDS:
        if (one := have.get(operand.name)) is None:
            continue
        of = one.get("status") or {}
        is_seen = of.get("observedGeneration") == one["metadata"]["generation"]
        desired = of.get("desiredNumberScheduled", 0) if is_seen else 1
        unavailable = of.get("numberUnavailable", 0) if is_seen else 1
        view = DaemonSetView(state=operand.state, desired=desired, unavailable=unavailable)
        found.append(view)
    return found


def _write_status(api: Api, policy: Object, found: Status) -> None:
    """Write the status where it differs; a condition keeps its time while its status stays."""
    old = policy.get("status") or {}
    before = {one["type"]: one for one in old.get("conditions") or ()}
    conditions = []
    for condition in found.conditions:
        fresh = condition.model_dump()
        same = before.get(condition.type, {})
        time = same.get("lastTransitionTime") if same.get("status") == condition.status else None
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions.append({**fresh, "lastTransitionTime": time or now})
    operator_namespace = old.get("namespace")
    if old.get("state") == found.state and old.get("conditions") == conditions:
        return
    body: Object = {"state": found.state, "conditions": conditions}
    if operator_namespace:
        body["namespace"] = operator_namespace
    api.merge(f"{POLICIES}/{policy['metadata']['name']}/status", {"status": body})
