"""The cluster of a site, asked directly: makes objects and waits for what becomes of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rack.cluster.api import Api, ApiError

Object = dict[str, Any]
T = TypeVar("T")

LONGEST = 30.0
"""Seconds after which something counts as not coming."""
PAUSE = 0.1
NAMESPACE = "physics"
CUDA_IMAGE = "nvidia/cuda:12.9.1-base-ubuntu24.04"
IMMICH_IMAGE = "ghcr.io/immich-app/immich-machine-learning:v3.0.0-cuda"
PRODUCT = "nvidia.com/gpu.product"
COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "Pod": f"/api/v1/namespaces/{NAMESPACE}/pods",
    "PersistentVolumeClaim": f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
}
OPERATOR = "gpu-operator"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"


def until(what: str, probe: Callable[[], T | None], heard: Sequence[str] = ()) -> T:
    """What a probe finds first; the test fails where nothing comes, with what was heard."""
    deadline = time.monotonic() + LONGEST
    while not (found := probe()):
        assert time.monotonic() < deadline, f"no {what} within {LONGEST:.0f} s; {heard}"
        time.sleep(PAUSE)
    return found


class Cluster:
    """An API server, with a namespace of the tests' own."""

    def __init__(self, kubeconfig: Path) -> None:
        self.api = Api(kubeconfig)

    def make(self, *objects: Object) -> None:
        """Create objects."""
        for one in objects:
            self.api.create(COLLECTIONS[one["kind"]], one)

    def refused(self, one: Object, namespace: str = NAMESPACE) -> str:
        """The API server's words where it would not take an object; empty where it would."""
        folder = COLLECTIONS[one["kind"]].replace(NAMESPACE, namespace)
        try:
            self.api.create(f"{folder}?dryRun=All", one)
        except ApiError as refusal:
            return refusal.message
        return ""

    def get(self, path: str) -> Object:
        """An object that is there."""
        found = self.api.get(path)
        assert found is not None, f"{path} is not there"
        return found

    def named(self, kind: str, name: str) -> Object:
        """An object of the tests."""
        return self.get(f"{COLLECTIONS[kind]}/{name}")

    def phase(self, name: str) -> str:
        """Where a pod is in its life."""
        return str(self.named("Pod", name)["status"]["phase"])

    def pods(self, app: str) -> list[Object]:
        """The pods of a Deployment, without those on their way out."""
        found = self.api.list(f"{COLLECTIONS['Pod']}?labelSelector=app%3D{app}")
        return [one for one in found if not one["metadata"].get("deletionTimestamp")]

    def runs(self, name: str) -> str:
        """Wait until a pod runs; its node."""
        until(f"running pod {name}", lambda: self.phase(name) == "Running")
        return str(self.named("Pod", name)["spec"]["nodeName"])

    def said(self, name: str, reason: str, text: str, namespace: str = NAMESPACE) -> str:
        """Wait for an event of an object with a text in its message, and return that."""
        chosen = f"involvedObject.name%3D{name},reason%3D{reason}"
        path = f"/api/v1/namespaces/{namespace}/events?fieldSelector={chosen}"
        heard: list[str] = []

        def probe() -> str | None:
            heard[:] = [one["message"] for one in self.api.list(path)]
            return next((message for message in heard if text in message), None)

        return until(f"{reason} of {name} with {text!r}", probe, heard)

    def condition(self, name: str, kind: str, reason: str) -> str:
        """Wait for a condition of a Deployment, and return its message."""

        def probe() -> list[str]:
            known = self.named("Deployment", name).get("status", {}).get("conditions", [])
            return [
                one["message"] for one in known if (one["type"], one["reason"]) == (kind, reason)
            ]

        return until(f"condition {kind}, {reason} of {name}", probe)[0]

    def is_rolled_out(self, name: str) -> bool:
        """Every pod of a Deployment is of its newest template, and available."""
        one = self.named("Deployment", name)
        status, wanted = one.get("status", {}), one["spec"]["replicas"]
        counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")]
        is_seen = status.get("observedGeneration") == one["metadata"]["generation"]
        return bool(is_seen and counts == [wanted] * 3)

    def gpus(self, node: str) -> str:
        """What a node offers."""
        allocatable = self.get(f"/api/v1/nodes/{node}")["status"]["allocatable"]
        return str(allocatable.get("nvidia.com/gpu", ""))

    def daemon_set(self, name: str) -> Object:
        """A daemon set of the operator."""
        return self.get(f"/apis/apps/v1/namespaces/{OPERATOR}/daemonsets/{name}")

    def operand_pod(self, app: str) -> str:
        """Path of a pod of an operand."""
        pods = f"/api/v1/namespaces/{OPERATOR}/pods"
        found = self.api.list(f"{pods}?labelSelector=app%3D{app}")
        return f"{pods}/{found[0]['metadata']['name']}"

    def is_ready(self) -> bool:
        """The operator calls itself ready, and both workers offer their cards."""
        state = self.get(POLICY).get("status", {}).get("state")
        return state == "ready" and {self.gpus(one) for one in WORKERS} == {"1"}

    def clear(self) -> None:
        """Remove what a test made in the namespace, and wait until the cards are free."""
        for kind in ("Deployment", "Pod", "PersistentVolumeClaim"):
            self.api.delete(COLLECTIONS[kind], {"propagationPolicy": "Background"})
        until("empty namespace", lambda: not self.api.list(COLLECTIONS["Pod"]))


WORKERS = ("k8s-worker-1", "k8s-worker-2")


def pod(
    name: str,
    *,
    gpus: int = 1,
    runtime: str | None = "nvidia",
    image: str = CUDA_IMAGE,
    on: dict[str, str] | None = None,
    claim: str | None = None,
    **spec: Any,
) -> Object:
    """A pod that sleeps; `on` are labels of its node, `claim` is a volume that it mounts."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    container: Object = {
        "name": "main",
        "image": image,
        "command": ["sleep", "infinity"],
        "resources": {"limits": limits},
    }
    volumes = [{"name": "cache", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            **({"runtimeClassName": runtime} if runtime else {}),
            **({"nodeSelector": on} if on else {}),
            "containers": [container],
            "volumes": volumes,
            **spec,
        },
    }


def deployment(name: str, strategy: str = "RollingUpdate", replicas: int = 1, **of: Any) -> Object:
    """A Deployment of such pods, which gives an update up after a moment."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "strategy": {"type": strategy},
            "progressDeadlineSeconds": 2,
            "template": {"metadata": {"labels": labels}, "spec": pod(name, **of)["spec"]},
        },
    }


def claim(name: str, storage_class: str | None) -> Object:
    """A claim of a volume that one node mounts at a time."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            **({"storageClassName": storage_class} if storage_class else {}),
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def runtime_class(name: str, handler: str) -> Object:
    """A RuntimeClass."""
    metadata = {"name": name}
    api = "node.k8s.io/v1"
    return {"apiVersion": api, "kind": "RuntimeClass", "metadata": metadata, "handler": handler}
