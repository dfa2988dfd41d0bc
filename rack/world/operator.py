"""What the GPU Operator makes of a cluster: labels, RuntimeClasses, daemon sets, its own status.

Rules: controllers/ of NVIDIA/gpu-operator at v24.9.2, v26.3.0, v26.3.1 and v26.7.0. Node feature
discovery is here as well, because nothing else on the rack reads its labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import Field

from rack.world import gfd
from rack.world.daemonsets import daemon_sets
from rack.world.nodefacts import Frozen, NodeFacts
from rack.world.policy import PolicyView

NFD_PREFIX: Final = "feature.node.kubernetes.io/"
GPU_PCI: Final = f"{NFD_PREFIX}pci-10de.present"
PRESENT: Final = "nvidia.com/gpu.present"
DEPLOY: Final = "nvidia.com/gpu.deploy."
OPERANDS: Final = f"{DEPLOY}operands"
MIG_MANAGER: Final = f"{DEPLOY}mig-manager"
_WORKLOAD: Final = "nvidia.com/gpu.workload.config"
_CONTAINER_WORKLOAD: Final = (
    "container-toolkit",
    "dcgm",
    "dcgm-exporter",
    "device-plugin",
    "driver",
    "gpu-feature-discovery",
    "node-status-exporter",
    "operator-validator",
)
"""Operands that a node with containers on its GPUs may run, each by a label of its own."""
_BROKEN_ON_TALOS: Final = "v26.3.0"
NFD_LABELS_MISSING: Final = "NFDLabelsMissing"
_PSA_MODES: Final = ("enforce", "audit", "warn")

Labels = Mapping[str, str]


class NodeView(Frozen):
    """A node as the operator reads it from the API."""

    name: str
    labels: dict[str, str] = Field(default_factory=dict)


class Plan(Frozen):
    """What one reconciliation does, in the order of the fields."""

    node_labels: dict[str, dict[str, str | None]] = Field(default_factory=dict)
    """Labels to set, or to remove where None, by node; nodes without a change are left out."""
    namespace_labels: dict[str, str] = Field(default_factory=dict)
    error: str = ""
    """Why it goes no further than here."""
    runtime_classes: dict[str, str] = Field(default_factory=dict)
    """Handlers of the RuntimeClasses to write, by name."""
    removed_runtime_classes: tuple[str, ...] = ()
    daemon_sets: tuple[dict[str, Any], ...] = ()
    """To create or update. Those of the operator that are not here are to be deleted."""
    has_nfd_labels: bool = False
    has_gpu_nodes: bool = False


def nfd_labels(node: NodeFacts) -> dict[str, str]:
    """What node feature discovery writes for a node, as far as anybody reads it."""
    major, minor = node.talos_version.removeprefix("v").split(".")[:2]
    kernel = node.kernel_version.split("-")[0].split(".")
    found = {
        "kernel-version.full": node.kernel_version,
        "kernel-version.major": kernel[0],
        "kernel-version.minor": kernel[1],
        "system-os_release.ID": "talos",
        "system-os_release.VERSION_ID": node.talos_version,
        "system-os_release.VERSION_ID.major": f"v{major}",
        "system-os_release.VERSION_ID.minor": minor,
        "pci-1234.present": "true",  # QEMU's own display adapter
    }
    if node.gpus:
        found["pci-10de.present"] = "true"
    return {NFD_PREFIX + key: value for key, value in found.items()}


def plan(policy: Mapping[str, Any], nodes: Sequence[NodeView], namespace: str) -> Plan:
    """What the operator does about a ClusterPolicy.

    Args:
        policy: the ClusterPolicy as JSON.
        nodes: every node of the cluster.
        namespace: where the operator and its operands live.

    """
    view = PolicyView(policy)
    changes = {node.name: change for node in nodes if (change := _relabel(node.labels, view))}
    labelled = [_merged(node.labels, changes.get(node.name, {})) for node in nodes]
    gpu_nodes = [labels for labels in labelled if labels.get(PRESENT) == "true"]
    psa = {f"pod-security.kubernetes.io/{mode}": "privileged" for mode in _PSA_MODES}
    begun = Plan(
        node_labels=changes,
        namespace_labels=psa if view.has("psa") else {},
        has_nfd_labels=any(key.startswith(NFD_PREFIX) for labels in labelled for key in labels),
        has_gpu_nodes=bool(gpu_nodes),
    )
    if view.version == _BROKEN_ON_TALOS and (error := _os_error(gpu_nodes)):
        return begun.model_copy(update={"error": error})
    written, removed = runtime_classes(view)
    # Without a GPU node there is no daemon set at all.
    sets = daemon_sets(view, namespace, _os_tag(gpu_nodes)) if gpu_nodes else ()
    update = {
        "runtime_classes": written,
        "removed_runtime_classes": removed,
        "daemon_sets": sets,
    }
    return begun.model_copy(update=update)


def runtime_classes(view: PolicyView) -> tuple[dict[str, str], tuple[str, ...]]:
    """Handlers of the RuntimeClasses to write, by name; and the names to delete.

    The setting renames class and handler at once. With CDI there are two more, whose handlers
    only NVIDIA's toolkit container configures.
    """
    name = view.runtime_class
    if view.uses_nri_plugin:
        return {}, (name, "nvidia-cdi", "nvidia-legacy")
    if view.has("cdi"):
        return {one: one for one in (name, "nvidia-cdi", "nvidia-legacy")}, ()
    return {name: name}, ("nvidia-cdi", "nvidia-legacy")


def _relabel(labels: Labels, view: PolicyView) -> dict[str, str | None]:
    """Changes of a node's labels: what is set already is left as it is."""
    has_gpu, was_labelled = labels.get(GPU_PCI) == "true", labels.get(PRESENT) == "true"
    state = [f"{DEPLOY}{name}" for name in _CONTAINER_WORKLOAD]
    if was_labelled and not has_gpu:
        stale = [key for key in (*state, MIG_MANAGER) if key in labels]
        return {PRESENT: "false", **dict.fromkeys(stale)}
    if not has_gpu:
        return {}
    changes: dict[str, str | None] = {} if was_labelled else {PRESENT: "true"}
    if labels.get(OPERANDS) == "false":
        return {**changes, **{key: None for key in (*state, MIG_MANAGER) if key in labels}}
    changes |= {key: "true" for key in state if key not in labels}
    if _is_mig_capable(labels):
        changes |= {} if MIG_MANAGER in labels else {MIG_MANAGER: "true"}
        if view.has("migManager") and not labels.get("nvidia.com/mig.config"):
            changes["nvidia.com/mig.config"] = "all-disabled"
    return changes


