"""Which app fits on which card, computed from the configuration alone.

The device plugin hands out any free card of a node, and GFD labels a node, not a card: an app that
needs memory or a product is safe only on a node where every card will do. Cards are exclusive
unless the operator shares them by time-slicing; then each offers several slots.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_passthrough import cards, compatibility, gfd, images
from gpu_passthrough.cards import Card
from gpu_passthrough.config import App, Stack

SURGE = 0.25
"""Share of its replicas that a rolling update adds, rounded up: Kubernetes' default."""
COMPUTED = frozenset(
    gfd.PREFIX + key
    for key in (
        "gpu.product",
        "gpu.memory",
        "gpu.family",
        "gpu.compute.major",
        "gpu.compute.minor",
        "gpu.count",
        "gpu.replicas",
    )
)
"""Labels of GFD whose values follow from the cards."""


@dataclass(frozen=True)
class Kind:
    """What nodes with the same cards have in common."""

    cards: tuple[Card, ...]
    slots_per_card: int
    labels: frozenset[tuple[str, str]]

    @property
    def slots(self) -> int:
        """Pods that one node of this kind can serve, one slot each."""
        return len(self.cards) * self.slots_per_card

    @property
    def described(self) -> str:
        """The cards in words."""
        names = {card.name: self.cards.count(card) for card in self.cards}
        return ", ".join(
            f"{count} x {name}" if count > 1 else name for name, count in names.items()
        )


@dataclass(frozen=True)
class Offer:
    """A node with cards that apps may use."""

    node: str
    kind: Kind


