"""Which GPU a claim is served with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rack.cluster.devices import Devices, allocate


def pod(uid: str, *claims: int) -> dict[str, Any]:
    containers = [
        {"name": f"c{n}", "resources": {"limits": {"nvidia.com/gpu": str(claim)} if claim else {}}}
        for n, claim in enumerate(claims)
    ]
    return {"metadata": {"uid": uid}, "spec": {"containers": containers}}


@pytest.mark.parametrize(
    ("claims", "free", "expected"),
    [
        pytest.param({"a": 1}, {"x": 1, "y": 1}, {"a": ("x",)}, id="one"),
        pytest.param({"a": 2}, {"x": 1, "y": 1}, {"a": ("x", "y")}, id="both"),
        pytest.param({"a": 1, "b": 1}, {"x": 1, "y": 1}, {"a": ("x",), "b": ("y",)}, id="each"),
        pytest.param({"a": 1}, {"x": 0, "y": 1}, {"a": ("y",)}, id="taken"),
        pytest.param({"a": 2}, {"x": 0, "y": 1}, {"a": ("y",)}, id="too-few"),
        pytest.param({"a": 0}, {"x": 1}, {"a": ()}, id="none-claimed"),
        pytest.param({"a": 1}, {"x": 1, "y": 3}, {"a": ("y",)}, id="shared-spread"),
        pytest.param({"a": 2}, {"x": 4}, {"a": ("x",)}, id="never-the-same-twice"),
    ],
)
def test_allocate(
    claims: dict[str, int], free: dict[str, int], expected: dict[str, tuple[str, ...]]
) -> None:
    assert allocate(claims, free) == expected


def test_no_gpu_is_given_twice(tmp_path: Path) -> None:
    devices = Devices(tmp_path / "devices.json")
    first = devices.of(pod("1", 1), ["x", "y"], 1)
    second = devices.of(pod("2", 1), ["x", "y"], 1)
    third = devices.of(pod("3", 1), ["x", "y"], 1)
    assert {*first["c0"], *second["c0"]} == {"x", "y"}
    assert third["c0"] == ()


def test_a_shared_gpu_is_given_as_often_as_it_has_slots(tmp_path: Path) -> None:
    devices = Devices(tmp_path / "devices.json")
    found = [devices.of(pod(str(n), 1), ["x"], 2)["c0"] for n in range(3)]
    assert found == [("x",), ("x",), ()]


def test_a_pod_keeps_what_it_has(tmp_path: Path) -> None:
    devices = Devices(tmp_path / "devices.json")
    before = devices.of(pod("1", 1), ["x", "y"], 1)
    assert devices.of(pod("1", 1), ["y", "x"], 1) == before
    again = Devices(tmp_path / "devices.json")
    assert again.of(pod("1", 1), ["y"], 1) == before
    assert again.of(pod("2", 1), ["x", "y"], 1) != before


def test_what_is_released_can_be_given_again(tmp_path: Path) -> None:
    devices = Devices(tmp_path / "devices.json")
    before = devices.of(pod("1", 1), ["x"], 1)
    devices.release("1")
    assert devices.of(pod("2", 1), ["x"], 1) == before
    devices.keep_only({"3"})
    assert devices.of(pod("3", 1), ["x"], 1) == before


def test_a_damaged_checkpoint_is_an_empty_one(tmp_path: Path) -> None:
    file = tmp_path / "devices.json"
    file.write_text("{")
    assert Devices(file).of(pod("1", 1), ["x"], 1) == {"c0": ("x",)}


def test_a_pod_without_a_claim_is_not_remembered(tmp_path: Path) -> None:
    devices = Devices(tmp_path / "devices.json")
    assert devices.of(pod("1", 0), ["x"], 1) == {}
    assert not (tmp_path / "devices.json").exists()
