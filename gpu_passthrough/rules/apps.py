"""Apps: what reaches the card, what deadlocks, and what fits."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from gpu_passthrough import gfd
from gpu_passthrough import placement as planning
from gpu_passthrough.config import App, Stack
from gpu_passthrough.placement import Placed, Plan
from gpu_passthrough.problems import Path, Problem

ONE_WRITER = {"ReadWriteOnce": "one node", "ReadWriteOncePod": "one pod"}
CUDA_IMAGES = {"ghcr.io/immich-app/immich-machine-learning": "-cuda"}
"""Images that exist with and without CUDA, and what the tag of the CUDA one contains."""
LISTED = 6
"""Nodes that a message lists before it counts the rest."""


def runtime_class(stack: Stack) -> Iterator[Problem]:
    """A GPU app names the RuntimeClass of the stack."""
    wanted = stack.runtime_class.name
    for name, app in stack.apps.items():
        if app.runtime_class_name == wanted:
            continue
        given = app.runtime_class_name
        path: Path = ("apps", name, "runtimeClassName")
        if given is None:
            text = f"App {name} claims {app.gpus} GPU and no runtimeClassName."
            why = (
                "The class makes containerd inject the driver. Without it the app ends with CUDA"
                " failure 35, driver version insufficient, or computes on the CPU in silence."
            )
        else:
            text = f"App {name} uses RuntimeClass {given}; the stack's is {wanted}."
            why = "No RuntimeClass of that name is made, and the API server refuses the pod."
        fix = f"Set runtimeClassName: {wanted}, or leave it out."
        yield Problem(path, text, why=why, fix=fix, also=(("runtimeClass", "name"),))


def strategy(stack: Stack) -> Iterator[Problem]:
    """A volume for one writer and a rolling update wait for each other."""
    for name, app in stack.apps.items():
        for volume_name, volume in app.volumes.items():
            if app.strategy == "RollingUpdate" and volume.access_mode in ONE_WRITER:
                yield Problem(
                    ("apps", name, "strategy"),
                    f"App {name} rolls its updates and volume {volume_name} is"
                    f" {volume.access_mode}.",
                    why="The new pod waits for the volume, the old one for the new pod:"
                    f" the volume attaches to {ONE_WRITER[volume.access_mode]} at a time.",
                    fix="Use strategy Recreate, or a ReadWriteMany volume. Outside of this stack a"
                    " StatefulSet with one replica is the other answer.",
                    also=(("apps", name, "volumes", volume_name, "accessMode"),),
                )


def writers(stack: Stack) -> Iterator[Problem]:
    """A volume for one writer serves one replica."""
    nodes = len(stack.gpu_nodes)
    for name, app in stack.apps.items():
        for volume_name, volume in app.volumes.items():
            one_node = volume.access_mode == "ReadWriteOnce" and nodes == 1
            if app.replicas > 1 and volume.access_mode in ONE_WRITER and not one_node:
                yield Problem(
                    ("apps", name, "replicas"),
                    f"App {name} has {app.replicas} replicas and volume {volume_name} is"
                    f" {volume.access_mode}.",
                    why=f"The volume attaches to {ONE_WRITER[volume.access_mode]}; the other"
                    " replicas stay in ContainerCreating.",
                    fix="Use one replica, or a ReadWriteMany volume.",
                    also=(("apps", name, "volumes", volume_name, "accessMode"),),
                )


def volumes(stack: Stack) -> Iterator[Problem]:
    """Two volumes of an app are not mounted at one place."""
    for name, app in stack.apps.items():
        seen: dict[str, str] = {}
        for volume_name, volume in app.volumes.items():
            place = volume.mount_path.rstrip("/") or "/"
            other = seen.setdefault(place, volume_name)
            if other != volume_name:
                yield Problem(
                    ("apps", name, "volumes", volume_name, "mountPath"),
                    f"Volumes {other} and {volume_name} of app {name} are both mounted at {place}.",
                    why="The API server refuses the pod.",
                    fix="Mount one of them elsewhere.",
                    also=(("apps", name, "volumes", other, "mountPath"),),
                )


def _tag(image: str) -> tuple[str, str | None]:
    """Repository and tag of an image; the tag is None where only a digest or nothing is given."""
    repository = image.partition("@")[0]
    head, colon, tag = repository.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (repository, None)


def image(stack: Stack) -> Iterator[Problem]:
    """An image that exists with and without CUDA is the one with it."""
    for name, app in stack.apps.items():
        repository, tag = _tag(app.image)
        mark = CUDA_IMAGES.get(repository)
        if mark and mark not in (tag or "") and "@" not in app.image:
            yield Problem(
                ("apps", name, "image"),
                f"Image {app.image} of app {name} is the one without CUDA.",
                why="It holds a GPU and computes on the CPU.",
                fix=f"Use {repository}:{tag or 'VERSION'}{mark}.",
            )


def env(stack: Stack) -> Iterator[Problem]:
    """A variable is given once."""
    for name, app in stack.apps.items():
        for key in app.env.keys() & app.secret_env.keys():
            yield Problem(
                ("apps", name, "env", key),
                f"Variable {key} of app {name} is given in env and in secretEnv.",
                fix="Keep the one in secretEnv.",
                also=(("apps", name, "secretEnv", key),),
            )


def labels(stack: Stack) -> Iterator[Problem]:
    """A selector by GFD's labels needs GFD."""
    if stack.gpu_operator.gfd.enabled:
        return
    for name, app in stack.apps.items():
        for key in app.node_selector.keys() & planning.COMPUTED:
            yield Problem(
                ("apps", name, "nodeSelector", key),
                f"App {name} selects nodes by {key}, and gfd is off.",
                why="GPU Feature Discovery sets that label; without it the pod stays Pending.",
                fix="Set gpuOperator.gfd.enabled to true.",
                also=(("gpuOperator", "gfd", "enabled"),),
            )


