"""Which cards nobody can compute on while the plan is carried out, and which apps notice.

Told from the engine's steps and from the stack's configuration: cards are named as there, and the
apps are those that the placement lets onto the card's node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from gpu_passthrough import placement
from gpu_passthrough.config import Gpu, Machine, Node, Stack
from pullrequest import kinds
from pullrequest.events import Step
from pullrequest.model import Outage, Property, clip

RUNNING = {
    "name",
    "description",
    "tags",
    "onBoot",
    "protection",
    "networkDevices",
    "stopOnDestroy",
    "rebootAfterUpdate",
    "deleteUnreferencedDisksOnDestroy",
    "purgeOnDestroy",
    "migrate",
}
"""Properties of a VM that it takes without a restart; time-outs and a disk's size as well."""
POD = "spec.template"


class Weight(IntEnum):
    """How hard a step hits a card; the hardest one is what is told."""

    NEW_PODS = 1
    POD = 2
    MAY_RESTART = 3
    RESTART = 4
    REBUILT = 5
    GONE = 6


@dataclass(frozen=True)
class Effect:
    """What one step does to the cards of nodes, or to those that an app may hold."""

    weight: Weight
    until: str
    why: str
    node: str | None = None
    """None: every node with a card."""
    app: str | None = None


def difference(changed: Iterable[Property]) -> str:
    """Properties as text: what was, what will be."""
    texts = [
        f"{one.path}: {one.before or 'none'} → {one.after or 'none'}"
        if one.before or one.after
        else one.path
        for one in changed
    ]
    return "; ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")


def _forced(step: Step) -> str:
    by = [one for one in step.properties if one.forces]
    return difference(by) if by else "something below it is replaced"


def _restarts(one: Property) -> bool:
    top = one.path.partition(".")[0].partition("[")[0]
    grows = top == "disks" and one.path.endswith(".size")
    return not (top in RUNNING or top.startswith("timeout") or grows)


def _vm(step: Step) -> Iterator[Effect]:
    if step.op == "delete":
        yield Effect(Weight.GONE, "for good", "the VM is deleted", step.owner)
    elif step.op == "replace":
        yield Effect(Weight.REBUILT, "until the VM is made anew", _forced(step), step.owner)
    elif restarting := [one for one in step.properties if _restarts(one)]:
        yield Effect(
            Weight.RESTART, "until the VM has restarted", difference(restarting), step.owner
        )


def _mapping(step: Step) -> Iterator[Effect]:
    if step.op in ("replace", "delete"):
        why = f"its PCI mapping is {step.op}d: {_forced(step)}"
        why = why if step.op == "replace" else "its PCI mapping is deleted"
        until = "until the VM starts with it" if step.op == "replace" else "for good"
        yield Effect(Weight.RESTART, until, why, step.owner)


def _identity(step: Step) -> Iterator[Effect]:
    if step.op in ("replace", "delete"):
        why = f"its identity is replaced: {_forced(step)}"
        why = why if step.op == "replace" else f"its identity {step.name} is deleted"
        yield Effect(Weight.REBUILT, "until the whole cluster is made anew", why)


def _configuration(step: Step) -> Iterator[Effect]:
    if step.op == "update":
        until = "until Talos has applied it, perhaps with a restart"
        why = f"the machine configuration changes: {difference(step.properties)}"
        yield Effect(Weight.MAY_RESTART, until, why, step.owner)
    elif step.op in ("replace", "delete"):
        until = "until the machine is configured again" if step.op == "replace" else "for good"
        yield Effect(Weight.REBUILT, until, "the machine configuration is renewed", step.owner)


def _release(step: Step) -> Iterator[Effect]:
    if step.owner != "gpu-operator" and step.inputs.get("chart") != "gpu-operator":
        return
    if step.op == "update":
        why = f"the GPU Operator changes: {difference(step.properties)}"
        yield Effect(Weight.NEW_PODS, "for new pods, until its operands are ready again", why)
    elif step.op in ("replace", "delete"):
        until = "until the operator is installed again" if step.op == "replace" else "for good"
        yield Effect(Weight.POD, until, f"the GPU Operator is {step.op}d")


