"""Types of the pod model: what goes in and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from rack.world.nodefacts import Frozen
from rack.world.podview import PodView

Pod = Mapping[str, Any]
"""The Kubernetes object as JSON."""


class PodContext(Frozen):
    """What a kubelet knows besides the pod and the node."""

    gpus: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """UUIDs of the GPUs that the device manager allocated, by container name."""
    runtime_classes: dict[str, str] = Field(default_factory=dict)
    """Handler of each RuntimeClass, by its name."""
    device_list_strategy: tuple[str, ...] = ("envvar",)
    """How the device plugin hands its devices over; `operator.device_list_strategy()` says it."""
    markers: frozenset[str] = frozenset()
    """Files in /run/nvidia/validations of the node: the union of `PodOutcome.markers` of the
    pods that live there now."""
    gpu_capacity: int = 0
    """The node's capacity of every resource that starts with nvidia.com/gpu."""
    largest_claim: int | None = None
    """Most slots that one container may claim where cards are shared; None: no limit."""


class Rejection(Frozen):
    """Why a pod does not start on this node."""

    reason: str
    """Reason of the event, for example FailedCreatePodSandBox."""
    message: str
    is_final: bool
    """The pod is Failed for good; otherwise it stays in ContainerCreating and is tried again."""


class ContainerOutcome(Frozen):
    """What a container comes to."""

    state: Literal["running", "waiting", "exited"]
    reason: str = ""
    """For example PodInitializing, CrashLoopBackOff, ImagePullBackOff, Completed, Error."""
    message: str = ""
    exit_code: int = 0
    log_lines: tuple[str, ...] = ()
    """What it has written to stdout and stderr by now."""
    argv: tuple[str, ...] = ()
    """Where not empty: the container runs this command of `rack.programs`, and its output and
    exit code are the container's (`rack.programs.launch.run_command`). The other fields hold for
    a kubelet that does not run it."""


class PodOutcome(Frozen):
    """What a pod comes to."""

    init: dict[str, ContainerOutcome] = Field(default_factory=dict)
    """Init containers in their order. One that does not end keeps the later ones waiting."""
    containers: dict[str, ContainerOutcome] = Field(default_factory=dict)
    view: PodView
    completes: bool = False
    """Every container exits with 0: the pod succeeds where its restart policy lets it."""
    retry_after: float | None = None
    """Seconds after which to ask again, because the pod polls or restarts; None: not before the
    pod, the node or the context changes."""
    markers: frozenset[str] = frozenset()
    """Files that this pod has put into /run/nvidia/validations of its node. They go with it."""
