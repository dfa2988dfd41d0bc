"""Every GPU of a cluster at one moment: DCGM's metrics first, nvidia-smi where they are missing.

The DCGM exporter of a node tells of all its cards. Where it does not answer, nvidia-smi runs in
the pods that hold cards: it tells only of theirs, so a free card stays unknown then.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from gpu_passthrough.verify.cluster import Cluster, Object
from gpu_passthrough.verify.pods import PodError, RefusedError, fetch, run
from gpu_passthrough.verify.state import card_count, gpu_container, is_ready
from gpu_passthrough.watch.prometheus import MetricsError
from gpu_passthrough.watch.sample import SMI, GpuSample, from_dcgm, from_smi, merged

PORT: Final = 9400
"""Where the DCGM exporter listens unless it is told otherwise."""
_EXPORTERS: Final = (
    ("app", "nvidia-dcgm-exporter"),
    ("app.kubernetes.io/name", "dcgm-exporter"),
)
"""Labels of its pods: the GPU operator's, and those of its own chart."""
_AT_ONCE: Final = 8


@dataclass(frozen=True)
class Reading:
    """What was found."""

    samples: list[GpuSample]
    notes: list[str]
    """Why a source was not used."""
    unread: list[str]
    """GPUs that no source tells of, a line per node."""


@dataclass(frozen=True)
class _Node:
    """One node and the pods on it that matter."""

    name: str
    is_ready: bool
    count: int
    """GPUs that it has, as far as the cluster knows."""
    exporter: Object | None
    holders: list[Object]


def read(cluster: Cluster) -> list[GpuSample]:
    """Every GPU that can be read, each once; `source` says from where.

    Raises:
        UnreachableError: the cluster does not answer.
        ForbiddenError: it does not let us list nodes or pods.
    """
    return look(cluster).samples


def look(cluster: Cluster) -> Reading:
    """The same, with what could not be read and why."""
    nodes = _nodes(cluster.items("/api/v1/nodes"), cluster.items("/api/v1/pods"))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda node: _read(cluster, node), nodes))
    return Reading(
        samples=merged(one for part in found for one in part.samples),
        notes=[line for part in found for line in part.notes],
        unread=[line for part in found for line in part.unread],
    )


def _nodes(nodes: list[Object], pods: list[Object]) -> list[_Node]:
    """Nodes with GPUs or with an exporter, by name."""
    running = [one for one in pods if _is_running(one)]
    found = []
    for node in nodes:
        name = node["metadata"]["name"]
        mine = [one for one in running if one["spec"].get("nodeName") == name]
        exporter = next((one for one in mine if _is_exporter(one)), None)
        holders = [one for one in mine if gpu_container(one)]
        if (count := card_count(node)) or exporter is not None or holders:
            found.append(_Node(name, is_ready(node), count, exporter, holders))
    return sorted(found, key=lambda one: one.name)


def _is_running(pod: Object) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def _is_exporter(pod: Object) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return any(labels.get(name) == value for name, value in _EXPORTERS)


@dataclass(frozen=True)
class Told:
    """What the DCGM exporter of one node tells."""

    samples: list[GpuSample]
    why: str = ""
    """Why it tells nothing."""
    is_refused: bool = False
    """We may not ask it."""


def exporters(cluster: Cluster, nodes: list[Object], pods: list[Object]) -> dict[str, Told]:
    """What the exporter of each node that is ready tells, and nobody else."""
    asked = [node for node in _nodes(nodes, pods) if node.is_ready]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        told = pool.map(lambda node: _from_exporter(cluster, node), asked)
        return dict(zip((node.name for node in asked), told, strict=True))


def _read(cluster: Cluster, node: _Node) -> Reading:
    """One node."""
    if not node.is_ready:
        # Its kubelet would let us wait for long.
        return Reading([], [], [f"{node.name}: {_cards(node.count)} unknown: it is not Ready"])
    told = _from_exporter(cluster, node)
    samples, why = list(told.samples), told.why
    notes = [f"{node.name}: {why}"] if why else []
    if why or len(samples) < node.count:
        for one in _from_holders(cluster, node):
            if isinstance(one, str):
                notes.append(f"{node.name}: {one}")
            else:
                samples += one
    samples = merged(samples)
    if (missing := node.count - len(samples)) <= 0:
        return Reading(samples, notes, [])
    reason = why or f"the DCGM exporter tells of {len(samples)}"
    unread = f"{node.name}: {_cards(missing)} unknown: {reason}; no holder's nvidia-smi shows it"
    return Reading(samples, notes[bool(why) :], [unread])


def _from_exporter(cluster: Cluster, node: _Node) -> Told:
    if node.exporter is None:
        return Told([], "no DCGM exporter runs")
    try:
        found = from_dcgm(fetch(cluster, node.exporter, PORT, "/metrics"), node.name)
    except (PodError, MetricsError) as error:
        why = f"its DCGM exporter is of no use: {error}"
        return Told([], why, is_refused=isinstance(error, RefusedError))
    return Told(found, "" if found else "its DCGM exporter names no GPU")


def _from_holders(cluster: Cluster, node: _Node) -> Iterator[list[GpuSample] | str]:
    """What nvidia-smi says in each pod that holds cards, or why it says nothing."""
    for pod in node.holders:
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        try:
            yield from_smi(run(cluster, pod, gpu_container(pod), SMI), node.name, name)
        except (PodError, ValueError) as error:
            yield f"pod {name}: {error}"


def _cards(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
