"""DCGM's metrics: the exporter of each GPU node answers, and tells of each of its cards."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from gpu_passthrough.checks.finding import Finding
from gpu_passthrough.config import Stack
from gpu_passthrough.verify.check import ALLOW, Check
from gpu_passthrough.verify.cluster import Cluster
from gpu_passthrough.verify.state import State, cards_by_node, is_ready
from gpu_passthrough.watch.metrics import PORT, Told, exporters

METRICS: Final = Check("metrics", "DCGM tells of each of the node's cards", "operator")
NOT_ASKED: Final = Told([], "no DCGM exporter runs")


def metrics(
    cluster: Cluster, stack: Stack, state: State, down: Collection[str] = ()
) -> Iterator[Finding]:
    """Ask the exporter of each ready GPU node for its cards.

    down: nodes of which the host says that they do not run; Kubernetes notices later.
    """
    if not stack.gpu_operator.dcgm_exporter.enabled:
        return
    alive = [node for name, node in state.nodes.items() if name not in down]
    told = exporters(cluster, alive, state.pods)
    for name, cards in cards_by_node(stack, state).items():
        node = state.nodes.get(name)
        if node is not None and name not in down and is_ready(node):
            yield _judged(stack, name, cards, told.get(name, NOT_ASKED))


def _judged(stack: Stack, name: str, wanted: int, told: Told) -> Finding:
    if told.is_refused:
        return METRICS.unknown(name, told.why, best_effort=False, fix=ALLOW)
    cards = {one.uuid for one in told.samples}
    if len(cards) == wanted:
        return METRICS.passed(name, f"{wanted} of {wanted} cards")
    namespace = stack.gpu_operator.namespace
    return METRICS.failed(
        name,
        told.why or f"its DCGM exporter tells of {len(cards)} cards, the stack says {wanted}",
        "Dashboards and alerts miss these cards.",
        f"kubectl -n {namespace} logs -l app=nvidia-dcgm-exporter --tail 20: a card that it cannot"
        " read is named there. Does the node offer all of its GPUs?",
        f"GET :{PORT}/metrics of the node's nvidia-dcgm-exporter, through a port-forward",
        [f"{one.uuid} {one.name}" for one in told.samples] or told.why,
    )
