"""What a stack's combination is worth: what clashes in it, the nearest that works, and a verdict.

Over Talos, its NVIDIA extensions, the GPU Operator, the cards, Kubernetes and the CUDA of images.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from gpu_passthrough import cards, images, versions
from gpu_passthrough.combination import (
    PINS,
    RULES,
    Combination,
    Pin,
    drivers,
    kubernetes_ranges,
    operators,
    works,
)
from gpu_passthrough.config import Stack
from gpu_passthrough.problems import Path, Problem
from gpu_passthrough.versions import Version

MAX_CHANGES = 4


def gfd_version(operator: str) -> str | None:
    """The version of GFD that an operator release brings, where known."""
    row = operators().get(versions.parse(operator))
    return row["gfd"] or None if row else None


def combination(stack: Stack) -> Combination | None:
    """The values of a stack that decide; None where it does not say which Talos it runs on."""
    if stack.cluster is None:
        return None
    found = {cards.find(gpu.card) for node in stack.members.values() for gpu in node.gpus}
    return Combination(
        talos=versions.parse(stack.cluster.talos_version),
        kubernetes=versions.parse(stack.cluster.kubernetes_version),
        channel=stack.cluster.extensions.channel,
        kernel_modules=stack.cluster.extensions.kernel_modules,
        operator=versions.parse(stack.gpu_operator.version),
        driver=stack.cluster.extensions.driver,
        architectures=tuple(sorted({card.architecture.name for card in found if card})),
        cuda=tuple((name, cuda) for name, app in stack.apps.items() if (cuda := images.cuda(app))),
    )


def _by_distance(current: Version, others: Iterable[Version]) -> list[Version]:
    """Later versions first, the nearest of them at the front; then earlier ones, latest first."""
    releases = {one for one in others if one.pre is None} - {current}
    later = sorted(one for one in releases if one > current)
    return later + sorted((one for one in releases if one < current), reverse=True)


def _talos(it: Combination) -> list[Version]:
    """Other Talos releases: of those that carry the same drivers, only the nearest."""
    found: dict[tuple[object, ...], Version] = {}
    for release in _by_distance(it.talos, drivers()):
        row = drivers()[release]
        found.setdefault((release.line, row["lts"], row["production"]), release)
    return list(found.values())


def _minors() -> set[Version]:
    ranges = kubernetes_ranges().values()
    lowest = min(low.minor for low, _ in ranges)
    highest = max(high.minor for _, high in ranges)
    return {Version(1, minor, 0) for minor in range(lowest, highest + 1)}


def _values(it: Combination, pin: Pin) -> list[object]:
    """The other values that a pin may take, the nearest first."""
    if pin == "talos":
        return list(_talos(it))
    if pin == "operator":
        return list(_by_distance(it.operator, operators()))
    if pin == "kubernetes":
        return list(_by_distance(it.kubernetes, _minors()))
    if pin == "channel":
        return [one for one in ("lts", "production") if one != it.channel]
    if pin == "kernel_modules":
        return [one for one in ("nonfree", "open") if one != it.kernel_modules]
    return [None] if it.driver else []


@dataclass(frozen=True)
class Alternative:
    """A combination that works, and what has to change for it."""

    changes: tuple[tuple[Pin, str], ...]

    def __str__(self) -> str:
        return " and ".join(
            f"{PINS[pin][0]} {value}" if value != "None" else "no expected driver"
            for pin, value in self.changes
        )


def _alternatives(it: Combination, pins: tuple[Pin, ...]) -> Iterator[Alternative]:
    """The nearest combination that works when exactly these pins change, if there is one."""
    for values in itertools.product(*(_values(it, pin) for pin in pins)):
        if works(replace(it, **dict(zip(pins, values, strict=True)))):  # type: ignore[arg-type]
            yield Alternative(tuple((pin, str(v)) for pin, v in zip(pins, values, strict=True)))
            return


@cache
def nearest_to(it: Combination) -> tuple[Alternative, ...]:
    """The combinations that work with as few changes as possible, the smallest change first."""
    for count in range(1, MAX_CHANGES + 1):
        found = [
            alternative
            for pins in itertools.combinations(PINS, count)
            for alternative in _alternatives(it, pins)
        ]
        if found:
            return tuple(found)
    return ()


def nearest(stack: Stack) -> tuple[Alternative, ...]:
    """The nearest combinations that work for a stack that does not; empty where there is none."""
    it = combination(stack)
    return nearest_to(it) if it is not None and not works(it) else ()


def _first_card(stack: Stack, architecture: str) -> Path | None:
    top = "nodes" if stack.nodes else "machines"
    for name, machine in stack.members.items():
        for position, gpu in enumerate(machine.gpus):
            card = cards.find(gpu.card)
            if card is not None and card.architecture.name == architecture:
                return (top, name, "gpus", position, "card")
    return None


def _advice(it: Combination) -> str:
    found = nearest_to(it)
    if not found:
        return (
            "No combination that is known drives all of these cards; give those of different"
            " generations clusters of their own."
        )
    return "Nearest that works: " + "; or ".join(str(one) for one in found) + "."


def problems(stack: Stack) -> Iterator[Problem]:
    """What does not fit together in a stack."""
    it = combination(stack)
    if it is None:
        return
    for name, rule in RULES.items():
        for conflict in rule(it):
            sides = [PINS[pin][1] for pin in conflict.pins if pin != "driver" or it.driver]
            if conflict.architecture and (path := _first_card(stack, conflict.architecture)):
                sides.insert(0, path)
            if conflict.app:
                said = "cuda" if stack.apps[conflict.app].cuda else "image"
                sides.insert(0, ("apps", conflict.app, said))
            yield Problem(
                sides[0],
                conflict.message,
                rule=name,
                why=conflict.why,
                fix=_advice(it),
                also=tuple(sides[1:]),
            )


Level = Literal["refused", "works, not vendor-tested", "vendor-tested", "not judged"]


@dataclass(frozen=True)
class Verdict:
    """How much stands behind a stack's combination, and in one line what to know about it."""

    level: Level
    text: str
    alternatives: tuple[str, ...] = ()


def _tested_pairs() -> list[tuple[Version, Version]]:
    return [
        (versions.parse(row["tested_with"]), chart)
        for chart, row in operators().items()
        if row["tested_with"]
    ]


def _tested_alternative(it: Combination) -> str:
    """The vendor-tested pair that changes least: the same Talos, else the nearest one."""
    pairs = _tested_pairs()
    talos, chart = next((pair for pair in pairs if pair[0] == it.talos), pairs[0])
    same = "with the same Talos" if talos == it.talos else f"with Talos {talos}"
    return f"GPU Operator {chart} {same}"


def verdict(stack: Stack) -> Verdict:
    """What is known about a stack's combination: one line for a preview."""
    it = combination(stack)
    if it is None:
        text = "Which system runs below Kubernetes is not given, so its driver cannot be judged."
        return Verdict("not judged", f"Compatibility: not judged. {text}")
    pair = f"Talos {it.talos} with GPU Operator {it.operator}"
    if not works(it):
        found = tuple(str(one) for one in nearest_to(it))
        return Verdict("refused", f"Compatibility: {pair} cannot work.", found)
    if (it.talos, it.operator) in _tested_pairs():
        return Verdict("vendor-tested", f"Compatibility: {pair} is what Talos' own tests install.")
    other = _tested_alternative(it)
    driver = it.shipped_driver() or "a driver newer than the table here"
    text = f"{pair} and driver {driver} works, not vendor-tested; vendor-tested: {other}."
    return Verdict("works, not vendor-tested", f"Compatibility: {text}", (other,))
