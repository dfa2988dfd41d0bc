"""The chain of every GPU, layer by layer: what should be, what is, and how it stands there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from gpu_passthrough.checks.finding import Finding, Layer
from gpu_passthrough.config import Stack
from gpu_passthrough.report import facts
from gpu_passthrough.report.concerns import about
from gpu_passthrough.report.facts import Fact, Place
from gpu_passthrough.report.seen import Seen

Standing = Literal["works", "warning", "broken", "unknown", "free", "outside"]

WORDS: Final[dict[Standing, tuple[str, str]]] = {
    "works": ("\N{CHECK MARK}", "works"),
    "warning": ("!", "warning"),
    "broken": ("\N{MULTIPLICATION X}", "broken"),
    "unknown": ("?", "unknown"),
    "free": ("\N{WHITE CIRCLE}", "free"),
    "outside": ("\N{EN DASH}", "not the stack's"),
}
"""Sign and word of each standing: colour alone says nothing to many people."""

LINK_OF_LAYER: Final[dict[Layer, str]] = {
    "api": "host",
    "host": "host",
    "vm": "vm",
    "talos": "node",
    "kubernetes": "node",
    "operator": "gpu",
    "runtime-class": "class",
    "app": "app",
}
LINK_OF_CHECK: Final = {
    "device": "card",
    "device-free": "card",
    "mapping": "card",
    "host-driver": "card",
    "memory": "vm",
    "processors": "vm",
}
"""Checks that are shown closer to what they are about than their layer says."""

TITLES: Final = {
    "host": "Host and IOMMU group",
    "card": "Card",
    "vm": "VM",
    "node": "Talos node and driver",
    "gpu": "Allocatable and labels",
    "class": "RuntimeClass",
    "app": "Pod and app",
}
"""The links, lowest first."""

LOOK: Final = {
    "host": "Not looked at: make preflight asks the host.",
    "card": "Not looked at: make preflight asks the host.",
    "vm": "Not looked at: make preflight asks the host.",
}
"""Who can tell, where it is not the cluster."""

COMPUTING: Final = ("class", "app")
"""Links that only a program that computes proves."""


@dataclass(frozen=True)
class Link:
    """One layer of one GPU."""

    key: str
    title: str
    name: str
    facts: Sequence[Fact]
    standing: Standing
    note: str = ""
    """Why it stands so."""


@dataclass(frozen=True)
class Chain:
    """One GPU's way from the host to a pod."""

    id: str
    title: str
    links: Sequence[Link]

    @property
    def standing(self) -> Standing:
        """The worst of its links, and unknown rather than works."""
        found = [link.standing for link in self.links]
        order: tuple[Standing, ...] = ("broken", "warning", "unknown")
        return next((one for one in order if one in found), "works")


def _key(finding: Finding) -> str:
    """The link that a finding speaks about."""
    return LINK_OF_CHECK.get(finding.id, LINK_OF_LAYER[finding.layer])


def _computes(finding: Finding) -> bool:
    return finding.id.startswith("compute-")


def _counts(finding: Finding) -> bool:
    return not (finding.status == "could-not-tell" and finding.best_effort)


def _standing(findings: Sequence[Finding]) -> tuple[Standing, str]:
    """What findings say together; the worst one speaks."""
    order: tuple[tuple[str, Standing], ...] = (
        ("failed", "broken"),
        ("could-not-tell", "unknown"),
        ("ignored", "warning"),
        ("warning", "warning"),
    )
    counted = [one for one in findings if _counts(one)]
    for status, standing in order:
        for one in counted:
            if one.status == status:
                return standing, one.cause or one.title
    if not counted:
        return "unknown", ""
    return "works", ""


def _offered_all_the_same(findings: Sequence[Finding]) -> bool:
    """Only an operand fails, which may be on another node, and this node has what it should."""
    failed = {one.id for one in findings if one.status == "failed"}
    return failed == {"operands"} and any(
        one.id == "allocatable" and one.status == "passed" for one in findings
    )


def _judged(key: str, place: Place, seen: Seen, found: Sequence[Finding]) -> tuple[Standing, str]:
    """How one link stands, and why."""
    standing, note = _standing(found)
    is_well = standing == "works" or not found
    if key in LOOK and not place.is_ours and not found:
        return "outside", "The stack begins above it."
    if key == "app" and seen.state and is_well and not (place.apps or place.pods):
        return "free", "No pod claims it."
    if standing == "broken" and _offered_all_the_same(found):
        return "warning", f"{note}; this node offers its GPUs all the same."
    if not found:
        return standing, LOOK.get(key) or seen.problem or "No check speaks about it."
    if key in COMPUTING and standing == "works" and not any(_computes(one) for one in found):
        return standing, "Looked at only: whether a program computes, make verify tells."
    return standing, note


def _link(key: str, place: Place, stack: Stack, seen: Seen, found: Sequence[Finding]) -> Link:
    name, said = facts.FACTS[key](place, stack, seen.state)
    return Link(key, TITLES[key], name, said, *_judged(key, place, seen, found))


def _following(links: Sequence[Link]) -> list[Link]:
    """Say of what is broken above another broken link that it follows from that."""
    broken = [link for link in links if link.standing == "broken"]
    if not broken:
        return list(links)
    first = broken[0]
    return [
        replace(link, note=f"{link.note} (may follow from: {first.title})")
        if link in broken[1:]
        else link
        for link in links
    ]


def chains(stack: Stack, seen: Seen, findings: Sequence[Finding]) -> list[Chain]:
    """Every GPU of the stack, or of its cluster where the stack does not list its machines."""
    places = facts.places(stack, seen.state)
    every = facts.every_name(stack, places)
    found = []
    for number, place in enumerate(places, 1):
        mine = [one for one in findings if about(one, place.names, every)]
        links = [
            _link(key, place, stack, seen, [one for one in mine if _key(one) == key])
            for key in TITLES
        ]
        found.append(Chain(f"gpu-{number}", place.title, _following(links)))
    return found
