"""More values of the operator's chart: what the stack builds on stays as it is.

Helm takes any value, and drops in silence what its chart does not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_passthrough import tables, versions, wording
from gpu_passthrough.config import Stack, Taint
from gpu_passthrough.problems import Path, Problem

VALUES: Path = ("gpuOperator", "values")
DRIVER_ROOT = "/usr/local"
HOST_DRIVER_SINCE = (1, 13)
MONITOR_SINCE = (26, 7)
"""From here on the chart itself makes the ServiceMonitor; before, the operator does."""
KEEPS_OUT = ("NoSchedule", "NoExecute")


def _at(stack: Stack, *keys: str) -> Any:
    found: Any = stack.gpu_operator.values
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _is_new(stack: Stack) -> bool:
    """Nothing is in the cluster but what the stack puts there."""
    return stack.starts_at in ("hardware", "vms")


def unknown(stack: Stack) -> Iterator[Problem]:
    """A value has a name that the chart knows (its values.yaml)."""
    known = [row["value"] for row in tables.rows("operator_values")]
    for key in stack.gpu_operator.values:
        if key in known or "." in key:
            continue
        near = wording.nearest_key(key, known)
        yield Problem(
            (*VALUES, key),
            f"The chart of the GPU Operator has no value {key!r}.",
            why="Helm would drop it without a word.",
            fix=f"Did you mean {near!r}?" if near else "Remove it.",
        )


def discovery(stack: Stack) -> Iterator[Problem]:
    """Somebody labels the nodes that have cards (NVIDIA/gpu-operator#149 and #607)."""
    if _at(stack, "nfd", "enabled") is False and _is_new(stack):
        yield Problem(
            (*VALUES, "nfd", "enabled"),
            "Node feature discovery is off, and a new cluster has none of its own.",
            why="Its label is how the operator knows which nodes have a card. Without it there is"
            " no GPU node, no operand, and the ClusterPolicy is ready all the same.",
            fix="Leave it on.",
        )


def workloads(stack: Stack) -> Iterator[Problem]:
    """The cards serve containers, not VMs in the cluster (NVIDIA/gpu-operator#551)."""
    found = _at(stack, "sandboxWorkloads", "defaultWorkload")
    enabled = _at(stack, "sandboxWorkloads", "enabled")
    if enabled and found not in (None, "container"):
        yield Problem(
            (*VALUES, "sandboxWorkloads", "defaultWorkload"),
            f"The default workload of GPU nodes is {found}.",
            why="The operator then gives the cards to VMs inside of Kubernetes, and runs neither"
            " device plugin nor GFD for containers.",
            fix="Leave sandboxWorkloads out.",
        )


def mig(stack: Stack) -> Iterator[Problem]:
    """Cards are whole, or shared in time (NVIDIA/gpu-operator#637, #693; k8s-device-plugin#260)."""
    wanted = _at(stack, "migManager", "config", "default")
    if wanted not in (None, "", "all-disabled"):
        yield Problem(
            (*VALUES, "migManager", "config", "default"),
            f"The cards are cut into instances: {wanted}.",
            why="Instances are offered as nvidia.com/mig-…, or counted as whole cards; apps here"
            " claim whole cards, and where they fit is planned by whole cards.",
            fix="Leave it out. gpuOperator.sharing lets several pods use one card.",
        )


def sharing(stack: Stack) -> Iterator[Problem]:
    """Sharing is said once, where apps see it (NVIDIA/k8s-device-plugin#321, #990 and #1433)."""
    config = _at(stack, "devicePlugin", "config")
    if not isinstance(config, Mapping) or not config.get("name") or stack.gpu_operator.sharing:
        return
    path: Path = (*VALUES, "devicePlugin", "config")
    shares = "sharing" in str(config.get("data") or "")
    if shares:
        yield Problem(
            (*path, "data"),
            "values share the cards, and gpuOperator.sharing does not say so.",
            why="What apps claim, how many of them fit, and which label a node gets follow from"
            " gpuOperator.sharing.",
            fix="Say it as gpuOperator.sharing: {replicas: 4}, and take it out here.",
        )
    elif not config.get("default"):
        yield Problem(
            path,
            f"The device plugin's configuration {config['name']} has no default.",
            why="It then counts only on nodes that carry the label nvidia.com/device-plugin.config,"
            " and nothing puts it there.",
            fix="Add default: the name of its entry.",
        )
    if _is_new(stack) and not (config.get("create") and config.get("data")):
        yield Problem(
            path,
            f"The ConfigMap {config['name']} is not made by anybody.",
            why="The namespace is new; the device plugin's pods would wait for it for ever.",
            fix="Add create: true and data.",
        )


def _tolerates(toleration: Any, taint: Taint) -> bool:
    if not isinstance(toleration, Mapping):
        return False
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint.key)
    return (toleration.get("key"), toleration.get("value", "")) == (taint.key, taint.value)


def tolerations(stack: Stack) -> Iterator[Problem]:
    """The operands run on tainted GPU nodes (NVIDIA/gpu-operator#26, #270 and #2717)."""
    taint = stack.gpu_taint
    if taint is None or taint.effect not in KEEPS_OUT:
        return
    for keys in (("daemonsets",), ("node-feature-discovery", "worker")):
        given = _at(stack, *keys, "tolerations")
        if not isinstance(given, Sequence) or any(_tolerates(one, taint) for one in given):
            continue
        yield Problem(
            (*VALUES, *keys, "tolerations"),
            f"GPU nodes have the taint {taint.key}={taint.value}:{taint.effect}, and these"
            " tolerations do not cover it.",
            why="Helm replaces a list as a whole: the pods would not run on the GPU nodes.",
            fix="Leave the value out; gpuTaint gives the tolerations.",
            also=(("gpuTaint",),),
        )


def driver_root(stack: Stack) -> Iterator[Problem]:
    """The operator looks where Talos has its driver (siderolabs/docs, NVIDIA GPU Operator)."""
    found = _at(stack, "hostPaths", "driverInstallDir")
    if stack.cluster is None or found in (None, DRIVER_ROOT):
        return
    if versions.parse(stack.cluster.talos_version).line >= HOST_DRIVER_SINCE:
        yield Problem(
            (*VALUES, "hostPaths", "driverInstallDir"),
            f"driverInstallDir is {found}; Talos {stack.cluster.talos_version} has its driver below"
            f" {DRIVER_ROOT}.",
            why="Talos' root filesystem is read-only: a folder that is not there cannot be made,"
            " and what is mounted from it is empty.",
            fix="Leave it out; it follows from the Talos version.",
            also=(("cluster", "talosVersion"),),
        )


def monitoring(stack: Stack) -> Iterator[Problem]:
    """No object of a kind that a new cluster lacks (NVIDIA/gpu-operator#453)."""
    if _at(stack, "dcgmExporter", "serviceMonitor", "enabled") is not True or not _is_new(stack):
        return
    by_chart = versions.parse(stack.gpu_operator.version).line >= MONITOR_SINCE
    yield Problem(
        (*VALUES, "dcgmExporter", "serviceMonitor", "enabled"),
        "A ServiceMonitor is asked for, and a new cluster has no such kind.",
        why=("Helm refuses the release" if by_chart else "The operator cannot make it")
        + ': no matches for kind "ServiceMonitor" before the Prometheus operator is there.',
        fix="Leave it out; make the ServiceMonitor together with Prometheus.",
    )
