"""Nodes, GPUs and the pods that hold them: what a cluster offers and who uses it.

Reads the cluster and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from gpu_passthrough.kubeapi import KubernetesApi, Object
from gpu_passthrough.verify.cluster import GPU
from gpu_passthrough.verify.state import claimed, is_ready

PRODUCT_LABEL = "nvidia.com/gpu.product"

NEXT = (
    ("first, for your shell", 'eval "$(make -s env)"'),
    (
        "GPUs per node",
        "kubectl get nodes -o custom-columns="
        r"'NAME:.metadata.name,GPU:.status.allocatable.nvidia\.com/gpu'",
    ),
    ("the card from inside a pod", "kubectl -n {namespace} exec deploy/{name} -- nvidia-smi"),
    ("the proof that every GPU computes", "make verify"),
    ("what would change now", "make preview"),
)


class NodeRow(BaseModel):
    """One node."""

    name: str
    ready: bool
    os: str
    gpus: int | None
    """GPUs that pods may claim; None where no device plugin ever spoke."""
    product: str


class PodRow(BaseModel):
    """One pod that claims GPUs."""

    namespace: str
    name: str
    app: str
    gpus: int
    node: str
    phase: str


class Overview(BaseModel):
    """What a cluster offers and who uses it."""

    nodes: list[NodeRow]
    pods: list[PodRow]


def _node(node: Object) -> NodeRow:
    allocatable = (node["status"].get("allocatable") or {}).get(GPU)
    return NodeRow(
        name=node["metadata"]["name"],
        ready=is_ready(node),
        os=node["status"]["nodeInfo"]["osImage"],
        gpus=None if allocatable is None else int(allocatable),
        product=(node["metadata"].get("labels") or {}).get(PRODUCT_LABEL, ""),
    )


def _pods(pods: Iterable[Object]) -> Iterable[PodRow]:
    for pod in pods:
        if not (taken := claimed(pod)):
            continue
        labels = pod["metadata"].get("labels") or {}
        yield PodRow(
            namespace=pod["metadata"]["namespace"],
            name=pod["metadata"]["name"],
            app=labels.get("app.kubernetes.io/name", ""),
            gpus=taken,
            node=pod["spec"].get("nodeName", ""),
            phase=pod["status"].get("phase", ""),
        )


def collect(kubeconfig: str) -> Overview:
    """Ask the cluster that a kubeconfig file names.

    Raises:
        UnreachableError: it does not answer.
        ForbiddenError: it does not let us list nodes or pods.
    """
    api = KubernetesApi(kubeconfig)
    nodes = [_node(node) for node in api.items("/api/v1/nodes")]
    pods = list(_pods(api.items("/api/v1/pods")))
    return Overview(
        nodes=sorted(nodes, key=lambda row: row.name),
        pods=sorted(pods, key=lambda row: (row.namespace, row.name)),
    )


def _table(title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def show(overview: Overview, console: Console) -> None:
    """Print both tables and the commands to go on with."""
    nodes = (
        (
            row.name,
            "Ready" if row.ready else "NotReady",
            row.os,
            "-" if row.gpus is None else str(row.gpus),
            row.product or "-",
        )
        for row in overview.nodes
    )
    pods = (
        (row.namespace, row.name, str(row.gpus), row.node or "-", row.phase)
        for row in overview.pods
    )
    console.print(_table("Nodes", ("NAME", "STATUS", "OS", "GPUS", "PRODUCT"), nodes))
    console.print()
    console.print(_table("Pods with a GPU", ("NAMESPACE", "NAME", "GPUS", "NODE", "STATUS"), pods))
    console.print("\nWhere to look next:")
    app = next((row for row in overview.pods if row.app), None)
    for what, command in NEXT:
        if "{name}" not in command:
            console.print(f"  {what}: {command}", soft_wrap=True, markup=False, highlight=False)
        elif app:
            text = command.format(namespace=app.namespace, name=app.app)
            console.print(f"  {what}: {text}", soft_wrap=True, markup=False, highlight=False)
