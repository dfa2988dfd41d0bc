"""What is said of a GPU at each layer: from the stack's configuration, and from the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_passthrough import cards, gfd, placement
from gpu_passthrough.config import Gpu, Node, Stack
from gpu_passthrough.report.concerns import Names
from gpu_passthrough.verify.state import DONE, State, allocatable, claimed, is_ready

MOST = 16
"""GPUs that are drawn of one node that only the cluster knows: a VM can have no more."""
EXTENSION: Final = "extensions.talos.dev/"
UNKNOWN: Final = "unknown"
SHOWN: Final = ("gpu.product", "gpu.memory", "gpu.count", "gpu.replicas", "gpu.family")
"""Labels of GFD that are shown, without their prefix."""

Fact = tuple[str, str]
"""Name and value of one thing that is known."""


@dataclass(frozen=True)
class Place:
    """One GPU: where it is, and who uses it."""

    node: str
    card: str
    machine: Node | None
    """The VM, where the stack builds it."""
    gpu: Gpu | None
    siblings: int
    """GPUs of the same node."""
    apps: tuple[str, ...]
    pods: tuple[str, ...]
    names: Names

    @property
    def is_ours(self) -> bool:
        """The stack builds the VM around it."""
        return self.machine is not None

    @property
    def title(self) -> str:
        """The GPU in one line."""
        return f"{self.card} in {self.node}" + (f" at {self.gpu.path}" if self.gpu else "")


def _holders(state: State | None, node: str) -> list[Mapping[str, Any]]:
    return [
        pod
        for pod in (state.pods if state else ())
        if pod["spec"].get("nodeName") == node
        and claimed(pod)
        and pod["status"].get("phase") not in DONE
    ]


def _apps(stack: Stack, state: State | None, node: str) -> tuple[str, ...]:
    """Apps with a pod on a node; of those that have too few pods, where they are planned."""
    planned = {one.app for one in placement.plan(stack).apps if one.nodes.get(node)}
    if state is None:
        return tuple(app for app in stack.apps if app in planned)
    found = []
    for name, app in stack.apps.items():
        pods = [pod["spec"].get("nodeName") for pod in state.pods_of(app.namespace, name)]
        placed = [one for one in pods if one]
        if node in placed or (name in planned and len(placed) < app.replicas):
            found.append(name)
    return tuple(found)


def _ready_made(stack: Stack) -> Iterable[tuple[str, str, Node | None, Gpu | None, int]]:
    """GPUs that the stack lists."""
    for name, machine in stack.gpu_nodes.items():
        if isinstance(machine, Node):
            # In the order that numbers their mappings.
            for gpu in sorted(machine.gpus, key=lambda one: one.path):
                yield name, gpu.card, machine, gpu, len(machine.gpus)
        else:
            for card in machine.gpus:
                yield name, card.card, None, None, len(machine.gpus)


def _discovered(state: State) -> Iterable[tuple[str, str, None, None, int]]:
    """GPUs that only the cluster knows."""
    for name, node in sorted(state.nodes.items()):
        labels = node["metadata"].get("labels") or {}
        text = str(labels.get("nvidia.com/gpu.count", ""))
        count = min(int(text) if text.isdecimal() else allocatable(node), MOST)
        for _ in range(count):
            yield name, str(labels.get(gfd.PRODUCT, "GPU")), None, None, count


def places(stack: Stack, state: State | None) -> list[Place]:
    """Every GPU, in the stack's order."""
    listed = list(_ready_made(stack))
    if not stack.members and state is not None:
        listed = list(_discovered(state))
    numbers: dict[str, int] = {}
    found = []
    for name, card, node, gpu, siblings in listed:
        number = numbers[name] = numbers.get(name, -1) + 1
        apps = _apps(stack, state, name)
        pods = tuple(pod["metadata"]["name"] for pod in _holders(state, name))
        names = Names(
            hosts=frozenset({node.host} if node else ()),
            nodes=frozenset({name}),
            cards=frozenset({gpu.path, f"{name}-gpu{number}"} if gpu else ()),
            apps=frozenset(apps),
            pods=frozenset(pods),
        )
        found.append(Place(name, card, node, gpu, siblings, apps, pods, names))
    return found


def every_name(stack: Stack, found: Sequence[Place]) -> Names:
    """The names of all of the stack, also of what has no GPU."""
    every = Names(
        hosts=frozenset(node.host for node in stack.nodes.values()),
        nodes=frozenset(stack.members),
        apps=frozenset(stack.apps),
    )
    for place in found:
        every |= place.names
    return every


