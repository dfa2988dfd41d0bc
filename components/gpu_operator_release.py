"""Layer 3: the GPU Operator, which makes a node's cards known to Kubernetes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_kubernetes.core.v1 import Namespace
from pulumi_kubernetes.helm.v3 import Release, RepositoryOptsArgs

from components.readiness import Gate
from gpu_passthrough import versions
from gpu_passthrough.config import RELEASE, GpuOperator, Sharing, Taint
from gpu_passthrough.load import merge

PRIVILEGED = {
    f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")
}
"""Talos enforces baseline, and the operator mounts host paths, its own Deployment included."""
HOST_DRIVER_SINCE = (1, 13)
"""From this Talos on, driver libraries and nvidia-smi are below one root."""
CDI_DEFAULT_SINCE = (25, 10)
"""From this operator on, CDI is the chart's default and works with Talos."""
CONTROL_PLANE = ("node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane")
RUNTIME_CLASS = "nvidia"
"""What the chart calls the RuntimeClass where its values say nothing."""
SHARING = "time-slicing"
"""Name of the device plugin's configuration, and of its only entry."""


@dataclass(frozen=True, kw_only=True)
class GpuOperatorReleaseArgs:
    """Which release, and what it may do."""

    operator: GpuOperator
    """Chart version, repository, namespace, operands and more values."""
    talos_version: str | None = None
    """Talos release of the nodes; None where they run something else."""
    taint: Taint | None = None
    """Taint of the GPU nodes, which every operand tolerates."""
    ready: Gate | None = None
    """Gate that the release has to pass after each change."""
    unclaimed: pulumi.ResourceHook | None = None
    """Gate that refuses a namespace of somebody else."""
    timeout_s: int = 900
    """Longest wait for the operator's own workloads, in seconds."""


class GpuOperatorRelease(pulumi.ComponentResource):
    """The operator without driver and toolkit: those are in Talos' image.

    Helm waits for the operator and for node feature discovery, and for nothing that the operator
    makes; the gate does that.
    """

    namespace: pulumi.Output[str]
    runtime_class: str
    """Name of the RuntimeClass that the operator makes, and of its handler."""

    def __init__(
        self, name: str, args: GpuOperatorReleaseArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-passthrough:index:GpuOperatorRelease", name, None, opts)
        given = args.operator.values.get("operator") or {}
        self.runtime_class = given.get("runtimeClass", RUNTIME_CLASS)
        namespace = Namespace(
            f"{name}-namespace",
            metadata={"name": args.operator.namespace, "labels": PRIVILEGED},
            opts=pulumi.ResourceOptions(parent=self, hooks=_unclaimed(args.unclaimed)),
        )
        self.namespace = namespace.metadata.name
        longest = f"{args.timeout_s}s"
        release = Release(
            f"{name}-release",
            name=RELEASE,
            chart=RELEASE,
            version=args.operator.version,
            repository_opts=RepositoryOptsArgs(repo=args.operator.repository),
            namespace=self.namespace,
            values=values(args),
            # A failed release is taken back, so that the next run does not find it half made.
            atomic=True,
            timeout=args.timeout_s,
            opts=pulumi.ResourceOptions(
                parent=self,
                custom_timeouts=pulumi.CustomTimeouts(create=longest, update=longest),
                hooks=_gate(args.ready),
            ),
        )
        if args.ready is not None:
            args.ready.holds(release.urn)
        self.register_outputs({"namespace": self.namespace})


def _unclaimed(gate: pulumi.ResourceHook | None) -> pulumi.ResourceHookBinding | None:
    return pulumi.ResourceHookBinding(before_create=[gate]) if gate else None


def _gate(ready: Gate | None) -> pulumi.ResourceHookBinding | None:
    if ready is None:
        return None
    return pulumi.ResourceHookBinding(after_create=[ready], after_update=[ready])


def values(args: GpuOperatorReleaseArgs) -> dict[str, Any]:
    """Write the chart's values: the stack's operands, what Talos needs, then the stack's own.

    The chart has no value for the validator, which it always deploys.
    """
    operator = args.operator
    found: dict[str, Any] = {
        "driver": {"enabled": operator.driver.enabled},
        "toolkit": {"enabled": operator.toolkit.enabled},
        "devicePlugin": {"enabled": operator.device_plugin.enabled},
        "gfd": {"enabled": operator.gfd.enabled},
        # From v26.7 on the chart would also ask for a ServiceMonitor, a kind of Prometheus'.
        "dcgmExporter": {
            "enabled": operator.dcgm_exporter.enabled,
            "serviceMonitor": {"enabled": False},
        },
    }
    if versions.parse(operator.version).line < CDI_DEFAULT_SINCE:
        # It would add handlers that Talos' containerd does not have.
        found["cdi"] = {"enabled": False}
    if args.talos_version and versions.parse(args.talos_version).line >= HOST_DRIVER_SINCE:
        found["hostPaths"] = {"driverInstallDir": "/usr/local"}
    if args.taint:
        found |= tolerating(args.taint)
    if operator.sharing:
        found["devicePlugin"]["config"] = time_slicing(operator.sharing)
    return dict(merge(found, operator.values))


def tolerating(taint: Taint) -> Mapping[str, Any]:
    """Let everything of the release run on GPU nodes; the chart's lists are replaced as a whole."""
    control_plane = [{"key": key, "operator": "Exists"} for key in CONTROL_PLANE]
    gpu = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    own = [{"key": taint.key, "operator": "Exists", "effect": taint.effect}]
    gpu_nodes = own if own == gpu else [*gpu, *own]
    everywhere = {"tolerations": [*control_plane, *gpu_nodes]}
    # Where every node has cards, the operator itself finds no other place.
    return {
        "operator": everywhere,
        "daemonsets": {"tolerations": gpu_nodes},
        "node-feature-discovery": dict.fromkeys(("master", "worker", "gc"), everywhere),
    }


def time_slicing(sharing: Sharing) -> Mapping[str, Any]:
    """Configure the device plugin to offer each card several times.

    More than one slot per pod would be the same card twice, and is refused.
    """
    slicing = {
        "renameByDefault": sharing.rename,
        "failRequestsGreaterThanOne": True,
        "resources": [{"name": "nvidia.com/gpu", "replicas": sharing.replicas}],
    }
    plugin = {"version": "v1", "sharing": {"timeSlicing": slicing}}
    # Without a default the configuration would count only on nodes that carry a label for it.
    return {
        "create": True,
        "name": SHARING,
        "default": SHARING,
        "data": {SHARING: json.dumps(plugin)},
    }
