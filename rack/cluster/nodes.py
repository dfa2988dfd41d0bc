"""Node objects: what each machine's kubelet registers, reports and renews."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rack.cluster.api import Api, ApiError, Object
from rack.settings import LOOPBACK
from rack.world.nodefacts import NodeFacts

NODES: Final = "/api/v1/nodes"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE_S: Final = 40
RENEW_S: Final = 10.0
_RESERVED_CPU_M: Final = 50
_RESERVED_MIB: Final = 416
"""What Talos keeps for the system: 50 m of a processor, 96+192+128 MiB of memory."""
_DISK_KI: Final = 48 * 1024 * 1024
_UUIDS: Final = uuid.UUID("5f3c7e3e-8a39-4cb1-9d7e-2f0d7c7b9b51")
_PRESSURES: Final = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}


class Nodes:
    """The kubelets' reports of all machines to one API server."""

    def __init__(self, api: Api, kubelet_port: int) -> None:
        self._api = api
        self._port = kubelet_port
        self._reported: dict[str, tuple[NodeFacts, float]] = {}
        """What each node was when it reported last, and the Unix time of that."""

    def report(self, machines: list[NodeFacts], now: float) -> None:
        """Register machines that are new, report what has changed, renew leases that are due.

        A machine that is off reports nothing: Kubernetes finds out by its lease. An object whose
        machine is gone stays, as on real hardware.
        """
        for facts in machines:
            before, at = self._reported.get(facts.name, (None, 0.0))
            if before == facts and now - at < RENEW_S:
                continue
            self._sync(facts, now)
            self._renew(facts.name, now)
            self._reported[facts.name] = facts, now
        for name in self._reported.keys() - {facts.name for facts in machines}:
            del self._reported[name]

    def _sync(self, facts: NodeFacts, now: float) -> None:
        found = self._api.get(f"{NODES}/{facts.name}")
        if found is None:
            found = self._api.create(NODES, node(facts))
        elif changes := _owed(facts, found):
            self._api.merge(f"{NODES}/{facts.name}", {"metadata": changes})
        status = node_status(facts, self._port)
        if not _says(found, status):
            # Merged, never replaced: the device plugin's resources are in the same status.
            stamped = {**status, "conditions": _conditions(now, found)}
            self._api.merge(f"{NODES}/{facts.name}/status", {"status": stamped})

    def _renew(self, name: str, now: float) -> None:
        moment = _micro_time(now)
        try:
            self._api.merge(f"{LEASES}/{name}", {"spec": {"renewTime": moment}})
        except ApiError as error:
            if error.status != 404:
                raise
            self._api.create(LEASES, _lease(name, moment))


def node(facts: NodeFacts) -> Object:
    """The object that a kubelet registers itself with."""
    spec: Object = {"taints": [dict(taint) for taint in facts.taints]} if facts.taints else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": facts.name,
            "labels": _labels(facts),
            "annotations": _annotations(facts),
        },
        "spec": spec,
    }


def _labels(facts: NodeFacts) -> dict[str, str]:
    own = {
        "kubernetes.io/hostname": facts.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
    }
    return own | facts.labels


def _annotations(facts: NodeFacts) -> dict[str, str]:
    # Without it, nobody attaches volumes.
    return {"volumes.kubernetes.io/controller-managed-attach-detach": "true", **facts.annotations}


def _owed(facts: NodeFacts, found: Mapping[str, Any]) -> Object:
    """Labels and annotations of a known node that are not as Talos sets them."""
    owed: Object = {}
    for part, wanted in (("labels", _labels(facts)), ("annotations", _annotations(facts))):
        have = found["metadata"].get(part) or {}
        if missing := {key: text for key, text in wanted.items() if have.get(key) != text}:
            owed[part] = missing
    return owed


def node_status(facts: NodeFacts, kubelet_port: int) -> Object:
    """What a kubelet reports of its machine, conditions left out."""
    memory_ki = facts.memory_mib * 1024
    return {
        "capacity": {
            "cpu": str(facts.cpus),
            "memory": f"{memory_ki}Ki",
            "ephemeral-storage": f"{_DISK_KI}Ki",
            "hugepages-1Gi": "0",
            "hugepages-2Mi": "0",
            "pods": "110",
        },
        "allocatable": {
            "cpu": f"{facts.cpus * 1000 - _RESERVED_CPU_M}m",
            "memory": f"{memory_ki - _RESERVED_MIB * 1024}Ki",
            "ephemeral-storage": str(_DISK_KI * 1024 * 9 // 10),
            "hugepages-1Gi": "0",
            "hugepages-2Mi": "0",
            "pods": "110",
        },
        "addresses": [
            {"type": "InternalIP", "address": facts.address},
            # Where the kubelet of the simulated rack answers.
            {"type": "ExternalIP", "address": LOOPBACK},
            {"type": "Hostname", "address": facts.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": facts.boot_id,
            "containerRuntimeVersion": facts.container_runtime,
            "kernelVersion": facts.kernel_version,
            "kubeProxyVersion": "",
            "kubeletVersion": facts.kubernetes_version,
            "machineID": uuid.uuid5(_UUIDS, f"machine {facts.vm_id} {facts.name}").hex,
            "operatingSystem": "linux",
            "osImage": facts.os_image,
            "systemUUID": str(uuid.uuid5(_UUIDS, f"system {facts.vm_id}")),
        },
        "runtimeHandlers": [
            {"name": name, "features": {"recursiveReadOnlyMounts": True, "userNamespaces": True}}
            for name in ("", *sorted(facts.runtime_handlers))
        ],
    }


def _says(found: Mapping[str, Any], status: Object) -> bool:
    """A node has this status already and is ready."""
    have = found.get("status") or {}
    extended = ("capacity", "allocatable")
    same = all(have.get(key) == value for key, value in status.items() if key not in extended)
    amounts = all(status[key].items() <= (have.get(key) or {}).items() for key in extended)
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in _known(found))
    return same and amounts and ready


def _known(found: Mapping[str, Any]) -> list[Object]:
    conditions: list[Object] = (found.get("status") or {}).get("conditions") or []
    return conditions


def _conditions(now: float, found: Mapping[str, Any]) -> list[Object]:
    known = {one["type"]: one for one in _known(found)}
    conditions = [
        _condition(kind, "False", reason, message, now, known.get(kind))
        for kind, (reason, message) in _PRESSURES.items()
    ]
    ready = ("KubeletReady", "kubelet is posting ready status")
    return [*conditions, _condition("Ready", "True", *ready, now, known.get("Ready"))]


def _condition(
    kind: str, status: str, reason: str, message: str, now: float, before: Object | None
) -> Object:
    moment = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    since = before["lastTransitionTime"] if before and before["status"] == status else moment
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": moment,
        "lastTransitionTime": since,
    }


def _lease(name: str, moment: str) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_S,
            "renewTime": moment,
        },
    }


def _micro_time(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
