"""Takes a configuration through the program and the rack's pure model, from the PCI bus to the pod.

The program runs against a recorder; what it registers is what Proxmox VE, Talos, the operator and
the kubelet of the model get. What a configuration cannot know is as it should be: hosts have the
cards that it names, room, storages, bridges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from components.readiness import expected_gpus
from components.talos_image import nvidia_extensions
from gpu_passthrough import images
from gpu_passthrough.config import App, Stack
from gpu_passthrough.placement import pods
from rack.world.operator import device_list_strategy
from rack.world.pod import admit, start

from .hardware import Failure, Hardware
from .kubernetes import Cluster, NodeState, claims, objects_problem, pod_problem
from .recording import Plugins, recorded
from .sites import datacenter, machines

RELEASE = "kubernetes:helm.sh/v3:Release"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"


def failure(stack: Stack) -> Failure | None:
    """Where a stack that was accepted fails first; None where its pods compute."""
    try:
        _drive(stack)
    except Failure as found:
        return found
    return None


def _drive(stack: Stack) -> None:
    plugins = recorded(stack)
    _check_urns(plugins)
    if stack.cluster is None or not stack.members:
        return  # Nothing says what the cluster is, so nothing of it was checked.
    nodes = below(stack, plugins)
    is_new = stack.starts_at in ("hardware", "vms")
    cluster = Cluster(nodes.world.nodes, plugins.inputs("Release"), is_new=is_new)
    _check_objects(plugins)
    cluster.settle()
    cluster.offers(expected_gpus(stack) or {})
    run_apps(stack, plugins, cluster)


def below(stack: Stack, plugins: Plugins) -> Hardware:
    """Layers 1 and 2 as the stack builds them, or as it finds them."""
    assert stack.cluster is not None
    if stack.starts_at in ("talos", "kubernetes"):
        # Somebody built what the stack finds: as this program would have, from machines.
        gone = {"talos": None, "kubernetes": None}
        stack = stack.model_copy(update=gone)
        plugins = recorded(stack)
    extensions = nvidia_extensions(stack.cluster.extensions) if stack.cluster else ()
    world = datacenter(stack) if stack.proxmox else machines(stack, extensions)
    made = Hardware(world, plugins)
    made.put()
    made.joined(set(stack.members))
    return made


def _check_urns(plugins: Plugins) -> None:
    """The engine refuses two resources of one name, type and parent type."""
    twice = [urn for urn, n in Counter(one.urn for one in plugins.resources).items() if n > 1]
    if twice:
        raise Failure("engine", f"Duplicate resource URN '{twice[0]}'; try giving it a unique name")


def _check_objects(plugins: Plugins) -> None:
    found = (
        (one.type.rpartition(":")[2], one.name, one.inputs)
        for one in plugins.resources
        if one.type.startswith("kubernetes:") and one.type != RELEASE
    )
    if problem := objects_problem(found):
        raise Failure("kubernetes", problem)


def run_apps(stack: Stack, plugins: Plugins, cluster: Cluster) -> None:
    """Start the pods of every app, as many at once as a rollout has.

    Raises:
        Failure: one is refused, stays Pending, or does not compute on its cards.
    """
    modes = {
        one.inputs["metadata"]["name"]: one.inputs["spec"]["accessModes"][0]
        for one in plugins.of("PersistentVolumeClaim")
    }
    todo = []
    for one in plugins.of("Deployment"):
        name = one.inputs["metadata"]["name"]
        spec = one.inputs["spec"]["template"]["spec"]
        if problem := pod_problem(spec):
            raise Failure("kubernetes", f"app {name}: {problem}")
        todo += [(name, stack.apps[name], spec)] * pods(stack.apps[name])
    for node in cluster.nodes.values():
        node.taken = 0
    places = _places(stack, todo, cluster)
    _check_attached(todo, places, modes)
    for (name, app, spec), node in zip(todo, places, strict=True):
        _compute(name, app, spec, node, cluster)


Todo = list[tuple[str, App, Mapping[str, Any]]]


def _places(stack: Stack, todo: Todo, cluster: Cluster) -> list[NodeState]:
    """A node for each pod: a way to place all of them is enough for a plan to be right."""
    free = {name: sum(one.offers.values()) for name, one in cluster.nodes.items()}
    able = [_able(one, cluster) for one in todo]
    sizes = [int(next(iter(claims(spec["containers"][0]).values()))) for _, _, spec in todo]
    order = sorted(range(len(todo)), key=lambda n: (-sizes[n], len(able[n])))
    placed: dict[int, str] = {}
    budget = [20_000]

    def fit(position: int) -> bool:
        budget[0] -= 1
        if position == len(order):
            return True
        if budget[0] < 0:
            return False
        number = order[position]
        for name in able[number]:
            if free[name] >= sizes[number]:
                free[name] -= sizes[number]
                placed[number] = name
                if fit(position + 1):
                    return True
                free[name] += sizes[number]
        return False

    if not fit(0):
        names = Counter(name for name, _, _ in todo)
        offers = {name: one.offers for name, one in cluster.nodes.items() if one.offers}
        raise Failure("scheduler", f"Pending: {dict(names)} on {offers}")
    return [cluster.nodes[placed[number]] for number in range(len(todo))]


def _able(one: tuple[str, App, Mapping[str, Any]], cluster: Cluster) -> list[str]:
    """Nodes that pass the scheduler's filters and whose every card has the memory asked for."""
    name, app, spec = one
    (resource,) = claims(spec["containers"][0])
    found = []
    for node in cluster.nodes.values():
        small = [g for g in node.facts.gpus if app.vram_mib and g.memory_mib < app.vram_mib]
        if resource in node.offers and node.admits(spec) and not small:
            found.append(node.facts.name)
    if not found:
        raise Failure("scheduler", f"app {name}: no node has {resource}, the labels and the memory")
    return found


