"""Which pods are asked to compute, and on how many cards."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from gpu_passthrough.config import Sharing, Stack
from gpu_passthrough.judging import judge
from gpu_passthrough.verify import compute
from gpu_passthrough.verify.cluster import Probed
from gpu_passthrough.verify.state import State, cards_by_node
from tests.unit.stacks import changed
from tests.verify.test_verify import answered, healthy, node, pod


class Asked(compute.Prober):
    """A prober that notes what it is asked, and whose pods see the cards that they claim."""

    def __init__(self, stack: Stack, *, holders: bool = False) -> None:
        super().__init__(None, stack, 1.0, holders)  # type: ignore[arg-type]
        self.pods: list[tuple[str, int, bool]]
        object.__setattr__(self, "pods", [])

    def run(self, app: Any, node: str, *, gpus: int, runtime: bool) -> Probed:
        self.pods.append((node, gpus, runtime))
        card = {"name": "card", "computes": True, "error": ""}
        return answered(gpus=[card] * (gpus or 1))


@pytest.fixture
def stack() -> Stack:
    return judge(changed({}))


def asked(
    stack: Stack, state: State, down: set[str] | None = None, *, holders: bool = False
) -> tuple[Asked, list[Any]]:
    prober = Asked(stack, holders=holders)
    return prober, list(compute.on_nodes(prober, state, down or set()))


def test_a_free_card_is_claimed_and_a_taken_one_is_not(stack: Stack) -> None:
    prober, found = asked(stack, healthy())
    assert sorted(prober.pods) == [
        ("k8s-worker-1", 0, False),
        ("k8s-worker-1", 0, True),
        ("k8s-worker-2", 0, False),
        ("k8s-worker-2", 0, True),
        ("k8s-worker-2", 1, True),
    ]
    assert {one.status for one in found} == {"passed"}


def test_a_machine_that_is_off_is_not_asked(stack: Stack) -> None:
    prober, _ = asked(stack, healthy(), {"k8s-worker-2"})
    assert {name for name, *_ in prober.pods} == {"k8s-worker-1"}


def test_one_slot_of_shared_cards_is_claimed(stack: Stack) -> None:
    operator = stack.gpu_operator.model_copy(update={"sharing": Sharing(replicas=4)})
    state = deepcopy(healthy())
    state.nodes["k8s-worker-2"]["status"]["allocatable"] = {"nvidia.com/gpu": "4"}
    prober, _ = asked(stack.model_copy(update={"gpu_operator": operator}), state)
    assert ("k8s-worker-2", 1, True) in prober.pods


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (answered(), "passed"),
        (answered(init=100, gpus=[], error="cuInit gives 100"), "failed"),
        (Probed(problem="python3: not found"), "could-not-tell"),
    ],
)
def test_somebody_else_s_pod_is_asked_for_its_card(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, said: Probed, status: str
) -> None:
    state = deepcopy(healthy())
    other = pod("theirs")
    other["metadata"]["labels"] = {}
    state.pods[:] = [other]
    monkeypatch.setattr(compute, "_probe_in", lambda cluster, pod, container: said)
    _, found = asked(stack, state, holders=True)
    holders = [one for one in found if one.id == "compute-holder"]
    assert [(one.subject, one.status) for one in holders] == [("immich/theirs", status)]


def test_somebody_else_s_pod_is_left_alone_without_being_asked_to(stack: Stack) -> None:
    state = deepcopy(healthy())
    other = pod("theirs")
    other["metadata"]["labels"] = {}
    state.pods[:] = [other]
    _, found = asked(stack, state)
    (holder,) = [one for one in found if one.id == "compute-holder"]
    assert (holder.status, "--holders" in holder.cause) == ("could-not-tell", True)


def test_a_proof_without_anything_to_compute_on_is_none(stack: Stack) -> None:
    state = deepcopy(healthy())
    state.nodes.clear()  # type: ignore[attr-defined]
    _, found = asked(stack, state)
    assert [one.fails for one in found] == [True]
    for proof in (False, True):
        _, found = asked(stack.model_copy(update={"apps": {}, "proof": proof}), healthy())
        assert [one.fails for one in found] == [proof]


def test_a_stack_without_machines_has_the_cluster_s(stack: Stack) -> None:
    bare = stack.model_copy(update={"nodes": {}, "machines": {}})
    state = deepcopy(healthy())
    assert cards_by_node(bare, state) == {"k8s-worker-1": 1, "k8s-worker-2": 1}
    state.nodes["more"] = node("more")  # type: ignore[index]
    state.nodes["more"]["status"]["capacity"] = {"nvidia.com/gpu": "2"}
    assert cards_by_node(bare, state)["more"] == 2
    prober, _ = asked(bare, state)
    assert {name for name, *_ in prober.pods} == {"k8s-worker-1", "k8s-worker-2", "more"}


class Deleting:
    """A cluster that notes what is deleted."""

    def __init__(self) -> None:
        self.gone: list[str] = []

    def delete(self, path: str) -> None:
        self.gone.append(path)


def test_pods_of_a_verification_that_was_killed_are_swept() -> None:
    state = deepcopy(healthy())
    for name, phase in (("gpu-verify-1", "Failed"), ("gpu-verify-2", "Running")):
        left = pod(name, status={"phase": phase})
        left["metadata"]["labels"] = {"app.kubernetes.io/name": "gpu-verify"}
        state.pods.append(left)
    cluster = Deleting()
    compute._sweep(cluster, state)  # type: ignore[arg-type]
    assert cluster.gone == ["/api/v1/namespaces/immich/pods/gpu-verify-1"]
