"""Labels of GPU Feature Discovery, and sharing of cards."""

from __future__ import annotations

import json

import pytest

from rack.world.gfd import family, label_value, labels
from rack.world.nodefacts import GpuFacts
from rack.world.sharing import Sharing, parse, sharing
from tests.model.operatorworld import policy
from tests.model.podworld import RTX_3090, RTX_4070, node

GPU = "nvidia.com/gpu."
CONFIG = {
    "version": "v1",
    "sharing": {
        "timeSlicing": {
            "renameByDefault": False,
            "failRequestsGreaterThanOne": True,
            "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
        }
    },
}


def test_the_documents_labels() -> None:
    found = labels(node(RTX_3090), "v0.17.0")
    assert found[f"{GPU}product"] == "NVIDIA-GeForce-RTX-3090"
    assert found[f"{GPU}memory"] == "24576"
    assert found[f"{GPU}compute.major"] == "8"
    assert found[f"{GPU}family"] == "ampere"
    assert found[f"{GPU}count"] == "1"
    assert found[f"{GPU}machine"] == "Standard-PC-Q35-ICH9-2009"
    assert found["nvidia.com/cuda.driver-version.full"] == "580.178.04"
    assert found["nvidia.com/cuda.runtime-version.full"] == "13.0"
    assert found["nvidia.com/mig.capable"] == "false"


def test_a_card_on_the_old_bus_is_in_another_machine() -> None:
    gpu = RTX_3090.model_copy(update={"guest_address": "0000:00:10.0"})
    assert "i440FX" in labels(node(gpu), "v0.17.0")[f"{GPU}machine"]


@pytest.mark.parametrize(
    ("capability", "version", "expected"),
    [
        ((8, 9), "v0.17.0", "ampere"),
        ((8, 9), "v0.19.3", "ampere"),
        ((8, 9), "v0.20.0", "ada-lovelace"),
        ((12, 0), "v0.17.0", "undefined"),
        ((12, 0), "v0.20.0", "blackwell"),
        ((8, 6), "v0.20.0", "ampere"),
        ((7, 0), "v0.17.0", "volta"),
        ((7, 5), "v0.17.0", "turing"),
    ],
)
def test_families(capability: tuple[int, int], version: str, expected: str) -> None:
    assert family(capability, version) == expected


def test_names_lose_what_a_label_cannot_hold() -> None:
    assert label_value("NVIDIA (RTX)  6000/Ada") == "NVIDIA-RTX-6000Ada"


def test_memory_is_nvmls_and_not_the_boxs() -> None:
    assert labels(node(RTX_4070), "v0.17.0")[f"{GPU}memory"] == "16376"


def test_two_of_a_kind_are_counted() -> None:
    second = RTX_3090.model_copy(update={"uuid": "GPU-2", "guest_address": "0000:02:00.0"})
    assert labels(node(RTX_3090, second), "v0.17.0")[f"{GPU}count"] == "2"


@pytest.mark.parametrize("gpus", [(), (RTX_3090,)])
def test_without_a_driven_card_only_the_time(gpus: tuple[GpuFacts, ...]) -> None:
    found = labels(node(*gpus, driven=False), "v0.17.0", timestamp=7)
    assert found == {"nvidia.com/gfd.timestamp": "7"}


def test_shared_cards_are_marked_unless_renamed() -> None:
    shared = labels(node(RTX_3090), "v0.17.0", Sharing(replicas=4))
    assert shared[f"{GPU}product"] == "NVIDIA-GeForce-RTX-3090-SHARED"
    assert shared[f"{GPU}replicas"] == "4"
    renamed = labels(node(RTX_3090), "v0.17.0", Sharing(replicas=4, is_renamed=True))
    assert renamed[f"{GPU}product"] == "NVIDIA-GeForce-RTX-3090"


def test_a_sharing_entry_is_read() -> None:
    found = parse(json.dumps(CONFIG))
    assert found == Sharing(replicas=4, is_renamed=False, largest_claim=1)
    assert found.resource == "nvidia.com/gpu"


def test_renamed_slots_are_another_resource() -> None:
    assert Sharing(replicas=2, is_renamed=True).resource == "nvidia.com/gpu.shared"
    assert Sharing(replicas=1, is_renamed=True).resource == "nvidia.com/gpu"


@pytest.mark.parametrize(
    "text", ["", "version: v1", "{", "sharing: {timeSlicing: {resources: []}}"]
)
def test_other_entries_share_nothing(text: str) -> None:
    assert parse(text) == Sharing()


def test_nothing_is_shared_without_a_default_or_a_label() -> None:
    config = {"four": json.dumps(CONFIG)}
    named = policy(devicePlugin={"config": {"name": "plugin", "default": ""}})
    assert sharing(named, config, {}).replicas == 1
    assert sharing(named, config, {"nvidia.com/device-plugin.config": "four"}).replicas == 4
    default = policy(devicePlugin={"config": {"name": "plugin", "default": "four"}})
    assert sharing(default, config, {}).replicas == 4
