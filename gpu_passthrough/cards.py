"""The card catalogue: what a card is, by the name that people use for it."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache

from gpu_passthrough import tables

_SHORT = re.compile(r"\b(nvidia|geforce|tesla|quadro|generation)\b")
_SEPARATORS = re.compile(r"[\s\-_()]+")
GIB_IN_MIB = 1024


@dataclass(frozen=True)
class Architecture:
    """What an architecture asks of kernel modules, driver branches and CUDA versions."""

    name: str
    kernel_modules: frozenset[str]
    driver_min: int | None
    driver_max: int | None
    cuda_min: str | None
    cuda_max: str | None
    gfd_family: str
    source: str


@dataclass(frozen=True)
class Card:
    """A card: marketing name and memory, and what NVML calls it and counts, where known."""

    name: str
    line: str
    architecture: Architecture
    compute_capability: tuple[int, int]
    vram_gib: int
    pci_ids: tuple[str, ...]
    nvml_name: str | None
    nvml_memory_mib: int | None
    source: str
    nvml_source: str | None

    @property
    def usable_mib(self) -> int:
        """Memory for planning: NVML's where known, else the box's, which is an upper bound."""
        return self.nvml_memory_mib or self.vram_gib * GIB_IN_MIB


def _number(text: str) -> int | None:
    return int(text) if text else None


@cache
def architectures() -> dict[str, Architecture]:
    """Every architecture, by name."""
    return {
        row["architecture"]: Architecture(
            name=row["architecture"],
            kernel_modules=frozenset(row["kernel_modules"].split()),
            driver_min=_number(row["driver_min"]),
            driver_max=_number(row["driver_max"]),
            cuda_min=row["cuda_min"] or None,
            cuda_max=row["cuda_max"] or None,
            gfd_family=row["gfd"],
            source=row["source"],
        )
        for row in tables.rows("architectures")
    }


def _card(row: dict[str, str]) -> Card:
    major, minor = row["compute_capability"].split(".")
    return Card(
        name=row["card"],
        line=row["line"],
        architecture=architectures()[row["architecture"]],
        compute_capability=(int(major), int(minor)),
        vram_gib=int(row["vram_gib"]),
        pci_ids=tuple(row["pci_ids"].split()),
        nvml_name=row["nvml_name"] or None,
        nvml_memory_mib=_number(row["nvml_memory_mib"]),
        source=row["source"],
        nvml_source=row["nvml_source"] or None,
    )


@cache
def catalogue() -> tuple[Card, ...]:
    """Every card that is known."""
    return tuple(_card(row) for row in tables.rows("cards"))


def _plain(name: str) -> str:
    return _SEPARATORS.sub(" ", name.lower()).strip()


def _short(name: str) -> str:
    return _SEPARATORS.sub(" ", _SHORT.sub("", _plain(name))).strip()


@cache
def _by_name() -> dict[str, Card]:
    """Cards by full, NVML and short name; a name that means two cards is left out."""
    names: dict[str, set[Card]] = {}
    for card in catalogue():
        for name in {_short(card.name), _short(card.nvml_name or card.name)}:
            names.setdefault(name, set()).add(card)
    unique = {name: cards.copy().pop() for name, cards in names.items() if len(cards) == 1}
    return unique | {_short(card.name): card for card in catalogue()} | _full()


def _full() -> dict[str, Card]:
    return {_plain(card.name): card for card in catalogue()}


@cache
def find(name: str) -> Card | None:
    """The card of that name: case, separators and the words NVIDIA or GeForce don't matter."""
    return _by_name().get(_plain(name)) or _by_name().get(_short(name))


def near(name: str, count: int = 3) -> list[str]:
    """The names in the catalogue that are most like a name, best first."""
    names = {_short(card.name): card.name for card in catalogue()}
    wanted = _short(name)
    longer = [one for one in names if wanted and one.startswith(wanted)]
    alike = difflib.get_close_matches(wanted, names, n=count, cutoff=0.5)
    return [names[one] for one in dict.fromkeys([*longer, *alike])][:count]


def of_device(pci_id: str) -> list[Card]:
    """The cards that carry a vendor:device id, for example 10de:2204; some share one."""
    vendor, _, device = pci_id.partition(":")
    if vendor != "10de":
        return []
    return [card for card in catalogue() if device in card.pci_ids]
