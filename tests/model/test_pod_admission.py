"""What keeps a pod from starting on a node at all."""

from __future__ import annotations

from typing import Any

import pytest

from rack.world.pod import admit
from tests.model.podworld import NVIDIA, RTX_3090, context, node, pod


def test_a_gpu_pod_on_a_gpu_node_starts() -> None:
    assert admit(pod(), node(RTX_3090), NVIDIA, context(RTX_3090)) is None


def test_a_plain_pod_needs_no_runtime_class() -> None:
    assert admit(pod("library/busybox", gpus=0, runtime=""), node(), {}) is None


def test_a_handler_that_containerd_lacks_gives_no_sandbox() -> None:
    found = admit(pod(gpus=0), node(toolkit=False), NVIDIA)
    assert found is not None
    assert found.reason == "FailedCreatePodSandBox"
    assert 'no runtime for "nvidia" is configured' in found.message
    assert not found.is_final


def test_a_runtime_class_that_went_gives_no_sandbox() -> None:
    found = admit(pod(gpus=0), node(RTX_3090), {})
    assert found is not None
    assert 'RuntimeClass "nvidia" not found' in found.message


@pytest.mark.parametrize(("allocated", "is_refused"), [((), True), ((RTX_3090,), False)])
def test_a_claim_without_a_card_fails_for_good(allocated: Any, is_refused: bool) -> None:
    found = admit(pod(), node(RTX_3090), NVIDIA, context(*allocated))
    assert (found is not None) == is_refused
    assert found is None or (found.reason == "UnexpectedAdmissionError" and found.is_final)


def test_two_slots_of_shared_cards_are_refused_where_one_is_the_most() -> None:
    many = context(RTX_3090, RTX_3090, largest_claim=1)
    found = admit(pod(gpus=2), node(RTX_3090), NVIDIA, many)
    assert found is not None
    assert "maximum request size for shared resources is 1" in found.message
    assert admit(pod(gpus=1), node(RTX_3090), NVIDIA, many) is None


@pytest.mark.parametrize(
    ("path", "kind", "is_refused"),
    [
        ("/usr/local/nvidia", "DirectoryOrCreate", True),
        ("/usr/local", "DirectoryOrCreate", False),
        ("/run/nvidia/validations", "DirectoryOrCreate", False),
        ("/usr/local/nvidia", "", False),
    ],
)
def test_nothing_is_made_in_talos_root_filesystem(path: str, kind: str, is_refused: bool) -> None:
    made = pod(gpus=0)
    made["spec"]["volumes"] = [{"name": "install", "hostPath": {"path": path, "type": kind}}]
    found = admit(made, node(RTX_3090), NVIDIA)
    assert (found is not None) == is_refused
    assert found is None or found.reason == "FailedMount"
