"""Nodes, GPUs and the pods that hold them: what a cluster offers and who uses it.

Reads the cluster and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

GPU = "nvidia.com/gpu"
PRODUCT_LABEL = "nvidia.com/gpu.product"
TIMEOUT = 10
"""Seconds that one question to the cluster may take."""

NEXT = (
    (
        "GPUs per node",
        "kubectl get nodes -o custom-columns="
        r"'NAME:.metadata.name,GPU:.status.allocatable.nvidia\.com/gpu'",
    ),
    ("the card from inside a pod", "kubectl -n {namespace} exec deploy/{name} -- nvidia-smi"),
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


def _node(node: Any) -> NodeRow:
    conditions = {one.type: one.status for one in node.status.conditions or []}
    allocatable = (node.status.allocatable or {}).get(GPU)
    return NodeRow(
        name=node.metadata.name,
        ready=conditions.get("Ready") == "True",
        os=node.status.node_info.os_image,
        gpus=None if allocatable is None else int(allocatable),
        product=(node.metadata.labels or {}).get(PRODUCT_LABEL, ""),
    )


def _claimed(pod: Any) -> int:
    limits = (container.resources.limits for container in pod.spec.containers)
    return sum(int((limit or {}).get(GPU, 0)) for limit in limits)


def _pods(pods: Iterable[Any]) -> Iterable[PodRow]:
    for pod in pods:
        if not (claimed := _claimed(pod)):
            continue
        labels = pod.metadata.labels or {}
        yield PodRow(
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            app=labels.get("app.kubernetes.io/name", ""),
            gpus=claimed,
            node=pod.spec.node_name or "",
            phase=pod.status.phase,
        )


def collect(kubeconfig: str) -> Overview:
    """Ask the cluster that a kubeconfig file names.

    Raises what the Kubernetes client raises where the cluster does not answer.
    """
    # The client takes half a second to import: only the command that needs it pays.
    from kubernetes import client, config

    core = client.CoreV1Api(config.new_client_from_config(config_file=kubeconfig))
    nodes = core.list_node(_request_timeout=TIMEOUT).items
    pods = core.list_pod_for_all_namespaces(_request_timeout=TIMEOUT).items
    return Overview(
        nodes=sorted((_node(node) for node in nodes), key=lambda row: row.name),
        pods=sorted(_pods(pods), key=lambda row: (row.namespace, row.name)),
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
