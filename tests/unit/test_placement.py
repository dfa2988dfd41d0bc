"""Planning: what fits where, against a search that tries everything."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_passthrough import placement
from gpu_passthrough.config import App, Stack

from .stacks import app, changed, gpu, node

KINDS = ("RTX 3090", "RTX 4070 Ti Super", "RTX 3080")


def stack_of(nodes: dict[str, Any], apps: dict[str, Any], **change: Any) -> Stack:
    values = changed(change)
    values["nodes"] = {"k8s-cp-1": node(20, "controlplane"), **nodes}
    values["apps"] = apps
    return Stack.model_validate(values)


def worker(number: int, *cards: str) -> dict[str, Any]:
    return node(number, "worker", *(gpu(card, path=f"0000:{n:02x}:00", iommuGroup=n)
                                    for n, card in enumerate(cards)))  # fmt: skip


def fits_somehow(stack: Stack) -> bool:
    """Whether any way of placing every pod works: tries them all."""
    offers = placement.offers(stack)
    pods = [one for one in stack.apps.values() for _ in range(placement.pods(one))]
    choices = [
        [o for o in offers if placement.reason_against(pod, o.node, o.kind) is None] for pod in pods
    ]
    for way in itertools.product(*choices):
        used: dict[str, int] = {}
        for pod, offer in zip(pods, way, strict=True):
            used[offer.node] = used.get(offer.node, 0) + pod.gpus
        if all(used.get(o.node, 0) <= o.kind.slots for o in offers):
            return True
    return False


def check_plan(stack: Stack) -> bool:
    """Whether the plan places every pod; it must be a possible one in any case."""
    plan = placement.plan(stack)
    used = {offer.node: 0 for offer in plan.offers}
    for placed in plan.apps:
        assert 0 <= placed.missing <= placed.asked
        for name, count in placed.nodes.items():
            assert name not in placed.reasons
            assert count >= 0
            used[name] += count * placed.gpus
    for offer in plan.offers:
        assert used[offer.node] + plan.free[offer.node] == offer.kind.slots
        assert plan.free[offer.node] >= 0
    return all(placed.missing == 0 for placed in plan.apps)


apps_of_one = st.lists(
    st.builds(
        app,
        vramMib=st.sampled_from([None, 10240, 16376, 24576]),
        replicas=st.integers(0, 2),
        nodeSelector=st.sampled_from(
            [{}, {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-3090"},
             {"kubernetes.io/hostname": "w1"}, {"zone": "a"}]
        ),
    ),
    max_size=3,
)  # fmt: skip
workers = st.lists(st.lists(st.sampled_from(KINDS), max_size=2), max_size=3)


@settings(max_examples=150, deadline=None)
@given(workers, apps_of_one)
def test_apps_with_one_gpu_are_placed_whenever_it_is_possible(
    cards: list[list[str]], apps: list[dict[str, Any]]
) -> None:
    nodes = {f"w{n}": worker(30 + n, *kinds) for n, kinds in enumerate(cards)}
    stack = stack_of(nodes, {f"app-{n}": one for n, one in enumerate(apps)})
    assert check_plan(stack) == fits_somehow(stack)


@settings(max_examples=100, deadline=None)
@given(workers, st.lists(st.integers(1, 3), max_size=3))
def test_apps_with_several_gpus_are_never_overplaced(
    cards: list[list[str]], sizes: list[int]
) -> None:
    nodes = {f"w{n}": worker(30 + n, *kinds) for n, kinds in enumerate(cards)}
    stack = stack_of(nodes, {f"app-{n}": app(gpus=size) for n, size in enumerate(sizes)})
    assert not check_plan(stack) or fits_somehow(stack)


@pytest.mark.parametrize(
    ("strategy", "replicas", "count"),
    [
        ("Recreate", 3, 3), ("RollingUpdate", 1, 2), ("RollingUpdate", 4, 5),
        ("RollingUpdate", 5, 7), ("RollingUpdate", 0, 0), ("Recreate", 0, 0),
    ],
)  # fmt: skip
def test_pods_at_once(strategy: str, replicas: int, count: int) -> None:
    found = App.model_validate(app(strategy=strategy, replicas=replicas))
    assert placement.pods(found) == count


def test_a_card_on_a_control_plane_node_serves_where_it_is_allowed() -> None:
    values = changed({"cluster": {"scheduleOnControlPlanes": True}})
    values["nodes"] = {"only": node(20, "controlplane", gpu("RTX 3090"))}
    allowed = Stack.model_validate(values)
    assert check_plan(allowed)
    values["cluster"]["scheduleOnControlPlanes"] = False
    assert not check_plan(Stack.model_validate(values))


def test_a_node_with_different_cards_has_no_product() -> None:
    pinned = app(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-3090"})
    stack = stack_of({"w1": worker(31, "RTX 3090", "RTX 3080")}, {"pinned": pinned, "any": app()})
    plan = placement.plan(stack)
    assert [placed.missing for placed in plan.apps] == [1, 0]
    assert "its cards differ" in plan.apps[0].reasons["w1"]


def test_a_node_with_different_cards_serves_what_the_smallest_can() -> None:
    nodes = {"w1": worker(31, "RTX 3090", "RTX 3080")}
    assert check_plan(stack_of(nodes, {"small": app(vramMib=10240)}))
    assert not check_plan(stack_of(nodes, {"large": app(vramMib=10241)}))


def test_products_for_an_affinity() -> None:
    nodes = {"w1": worker(31, "RTX 3090"), "w2": worker(32, "RTX 4070 Ti Super")}
    stack = stack_of(nodes, {"large": app(vramMib=20000), "any": app()})
    assert placement.products_for(stack, "large") == ["NVIDIA-GeForce-RTX-3090"]
    assert len(placement.products_for(stack, "any")) == 2