def _host(place: Place, stack: Stack, state: State | None) -> tuple[str, list[Fact]]:
    if place.machine is None:
        return "not described", []
    group = str(place.gpu.iommu_group) if place.gpu else UNKNOWN
    return f"{place.machine.host}, IOMMU group {group}", [
        ("Host", place.machine.host),
        ("IOMMU group", group),
    ]


def _card(place: Place, stack: Stack, state: State | None) -> tuple[str, list[Fact]]:
    known = cards.find(place.card)
    said: list[Fact] = []
    if place.gpu:
        said = [
            ("Address", place.gpu.path),
            ("Vendor:device", place.gpu.id),
            ("Subsystem", place.gpu.subsystem_id),
        ]
    if known:
        major, minor = known.compute_capability
        said += [
            ("Architecture", f"{known.architecture.name}, compute capability {major}.{minor}"),
            ("Memory", f"{known.usable_mib} MiB"),
        ]
    return place.card, said


def _vm(place: Place, stack: Stack, state: State | None) -> tuple[str, list[Fact]]:
    node = place.machine
    if node is None:
        return "not described", []
    return f"VM {node.vm_id}", [
        ("VM id", str(node.vm_id)),
        ("Cores", str(node.cores)),
        ("Memory", f"{node.memory_mib} MiB"),
        ("Disk", f"{node.disk_gib} GiB"),
    ]


def _node(place: Place, stack: Stack, state: State | None) -> tuple[str, list[Fact]]:
    said: list[Fact] = []
    member = stack.members.get(place.node)
    if member and member.address:
        said.append(("Address", member.address))
    if stack.cluster:
        wanted = stack.cluster.extensions
        modules = f"{wanted.kernel_modules} kernel modules, {wanted.channel}"
        said += [
            ("Talos asked", stack.cluster.talos_version),
            ("Driver asked", f"{wanted.driver or 'any'}, {modules}"),
        ]
    live = state.nodes.get(place.node) if state else None
    if live is None:
        return place.node, [*said, ("Seen", "no such node" if state else UNKNOWN)]
    said.append(("Seen", "Ready" if is_ready(live) else "NotReady"))
    said.append(("System", str(live["status"]["nodeInfo"]["osImage"])))
    meta = live["metadata"]
    known = {**(meta.get("annotations") or {}), **(meta.get("labels") or {})}
    for key, text in sorted(known.items()):
        if key.startswith(EXTENSION) and "nvidia" in key:
            said.append((key.removeprefix(EXTENSION), str(text)))
    return place.node, said


def _gpu(place: Place, stack: Stack, state: State | None) -> tuple[str, list[Fact]]:
    sharing = stack.gpu_operator.sharing
    slots = place.siblings * (sharing.replicas if sharing else 1)
    asked: list[Fact] = [("Asked of the node", f"{slots} x {stack.gpu_resource}")]
    live = state.nodes.get(place.node) if state else None
    if live is None:
        return f"{UNKNOWN} of {slots}", [*asked, ("Offered", UNKNOWN)]
    labels = live["metadata"].get("labels") or {}
    shown = [(key, str(labels[gfd.PREFIX + key])) for key in SHOWN if labels.get(gfd.PREFIX + key)]
    offered = f"{allocatable(live)} of {slots}"
    return f"{offered} offered", [*asked, ("Offered", str(allocatable(live))), *shown]


def _class(place: Place, stack: Stack, state: State | None) -> tuple[str, list[Fact]]:
    wanted = stack.runtime_class
    said: list[Fact] = [("Handler asked", wanted.handler)]
    if state is None:
        return wanted.name, [*said, ("Seen", UNKNOWN)]
    found = state.runtime_classes.get(wanted.name)
    return wanted.name, [*said, ("Handler seen", str(found["handler"]) if found else "none")]


def _app(place: Place, stack: Stack, state: State | None) -> tuple[str, list[Fact]]:
    said: list[Fact] = [
        ("App" if state else "App planned here", f"{name}: {stack.apps[name].image}")
        for name in place.apps
    ]
    for pod in _holders(state, place.node):
        meta, phase = pod["metadata"], pod["status"].get("phase", UNKNOWN)
        ready = "ready" if is_ready(pod) else "not ready"
        said.append(("Pod", f"{meta['namespace']}/{meta['name']}: {phase}, {ready}"))
    if place.siblings > 1 and place.pods:
        said.append(("Card", f"one of the node's {place.siblings}; Kubernetes does not say which"))
    names = ", ".join(place.apps) or ", ".join(place.pods)
    return names or "no app", said


FACTS: Final[dict[str, Callable[[Place, Stack, State | None], tuple[str, list[Fact]]]]] = {
    "host": _host,
    "card": _card,
    "vm": _vm,
    "node": _node,
    "gpu": _gpu,
    "class": _class,
    "app": _app,
}
"""What each link of the chain says: its name, and its facts."""
