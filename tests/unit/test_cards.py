"""The catalogue and the labels that follow from it."""

from __future__ import annotations

import re

import pytest

from gpu_passthrough import cards, gfd

LABEL_VALUE = re.compile(r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")


@pytest.mark.parametrize("card", cards.catalogue(), ids=lambda card: card.name)
def test_every_row_holds_together(card: cards.Card) -> None:
    assert cards.find(card.name) is card
    assert card.source
    assert all(re.fullmatch(r"[0-9a-f]{4}", one) for one in card.pci_ids)
    assert (card.nvml_memory_mib is None) == (card.nvml_source is None)
    if card.nvml_memory_mib is not None:
        assert card.nvml_name is not None
        assert 0.9 * card.vram_gib * 1024 < card.nvml_memory_mib <= card.vram_gib * 1024
    if card.nvml_name is not None:
        assert LABEL_VALUE.match(gfd.product(card.nvml_name))


def test_the_catalogue_spans_lines_and_architectures() -> None:
    assert set(cards.architectures()) == {card.architecture.name for card in cards.catalogue()}
    assert {card.line for card in cards.catalogue()} == {
        "GeForce",
        "RTX professional",
        "data centre",
    }


def test_capability_follows_the_architecture() -> None:
    major = {
        "Maxwell": {5}, "Pascal": {6}, "Volta": {7}, "Turing": {7}, "Ampere": {8},
        "Ada Lovelace": {8}, "Hopper": {9}, "Blackwell": {10, 12},
    }  # fmt: skip
    for card in cards.catalogue():
        assert card.compute_capability[0] in major[card.architecture.name]


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("RTX 3090", "GeForce RTX 3090"),
        ("nvidia geforce rtx-3090", "GeForce RTX 3090"),
        ("RTX 4070 Ti Super", "GeForce RTX 4070 Ti SUPER"),
        ("RTX 4070 Ti", "GeForce RTX 4070 Ti"),
        ("Tesla T4", "T4"),
        ("P4", "Tesla P4"),
        ("H100 80GB HBM3", "H100 SXM5 80GB"),
        ("RTX 6000 Ada", "RTX 6000 Ada Generation"),
        ("RTX 3080 12GB", "GeForce RTX 3080 12GB"),
    ],
)
def test_names_that_people_use(name: str, card: str) -> None:
    found = cards.find(name)
    assert found is not None
    assert found.name == card


@pytest.mark.parametrize("name", ["RTX 4060 Ti", "A100", "RTX 3095", "", "3090 RTX"])
def test_a_name_that_means_no_card_or_several(name: str) -> None:
    assert cards.find(name) is None


def test_near_names_begin_with_what_was_written() -> None:
    assert cards.near("A100")[0].startswith("A100")
    assert set(cards.near("RTX 4060 Ti")) >= {"GeForce RTX 4060 Ti 8GB", "GeForce RTX 4060 Ti 16GB"}


@pytest.mark.parametrize(
    ("nvml", "label"),
    [
        ("NVIDIA GeForce RTX 3090", "NVIDIA-GeForce-RTX-3090"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "NVIDIA-GeForce-RTX-4070-Ti-SUPER"),
        ("NVIDIA TITAN X (Pascal)", "NVIDIA-TITAN-X-Pascal"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"),
        ("Tesla  T4", "Tesla-T4"),
    ],
)
def test_product_label(nvml: str, label: str) -> None:
    assert gfd.product(nvml) == label


def card(name: str) -> cards.Card:
    found = cards.find(name)
    assert found is not None
    return found


def test_labels_of_the_documents_cards() -> None:
    first = gfd.labels(card("RTX 3090"), 1, gfd="v0.17.0")
    assert first["nvidia.com/gpu.memory"] == "24576"
    assert first["nvidia.com/gpu.compute.major"] == "8"
    assert first["nvidia.com/gpu.family"] == "ampere"
    second = gfd.labels(card("RTX 4070 Ti Super"), 1, gfd="v0.17.0")
    assert second["nvidia.com/gpu.memory"] == "16376"


@pytest.mark.parametrize(
    ("name", "version", "family"),
    [
        ("RTX 4090", "v0.17.0", "ampere"), ("RTX 4090", "v0.19.3", "ampere"),
        ("RTX 4090", "v0.20.0", "ada-lovelace"), ("RTX 5090", "v0.17.0", "undefined"),
        ("RTX 5090", "v0.20.0", "blackwell"), ("RTX 5090", None, None),
        ("RTX 3090", None, "ampere"),
    ],
)  # fmt: skip
def test_the_family_has_the_bugs_of_its_version(
    name: str, version: str | None, family: str | None
) -> None:
    assert gfd.labels(card(name), 1, gfd=version).get("nvidia.com/gpu.family") == family


def test_no_label_of_a_value_that_is_not_known() -> None:
    found = gfd.labels(card("GTX 980"), 1, gfd="v0.17.0")
    assert "nvidia.com/gpu.product" not in found
    assert "nvidia.com/gpu.memory" not in found


def test_sharing_shows_in_the_labels() -> None:
    shared = gfd.labels(card("RTX 3090"), 2, gfd="v0.17.0", slots=4)
    assert shared["nvidia.com/gpu.product"] == "NVIDIA-GeForce-RTX-3090-SHARED"
    assert shared["nvidia.com/gpu.replicas"] == "4"
    renamed = gfd.labels(card("RTX 3090"), 2, gfd="v0.17.0", slots=4, renamed=True)
    assert renamed["nvidia.com/gpu.product"] == "NVIDIA-GeForce-RTX-3090"


def test_cards_by_device() -> None:
    assert [one.name for one in cards.of_device("10de:2204")] == ["GeForce RTX 3090"]
    assert len(cards.of_device("10de:2d04")) == 2
    assert cards.of_device("1002:2204") == []