def sharing(stack: Stack) -> Iterator[Problem]:
    """A pod takes one slot of a shared card."""
    if stack.gpu_operator.sharing is None:
        return
    for name, app in stack.apps.items():
        if app.gpus > 1:
            yield Problem(
                ("apps", name, "gpus"),
                f"App {name} asks for {app.gpus} GPUs, and the cards are shared by time-slicing.",
                why="More slots give no more of a card and may all lie on the same one.",
                fix="Ask for one, or turn sharing off.",
                also=(("gpuOperator", "sharing", "replicas"),),
            )


def unknown_product(stack: Stack) -> Iterator[Problem]:
    """A product label in a selector is one that a card of the stack gets."""
    labels = [dict(offer.kind.labels).get(gfd.PRODUCT) for offer in planning.offers(stack)]
    known = sorted({label for label in labels if label})
    for name, app in stack.apps.items():
        wanted = app.node_selector.get(gfd.PRODUCT)
        # Where a node's label cannot be told, this rule cannot say that no card gets it.
        if wanted is None or wanted in known or not known or None in labels:
            continue
        near = difflib.get_close_matches(wanted, known, n=1, cutoff=0)
        yield Problem(
            ("apps", name, "nodeSelector", gfd.PRODUCT),
            f"App {name} selects {gfd.PRODUCT}={wanted}, a label that no card of the stack gets.",
            why="GFD makes the label from the name that the driver gives; the pod stays Pending.",
            fix=f"The nearest label is {near[0]}.",
        )


def _cards(plan: Plan) -> str:
    """Free and all slots per kind of card."""
    kinds: dict[str, list[int]] = {}
    for offer in plan.offers:
        counts = kinds.setdefault(offer.kind.described, [0, 0])
        counts[0] += plan.free[offer.node]
        counts[1] += offer.kind.slots
    return "; ".join(f"{name}: {free} of {total} free" for name, (free, total) in kinds.items())


def _reasons(placed: Placed) -> str:
    listed = [f"{node}: {reason}" for node, reason in list(placed.reasons.items())[:LISTED]]
    rest = len(placed.reasons) - LISTED
    return "; ".join(listed) + (f"; and {rest} more" if rest > 0 else "")


def _misfit(stack: Stack, plan: Plan, placed: Placed, app: App) -> Problem:
    name = placed.app
    each = f"{app.gpus} GPU{'s' if app.gpus > 1 else ''}"
    pods = f"{placed.asked} pods with {each} each" if placed.asked > 1 else f"a pod with {each}"
    if placed.asked > app.replicas:
        pods += f" ({app.replicas} replicas and what a rolling update adds)"
    surge = placed.asked - app.replicas
    nowhere = len(placed.reasons) == len(plan.offers)
    key = "vramMib" if app.vram_mib and nowhere else "gpus"
    key = "strategy" if 0 < placed.missing <= surge else key
    verb = "does" if placed.missing == 1 else "do"
    text = f"App {name} asks for {pods}; {placed.missing} of them {verb} not fit."
    free = (
        f" Cards: {_cards(plan)}." if plan.offers else " The stack has no card that apps may use."
    )
    why = f"Not on {_reasons(placed)}." if placed.reasons else "The pods would stay Pending."
    fix = "Ask for less, free a card, or add one."
    if key == "strategy":
        fix = "Use strategy Recreate: the old pod gives its card back before the new one starts."
    elif app.node_selector.keys() & planning.COMPUTED:
        fix = "Select a node whose cards do, for example by kubernetes.io/hostname."
    elif not plan.offers and any(m.role == "controlplane" for m in stack.gpu_nodes.values()):
        fix = "Let pods run there: cluster.scheduleOnControlPlanes: true."
    return Problem(("apps", name, key), text + free, why=why, fix=fix)


def placement(stack: Stack) -> Iterator[Problem]:
    """Every app finds its cards."""
    plan = planning.plan(stack)
    if not plan.judged:
        return
    # One cause, one problem: a product that no card has is told by its own rule.
    told = {problem.path[1] for problem in unknown_product(stack)}
    for placed in plan.apps:
        if placed.missing > 0 and placed.app not in told:
            yield _misfit(stack, plan, placed, stack.apps[placed.app])
