"""What a pod on a node is: whether its sandbox starts, what is injected, and what it does.

A pod is the Kubernetes object as JSON (camelCase), as the API server gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rack.world.behaviour import Result, run
from rack.world.container import Container
from rack.world.nodefacts import NodeFacts
from rack.world.podtypes import ContainerOutcome, Pod, PodContext, PodOutcome, Rejection
from rack.world.podview import PodView

__all__ = ["ContainerOutcome", "Pod", "PodContext", "PodOutcome", "Rejection", "admit", "start"]

RESOURCE: Final = "nvidia.com/gpu"
"""What the device plugin offers; shared slots may be called nvidia.com/gpu.shared."""
_DEFAULT_HANDLER: Final = "runc"
_READ_ONLY: Final = ("/usr/", "/bin/", "/sbin/", "/lib/", "/boot/")
"""Talos' root filesystem is an image: nothing can be made there."""
_EXISTING: Final = frozenset({"/usr/local", "/usr/local/bin", "/usr/local/lib"})


def gpu_claim(container: Mapping[str, Any]) -> int:
    """How many GPUs, or slots of shared ones, a container of a pod claims."""
    limits: Mapping[str, Any] = (container.get("resources") or {}).get("limits") or {}
    return sum(int(count) for name, count in limits.items() if name in (RESOURCE, _SHARED))


_SHARED: Final = f"{RESOURCE}.shared"


def admit(
    pod: Pod, node: NodeFacts, runtime_classes: Mapping[str, str], ctx: PodContext | None = None
) -> Rejection | None:
    """Why the node does not make the pod's sandbox; None when it does.

    `runtime_classes` gives each RuntimeClass' handler. Without `ctx`, claims are not checked.
    """
    spec = pod["spec"]
    if ctx is not None and (found := _refused_claim(spec, ctx)):
        return found
    for volume in spec.get("volumes") or ():
        if found := _refused_mount(volume):
            return found
    name = spec.get("runtimeClassName")
    if name and name not in runtime_classes:
        return _no_sandbox(f'RuntimeClass "{name}" not found')
    handler = runtime_classes[name] if name else _DEFAULT_HANDLER
    if handler not in node.runtime_handlers:
        return _no_sandbox(
            "rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for"
            f' "{handler}" is configured'
        )
    return None


def _refused_claim(spec: Mapping[str, Any], ctx: PodContext) -> Rejection | None:
    """The device manager's answer to a claim that it cannot serve."""
    for container in spec["containers"]:
        claim = gpu_claim(container)
        if ctx.largest_claim is not None and claim > ctx.largest_claim:
            text = (
                f"request for '{RESOURCE}: {claim}' too large: maximum request size for shared"
                f" resources is {ctx.largest_claim}"
            )
        elif claim > len(ctx.gpus.get(container["name"], ())):
            text = f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}"
        else:
            continue
        message = f"Pod was rejected: Allocate failed due to {text}, which is unexpected"
        return Rejection(reason="UnexpectedAdmissionError", message=message, is_final=True)
    return None


def _refused_mount(volume: Mapping[str, Any]) -> Rejection | None:
    """Nothing can be made in Talos' root filesystem."""
    host: Mapping[str, Any] = volume.get("hostPath") or {}
    path = str(host.get("path", "")).rstrip("/")
    if host.get("type") != "DirectoryOrCreate" or path in _EXISTING:
        return None
    if not path.startswith(_READ_ONLY):
        return None
    message = (
        f'MountVolume.SetUp failed for volume "{volume["name"]}" : mkdir {path}: read-only file'
        " system"
    )
    return Rejection(reason="FailedMount", message=message, is_final=False)


def _no_sandbox(text: str) -> Rejection:
    return Rejection(
        reason="FailedCreatePodSandBox",
        message=f"Failed to create pod sandbox: {text}",
        is_final=False,
    )


def start(pod: Pod, node: NodeFacts, ctx: PodContext) -> PodOutcome:
    """What the containers of an admitted pod come to. Ask again whenever `ctx` has changed."""
    spec = pod["spec"]
    handler = ctx.runtime_classes.get(spec.get("runtimeClassName") or "", _DEFAULT_HANDLER)

    def container(one: Mapping[str, Any]) -> Container:
        return Container(
            pod,
            one,
            node,
            handler=handler,
            allocated=ctx.gpus.get(one["name"], ()),
            strategies=ctx.device_list_strategy,
        )

    init, results, markers = _run_init(
        [container(c) for c in spec.get("initContainers") or ()], ctx
    )
    containers = [container(one) for one in spec["containers"]]
    is_ready = len(results) == len(init) and all(_went_on(result) for result in results)
    mains = [run(one, ctx) for one in containers] if is_ready else []
    outcomes = [result.outcome for result in mains] or [_INITIALISING] * len(containers)
    retries = [r.retry_after for r in (*results, *mains) if r.retry_after is not None]
    return PodOutcome(
        init=init,
        containers=dict(zip([one.name for one in containers], outcomes, strict=True)),
        view=_view(pod, node, containers, mains),
        completes=is_ready and all(o.state == "exited" and o.exit_code == 0 for o in outcomes),
        retry_after=min(retries, default=None),
        markers=markers,
    )


_INITIALISING: Final = ContainerOutcome(state="waiting", reason="PodInitializing")


def _run_init(
    containers: list[Container], ctx: PodContext
) -> tuple[dict[str, ContainerOutcome], list[Result], frozenset[str]]:
    """Init containers one after the other, until one does not end well.

    A later one sees the files that an earlier one has written.
    """
    outcomes: dict[str, ContainerOutcome] = {}
    results: list[Result] = []
    markers: frozenset[str] = frozenset()
    for one in containers:
        if results and not _went_on(results[-1]):
            outcomes[one.name] = _INITIALISING
            continue
        seen = ctx.model_copy(update={"markers": ctx.markers | markers})
        result = run(one, seen)
        results.append(result)
        outcomes[one.name] = result.outcome
        markers |= result.markers
    return outcomes, results, markers


def _went_on(result: Result) -> bool:
    """The next container may start."""
    outcome = result.outcome
    is_done = outcome.state == "exited" and outcome.exit_code == 0
    return is_done or (result.is_sidecar and outcome.state == "running")


def _view(pod: Pod, node: NodeFacts, containers: list[Container], results: list[Result]) -> PodView:
    uses = results or [Result(outcome=_INITIALISING)] * len(containers)
    return PodView(
        uid=pod["metadata"].get("uid", ""),
        name=pod["metadata"]["name"],
        namespace=pod["metadata"].get("namespace", "default"),
        node=node.name,
        node_address=node.address,
        kernel_version=node.kernel_version,
        cpus=node.cpus,
        memory_mib=node.memory_mib,
        containers={
            one.name: one.view(used_mib=use.used_mib, utilisation=use.utilisation)
            for one, use in zip(containers, uses, strict=True)
        },
    )
