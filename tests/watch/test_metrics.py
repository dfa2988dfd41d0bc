"""Which source is asked for which card, and what is said where none answers."""

from __future__ import annotations

import pytest

from gpu_passthrough.watch.metrics import look, read
from tests.watch.cluster import SMI, FakeCluster, dcgm, exporter, in_memory, node, pod

__all__ = ["in_memory"]
pytestmark = pytest.mark.usefixtures("in_memory")
ONE = SMI.format(gpu=1)


def test_exporters_are_asked_and_nobody_else() -> None:
    cluster = FakeCluster(
        [node("w2", 1), node("w1", 2), node("cp", 0)],
        [exporter("w1"), exporter("w2"), pod("ml-0", "w1")],
        exporter_w1=dcgm(1, 2),
        exporter_w2=dcgm(3, pod=""),
    )
    found = look(cluster)
    assert [(one.node, one.uuid, one.source) for one in found.samples] == [
        ("w1", "GPU-1", "dcgm"),
        ("w1", "GPU-2", "dcgm"),
        ("w2", "GPU-3", "dcgm"),
    ]
    assert (found.notes, found.unread) == ([], [])
    assert sorted(cluster.asked) == [
        ("exporter-w1", (9400, "/metrics")),
        ("exporter-w2", (9400, "/metrics")),
    ]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("!port-forward is refused: Forbidden", "of no use: port-forward is refused: Forbidden"),
        ("<html>", "of no use: line 1 is no metric"),
        ("", "names no GPU"),
    ],
)
def test_without_an_exporter_s_answer_the_holder_is_asked(answer: str, why: str) -> None:
    cluster = FakeCluster(
        [node("w1", 1)], [exporter("w1"), pod("ml-0", "w1")], exporter_w1=answer, ml_0=ONE
    )
    found = look(cluster)
    assert [(one.source, one.pods) for one in found.samples] == [("nvidia-smi", ("apps/ml-0",))]
    assert found.unread == []
    assert why in found.notes[0]
    assert cluster.asked[-1] == ("ml-0", ("main", "nvidia-smi"))


@pytest.mark.parametrize("pods", [[], [exporter("w1", phase="Pending")]])
def test_an_exporter_that_does_not_run_is_said(pods: list[object]) -> None:
    found = look(FakeCluster([node("w1", 1)], [*pods, pod("ml-0", "w1")], ml_0=ONE))
    assert len(found.samples) == 1
    assert found.notes == ["w1: no DCGM exporter runs"]


def test_cards_that_the_exporter_leaves_out_are_looked_for_and_counted() -> None:
    nodes = [node("w1", 3)]
    pods = [exporter("w1"), pod("ml-0", "w1"), pod("done", "w1", phase="Succeeded")]
    found = look(FakeCluster(nodes, pods, exporter_w1=dcgm(2), ml_0=ONE))
    assert [(one.uuid, one.source) for one in found.samples] == [
        ("GPU-1", "nvidia-smi"),
        ("GPU-2", "dcgm"),
    ]
    assert found.unread[0].startswith("w1: 1 GPU unknown: ")


def test_a_free_card_without_exporter_is_not_read() -> None:
    found = look(FakeCluster([node("w1", 2)], []))
    assert found.samples == []
    assert found.unread == [
        "w1: 2 GPUs unknown: no DCGM exporter runs; no holder's nvidia-smi shows it"
    ]


def test_a_holder_that_does_not_answer_is_said() -> None:
    found = look(FakeCluster([node("w1", 1)], [pod("ml-0", "w1")], ml_0="!exec is refused: no"))
    assert found.notes == ["w1: pod apps/ml-0: exec is refused: no"]
    assert len(found.unread) == 1


def test_a_node_that_is_not_ready_is_not_asked() -> None:
    cluster = FakeCluster([node("w1", 1, ready="Unknown")], [exporter("w1")], exporter_w1=dcgm(1))
    assert look(cluster).unread == ["w1: 1 GPU unknown: it is not Ready"]
    assert cluster.asked == []


def test_shared_cards_are_counted_by_their_label_and_not_by_their_slots() -> None:
    shared = node("w1", 4, **{"nvidia.com/gpu.count": "1"})
    assert look(FakeCluster([shared], [exporter("w1")], exporter_w1=dcgm(1))).unread == []


def test_a_cluster_without_gpus_has_nothing_to_read() -> None:
    assert read(FakeCluster([node("cp", 0)], [pod("web", "cp", gpus=0)])) == []