def _is_mig_capable(labels: Labels) -> bool:
    return labels.get(f"{gfd.PREFIX}mig.capable") == "true"


def wakes(labels: Labels) -> tuple[object, ...]:
    """What the operator looks at when a node's labels change: anything else wakes it not.

    A label of its own that somebody removes is put back at its next reconciliation only.
    """
    return (
        labels.get(GPU_PCI) == "true",
        labels.get(PRESENT) == "true",
        labels.get(OPERANDS) == "false",
        labels.get(_WORKLOAD, ""),
        _is_mig_capable(labels) and MIG_MANAGER not in labels,
    )


def _merged(labels: Labels, changes: Mapping[str, str | None]) -> dict[str, str]:
    found = {**labels, **changes}
    return {key: value for key, value in found.items() if value is not None}


def _os_tag(gpu_nodes: Sequence[Labels]) -> str:
    """How the driver container's tag names the operating system of the first GPU node."""
    labels = gpu_nodes[0]
    release = f"{NFD_PREFIX}system-os_release."
    return labels.get(f"{release}ID", "") + labels.get(f"{release}VERSION_ID", "")


def _os_error(gpu_nodes: Sequence[Labels]) -> str:
    """v26.3.0 takes the first part of the operating system's version for a number."""
    for labels in gpu_nodes:
        found = labels.get(f"{NFD_PREFIX}system-os_release.VERSION_ID", "").split(".")[0]
        if not re.fullmatch(r"[+-]?\d+", found):
            return (
                f"failed to get gpu node OS tag: error processing OS major version {found}:"
                f' strconv.Atoi: parsing "{found}": invalid syntax'
            )
    return ""


class Condition(Frozen):
    """A condition of the ClusterPolicy."""

    type: Literal["Ready", "Error"]
    status: Literal["True", "False"]
    reason: str
    message: str = ""


class Status(Frozen):
    """The ClusterPolicy's status, without times."""

    state: Literal["ready", "notReady"]
    conditions: tuple[Condition, Condition]


class DaemonSetView(Frozen):
    """A daemon set's own account of its pods."""

    state: str
    """Name of the operator's state that it belongs to, for example state-device-plugin."""
    desired: int
    unavailable: int

    @property
    def is_ready(self) -> bool:
        """Nothing is to run, or everything that is to run does."""
        return self.desired == 0 or self.unavailable == 0


def status(done: Plan, sets: Sequence[DaemonSetView], error: str = "") -> Status:
    """What the operator says of itself after a reconciliation.

    Args:
        done: what it did.
        sets: its daemon sets, in the order of its states.
        error: what the API refused; empty where nothing was.

    """
    if done.error or error:
        return _not_ready("ReconcileFailed", done.error or error)
    waiting = [one.state for one in sets if not one.is_ready]
    if waiting:
        names = " ".join(waiting)
        return _not_ready(
            "OperandNotReady", f"ClusterPolicy is not ready, states not ready: [{names}]"
        )
    if not done.has_nfd_labels:
        return _ready(NFD_LABELS_MISSING, "No NFD labels found")
    if not done.has_gpu_nodes:
        text = "No GPU node found, watching for new nodes to join the cluster."
        return _ready("NoGPUNodes", text)
    text = "ClusterPolicy is ready as all resources have been successfully reconciled"
    return _ready("Reconciled", text)


def _ready(reason: str, message: str) -> Status:
    good = Condition(type="Ready", status="True", reason=reason, message=message)
    bad = Condition(type="Error", status="False", reason="Ready")
    return Status(state="ready", conditions=(good, bad))


def _not_ready(reason: str, message: str) -> Status:
    good = Condition(type="Ready", status="False", reason="Error")
    bad = Condition(type="Error", status="True", reason=reason, message=message)
    return Status(state="notReady", conditions=(good, bad))


def device_list_strategy(policy: Mapping[str, Any]) -> tuple[str, ...]:
    """How the device plugin of a ClusterPolicy hands devices to the kubelet."""
    return PolicyView(policy).device_list_strategy
