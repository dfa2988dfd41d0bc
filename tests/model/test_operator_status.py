"""What the operator says of itself."""

from __future__ import annotations

import pytest

from rack.world.operator import DaemonSetView, Plan, Status, status

COMPLETE = Plan(has_nfd_labels=True, has_gpu_nodes=True)


def operand(unavailable: int = 0, desired: int = 2) -> DaemonSetView:
    return DaemonSetView(state="state-device-plugin", desired=desired, unavailable=unavailable)


def reason(found: Status) -> str:
    return next(one.reason for one in found.conditions if one.status == "True")


def message(found: Status) -> str:
    return next(one.message for one in found.conditions if one.status == "True")


def test_ready_with_all_operands() -> None:
    found = status(COMPLETE, [operand()])
    assert found.state == "ready"
    assert reason(found) == "Reconciled"


def test_not_ready_names_the_states() -> None:
    found = status(COMPLETE, [operand(unavailable=1)])
    assert found.state == "notReady"
    assert reason(found) == "OperandNotReady"
    assert message(found).endswith("states not ready: [state-device-plugin]")


def test_an_operand_for_no_node_is_ready() -> None:
    assert status(COMPLETE, [operand(unavailable=1, desired=0)]).state == "ready"


@pytest.mark.parametrize(
    ("done", "expected"),
    [
        (Plan(has_nfd_labels=True), "NoGPUNodes"),
        (Plan(), "NFDLabelsMissing"),
    ],
)
def test_ready_without_any_gpu(done: Plan, expected: str) -> None:
    found = status(done, [])
    assert found.state == "ready"
    assert reason(found) == expected


@pytest.mark.parametrize("error", ["handler: field is immutable"])
def test_what_the_api_refused_is_an_error(error: str) -> None:
    found = status(COMPLETE, [operand()], error)
    assert found.state == "notReady"
    assert (reason(found), message(found)) == ("ReconcileFailed", error)


def test_an_error_of_the_operator_itself_comes_first() -> None:
    found = status(Plan(error="no number"), [], "later")
    assert message(found) == "no number"


def test_one_condition_is_true() -> None:
    for found in (status(COMPLETE, []), status(COMPLETE, [], "x")):
        assert sorted(one.status for one in found.conditions) == ["False", "True"]