@dataclass
class Placed:
    """Where an app's pods fit, and how many do not."""

    app: str
    gpus: int
    asked: int
    """Pods at once: the replicas, and those that a rolling update adds."""
    nodes: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why a node does not serve this app at all."""

    @property
    def missing(self) -> int:
        """Pods for which no card is left."""
        return self.asked - sum(self.nodes.values())


@dataclass(frozen=True)
class Plan:
    """All apps on all cards."""

    offers: tuple[Offer, ...]
    apps: tuple[Placed, ...]
    free: Mapping[str, int]
    """Slots that are left on each node."""
    judged: bool = True
    """False where the stack does not say which cards its cluster has."""


def _labels(stack: Stack, found: tuple[Card, ...]) -> frozenset[tuple[str, str]]:
    """The labels of a node that has one kind of card; none where kinds are mixed."""
    if len(set(found)) != 1 or not stack.gpu_operator.gfd.enabled:
        return frozenset()
    sharing = stack.gpu_operator.sharing
    labels = gfd.labels(
        found[0],
        len(found),
        gfd=compatibility.gfd_version(stack.gpu_operator.version),
        slots=sharing.replicas if sharing else 1,
        renamed=bool(sharing and sharing.rename),
    )
    return frozenset(labels.items())


def _schedulable(stack: Stack, role: str) -> bool:
    if stack.starts_at == "kubernetes" or role == "worker":
        return True
    return stack.cluster is not None and stack.cluster.schedule_on_control_planes


def offers(stack: Stack) -> list[Offer]:
    """The nodes whose cards apps may use; a card that the catalogue lacks offers nothing."""
    sharing = stack.gpu_operator.sharing
    slots = sharing.replicas if sharing else 1
    kinds: dict[tuple[Card, ...], Kind] = {}
    found = []
    for name, machine in stack.gpu_nodes.items():
        known = tuple(card for gpu in machine.gpus if (card := cards.find(gpu.card)))
        if not known or not _schedulable(stack, machine.role):
            continue
        if known not in kinds:
            kinds[known] = Kind(known, slots, _labels(stack, known))
        found.append(Offer(name, kinds[known]))
    return found


def _selector_reason(app: App, node: str, kind: Kind) -> str | None:
    labels = {**dict(kind.labels), "kubernetes.io/hostname": node, "kubernetes.io/os": "linux"}
    for key, wanted in app.node_selector.items():
        if key in labels and labels[key] != wanted:
            return f"{key} is {labels[key]}, not {wanted}"
        if key in COMPUTED and key not in labels:
            mixed = len(set(kind.cards)) > 1
            because = "its cards differ" if mixed else "NVML's values are not known for the card"
            return f"{key} cannot be told: {because}"
    return None


def _version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def _card_reason(app: App, card: Card) -> str | None:
    if app.vram_mib is not None and card.usable_mib < app.vram_mib:
        return f"{card.name} has {card.usable_mib} MiB, {app.vram_mib} MiB asked"
    architecture, cuda = card.architecture, images.cuda(app)
    if cuda and architecture.cuda_min and _version(cuda) < _version(architecture.cuda_min):
        return f"{architecture.name} needs CUDA {architecture.cuda_min} or later, not {cuda}"
    if cuda and architecture.cuda_max and _version(cuda) > _version(architecture.cuda_max):
        return f"CUDA {architecture.cuda_max} is the last one for {architecture.name}, not {cuda}"
    return None


def reason_against(app: App, node: str, kind: Kind) -> str | None:
    """Why a node cannot serve an app even when it is empty; None where it can."""
    if app.gpus > kind.slots:
        return f"{kind.slots} at most, {app.gpus} asked per pod"
    for card in dict.fromkeys(kind.cards):
        if reason := _card_reason(app, card):
            return reason
    return _selector_reason(app, node, kind)


def pods(app: App) -> int:
    """Pods of an app that may run at once; a rolling update starts new ones before old ones end."""
    if app.strategy == "Recreate" or app.replicas == 0:
        return app.replicas
    return app.replicas + math.ceil(app.replicas * SURGE)


def _capacity(free: Mapping[str, int], nodes: list[str], gpus: int) -> int:
    return sum(free[node] // gpus for node in nodes)


def _take(placed: Placed, free: dict[str, int], nodes: list[str]) -> None:
    """Put an app's pods on nodes, the fullest first, so that wide gaps stay for others."""
    for node in sorted(nodes, key=lambda one: free[one]):
        count = min(free[node] // placed.gpus, placed.missing)
        if count > 0:
            free[node] -= count * placed.gpus
            placed.nodes[node] = placed.nodes.get(node, 0) + count


def _displace(
    wanting: Placed, all_placed: list[Placed], able: Mapping[str, list[str]], free: dict[str, int]
) -> bool:
    """Move other one-card pods aside along the shortest chain until one pod of `wanting` fits."""
    came_from: dict[str, tuple[str, Placed]] = {}
    queue = [(node, wanting) for node in able[wanting.app]]
    seen = {node for node, _ in queue}
    for node, mover in queue:
        came_from[node] = ("", mover) if mover is wanting else came_from[node]
        if free[node] > 0:
            _shift(node, came_from, free)
            return True
        for other in all_placed:
            if other.gpus == 1 and other.nodes.get(node, 0) > 0:
                for target in able[other.app]:
                    if target not in seen:
                        seen.add(target)
                        came_from[target] = (node, other)
                        queue.append((target, other))
    return False


def _shift(node: str, came_from: Mapping[str, tuple[str, Placed]], free: dict[str, int]) -> None:
    free[node] -= 1
    while node:
        previous, mover = came_from[node]
        mover.nodes[node] = mover.nodes.get(node, 0) + 1
        if previous:
            mover.nodes[previous] -= 1
        node = previous


def plan(stack: Stack) -> Plan:
    """Place every app: those with the fewest nodes to choose from, and the widest, come first."""
    found = offers(stack)
    judged = bool(stack.members) or stack.starts_at != "kubernetes"
    free = {offer.node: offer.kind.slots for offer in found}
    placed, able = [], {}
    for name, app in stack.apps.items():
        one = Placed(name, app.gpus, pods(app))
        one.reasons = {
            offer.node: reason
            for offer in found
            if (reason := reason_against(app, offer.node, offer.kind))
        }
        able[name] = [offer.node for offer in found if offer.node not in one.reasons]
        placed.append(one)
    order = sorted(placed, key=lambda one: (one.gpus == 1, len(able[one.app]), -one.gpus))
    for one in order:
        _take(one, free, able[one.app])
        while one.missing > 0 and one.gpus == 1 and _displace(one, placed, able, free):
            pass
    return Plan(tuple(found), tuple(placed), free, judged)


def products_for(stack: Stack, app: str) -> list[str]:
    """The product labels of the nodes that can serve an app, for a node affinity."""
    wanted = stack.apps[app]
    labels = (
        dict(offer.kind.labels).get(gfd.PRODUCT)
        for offer in offers(stack)
        if reason_against(wanted, offer.node, offer.kind) is None
    )
    return sorted({label for label in labels if label})
