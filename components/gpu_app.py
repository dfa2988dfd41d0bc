"""Layer 5: a workload that claims a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_kubernetes import apps, core

from gpu_passthrough.config import App, Taint, Volume

GPU_NODE = "nvidia.com/gpu.present"
"""The operator's label of a node with a card."""
GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
BUILT_IN = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})
"""Namespaces that every cluster has."""
CAPABILITIES = {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
"""Driver libraries to inject: CUDA and NVML. An app's env may ask for others."""


def create_namespace(
    name: str, unclaimed: pulumi.ResourceHook, opts: pulumi.ResourceOptions
) -> pulumi.Input[str]:
    """Create a namespace for apps at the level that their pods keep to; built-in ones exist.

    unclaimed: the gate that refuses a namespace of somebody else.
    """
    if name in BUILT_IN:
        return name
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    gate = pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(before_create=[unclaimed]))
    return core.v1.Namespace(
        f"{name}-namespace",
        metadata={"name": name, "labels": labels},
        opts=pulumi.ResourceOptions.merge(opts, gate),
    ).metadata.name


@dataclass(frozen=True, kw_only=True)
class GpuAppArgs:
    """The workload, and what its place demands."""

    app: App
    """Image, claims, volumes and rollout."""
    namespace: pulumi.Input[str]
    """Namespace, which exists."""
    gpu_resource: str = "nvidia.com/gpu"
    """What a pod claims; time-slicing may rename it."""
    taint: Taint | None = None
    """Taint of the GPU nodes."""
    protect: bool = True
    """Refuse to delete the volumes."""
    timeout_s: int = 900
    """Longest rollout, in seconds; CUDA images are large."""


class GpuApp(pulumi.ComponentResource):
    """A Deployment whose pods get the driver by RuntimeClass and a whole card by their limit."""

    deployment: apps.v1.Deployment

    def __init__(
        self, name: str, args: GpuAppArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-passthrough:index:GpuApp", name, None, opts)
        self._name, self._args = name, args
        self._labels = {"app.kubernetes.io/name": name}
        claims = {volume: self._claim(volume, spec) for volume, spec in args.app.volumes.items()}
        self.deployment = self._deploy(claims, self._secret())
        if args.app.port and args.app.replicas:
            self._serve(args.app.port)
        self.register_outputs({"deployment": self.deployment.metadata.name})

    def _claim(self, volume: str, spec: Volume) -> core.v1.PersistentVolumeClaim:
        return core.v1.PersistentVolumeClaim(
            f"{self._name}-{volume}",
            metadata=self._metadata(f"{self._name}-{volume}"),
            spec={
                "storage_class_name": spec.storage_class,
                "access_modes": [spec.access_mode],
                "resources": {"requests": {"storage": spec.size}},
            },
            opts=pulumi.ResourceOptions(parent=self, protect=self._args.protect),
        )

    def _secret(self) -> core.v1.Secret | None:
        """Keep secret variables out of the pod's specification.

        The name is Pulumi's: a changed secret gets another, and the pods start anew with it.
        """
        if not self._args.app.secret_env:
            return None
        plain = {key: one.get_secret_value() for key, one in self._args.app.secret_env.items()}
        return core.v1.Secret(
            f"{self._name}-env",
            metadata={"namespace": self._args.namespace, "labels": self._labels},
            string_data=plain,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _deploy(
        self, claims: Mapping[str, core.v1.PersistentVolumeClaim], secret: core.v1.Secret | None
    ) -> apps.v1.Deployment:
        app, longest = self._args.app, f"{self._args.timeout_s}s"
        return apps.v1.Deployment(
            f"{self._name}-deployment",
            metadata=self._metadata(self._name),
            spec={
                "replicas": app.replicas,
                "strategy": {"type": app.strategy},
                "progress_deadline_seconds": self._args.timeout_s,
                "selector": {"match_labels": self._labels},
                "template": {
                    "metadata": {"labels": self._labels},
                    "spec": self._pod(claims, secret),
                },
            },
            opts=pulumi.ResourceOptions(
                parent=self,
                custom_timeouts=pulumi.CustomTimeouts(create=longest, update=longest),
            ),
        )

    def _pod(
        self, claims: Mapping[str, core.v1.PersistentVolumeClaim], secret: core.v1.Secret | None
    ) -> dict[str, Any]:
        app = self._args.app
        return {
            # With it containerd injects the driver of the node; without it, nothing does.
            "runtime_class_name": app.runtime_class_name,
            "node_selector": app.node_selector,
            "affinity": _on_gpu_nodes(),
            "tolerations": tolerations(self._args.taint),
            # Variables of every Service in the namespace confuse images that read their own.
            "enable_service_links": False,
            "automount_service_account_token": False,
            "security_context": {"seccomp_profile": {"type": "RuntimeDefault"}},
            "containers": [self._container(secret)],
            "volumes": [
                {
                    "name": volume,
                    "persistent_volume_claim": {"claim_name": claim.metadata.name},
                }
                for volume, claim in claims.items()
            ],
        }

    def _container(self, secret: core.v1.Secret | None) -> dict[str, Any]:
        app = self._args.app
        container: dict[str, Any] = {
            "name": self._name,
            "image": app.image,
            "env": self._env(secret),
            # A limit is also the request: the pod lands only where this many cards are free.
            "resources": {"limits": {self._args.gpu_resource: str(app.gpus)}},
            "volume_mounts": [
                {"name": volume, "mount_path": spec.mount_path}
                for volume, spec in app.volumes.items()
            ],
            "security_context": {"allow_privilege_escalation": False},
        }
        if app.port:
            container["ports"] = [{"container_port": app.port}]
            container["readiness_probe"] = {"tcp_socket": {"port": app.port}}
        return container

    def _env(self, secret: core.v1.Secret | None) -> Sequence[dict[str, Any]]:
        app = self._args.app
        plain = {**CAPABILITIES, **app.env}
        variables: list[dict[str, Any]] = [
            {"name": key, "value": value}
            for key, value in sorted(plain.items())
            if key not in app.secret_env
        ]
        if secret is not None:
            variables += [
                {
                    "name": key,
                    "value_from": {"secret_key_ref": {"name": secret.metadata.name, "key": key}},
                }
                for key in sorted(app.secret_env)
            ]
        return variables

    def _serve(self, port: int) -> core.v1.Service:
        return core.v1.Service(
            f"{self._name}-service",
            metadata=self._metadata(self._name),
            spec={"selector": self._labels, "ports": [{"port": port, "target_port": port}]},
            # Ready at once, because the pods that it waits for are there already.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[self.deployment]),
        )

    def _metadata(self, name: str) -> dict[str, Any]:
        return {"name": name, "namespace": self._args.namespace, "labels": self._labels}


def tolerations(taint: Taint | None) -> list[dict[str, str]]:
    """Tolerate what keeps other pods off GPU nodes."""
    own = {"key": taint.key, "operator": "Exists", "effect": taint.effect} if taint else {}
    return [GPU_TOLERATION, *([own] if own and own != GPU_TOLERATION else [])]


def _on_gpu_nodes() -> dict[str, Any]:
    """Keep off nodes whose containerd does not have the runtime class's handler."""
    present = {"key": GPU_NODE, "operator": "In", "values": ["true"]}
    terms = {"node_selector_terms": [{"match_expressions": [present]}]}
    return {"node_affinity": {"required_during_scheduling_ignored_during_execution": terms}}