def _runtime_class(step: Step) -> Iterator[Effect]:
    if step.op in ("replace", "delete"):
        until = "for new pods, until it is back" if step.op == "replace" else "for new pods"
        yield Effect(Weight.NEW_PODS, until, f"the RuntimeClass is {step.op}d")


def _deployment(step: Step) -> Iterator[Effect]:
    changed = [one for one in step.properties if one.path.startswith(POD)]
    if step.op == "update" and changed:
        kind = step.inputs.get("spec", {}).get("strategy", {}).get("type") or "RollingUpdate"
        until = f"until the new pod runs ({kind})"
        yield Effect(Weight.POD, until, difference(changed), app=step.owner)
    elif step.op == "replace":
        why = f"the Deployment is replaced: {_forced(step)}"
        yield Effect(Weight.POD, "until the new pod runs", why, app=step.owner)


def _effects(step: Step) -> Iterator[Effect]:
    if step.type in kinds.RUNTIME_CLASSES:
        yield from _runtime_class(step)
    elif rule := RULES.get(step.type):
        yield from rule(step)


RULES = {
    kinds.VM: _vm,
    kinds.MAPPING: _mapping,
    kinds.IDENTITY: _identity,
    kinds.CONFIGURATION: _configuration,
    kinds.RELEASE: _release,
    kinds.DEPLOYMENT: _deployment,
}


def _cards(machine: Machine) -> str:
    names = [gpu.card for gpu in machine.gpus]
    return ", ".join(
        f"{names.count(one)} x {one}" if names.count(one) > 1 else one
        for one in dict.fromkeys(names)
    )


def _where(name: str, machine: Machine) -> str:
    """Node, host and addresses of the cards."""
    paths = [gpu.path for gpu in machine.gpus if isinstance(gpu, Gpu)]
    host = f"{machine.host} " if isinstance(machine, Node) else ""
    at = f"{host}{', '.join(paths)}".strip()
    return f"{name} ({at})" if at else name


def _able(stack: Stack) -> Mapping[str, list[str]]:
    """The apps that may run on each node, as far as the configuration tells."""
    found: dict[str, list[str]] = {name: [] for name in stack.gpu_nodes}
    plan = placement.plan(stack)
    for placed in plan.apps:
        for offer in plan.offers:
            if offer.node not in placed.reasons and placed.asked:
                found[offer.node].append(placed.app)
    return found


def _outage(effect: Effect, nodes: Mapping[str, Machine], apps: Iterable[str]) -> Outage:
    several = effect.app is not None and len(nodes) > 1
    return Outage(
        cards=clip((" or " if several else ", ").join(_cards(one) for one in nodes.values())),
        where=clip("; ".join(_where(name, one) for name, one in nodes.items())),
        until=effect.until,
        why=clip(effect.why),
        apps=tuple(dict.fromkeys(apps)),
    )


def outages(steps: Iterable[Step], stack: Stack, before: Stack | None = None) -> list[Outage]:
    """What the steps take out of use; a machine that goes is named as it was before."""
    was = before or stack
    machines = {**stack.gpu_nodes, **was.gpu_nodes}
    apps = {**_able(stack), **_able(was)}
    effects = [effect for step in steps for effect in _effects(step)]
    worst: dict[str, Effect] = {}
    for effect in effects:
        if effect.app is not None:
            continue
        for node in [effect.node] if effect.node is not None else was.gpu_nodes:
            if node in machines and (node not in worst or worst[node].weight < effect.weight):
                worst[node] = effect
    found = [
        _outage(effect, {node: machines[node]}, apps.get(node, ()))
        for node, effect in sorted(worst.items(), key=lambda one: (-one[1].weight, one[0]))
    ]
    for effect in effects:
        if effect.app is None:
            continue
        nodes = {n: machines[n] for n, able in apps.items() if effect.app in able and n in machines}
        hit = all(n in worst and worst[n].weight > Weight.POD for n in nodes)
        if nodes and not hit:
            found.append(_outage(effect, nodes, [effect.app]))
    return found