def _check_attached(todo: Todo, places: list[NodeState], modes: Mapping[str, str]) -> None:
    """A volume for one writer is attached to one node, or mounted by one pod."""
    users: dict[str, list[str]] = {}
    for (_, _, spec), node in zip(todo, places, strict=True):
        for volume in spec.get("volumes") or ():
            users.setdefault(volume["persistentVolumeClaim"]["claimName"], []).append(
                node.facts.name
            )
    for claim, nodes in users.items():
        mode = modes[claim.removesuffix("-made")]
        if (mode == "ReadWriteOnce" and len(set(nodes)) > 1) or (
            mode == "ReadWriteOncePod" and len(nodes) > 1
        ):
            raise Failure("storage", f"Multi-Attach error for volume {claim}: {mode}, on {nodes}")


def _compute(
    name: str, app: App, spec: Mapping[str, Any], node: NodeState, cluster: Cluster
) -> None:
    pod = {"metadata": {"name": f"{name}-0", "namespace": app.namespace}, "spec": spec}
    context = node.context(spec, cluster.classes, device_list_strategy(cluster.policy))
    if rejection := admit(pod, node.facts, cluster.classes, context):
        raise Failure("kubelet", f"app {name}: {rejection.message}")
    outcome = start(pod, node.facts, context)
    view = outcome.view.containers[name]
    if outcome.containers[name].state == "waiting":
        raise Failure("kubelet", f"app {name}: {outcome.containers[name].reason}")
    if len(view.gpus) < app.gpus:
        raise Failure("injection", f"app {name}: {len(view.gpus)} cards of {app.gpus} in the pod")
    # What CUDA an image is made for is judged only where the stack or the tag says it.
    if view.driver_result or (images.cuda(app) and view.runtime_result):
        raise Failure("cuda", f"app {name}: {view.driver_result}, {view.runtime_result}")
