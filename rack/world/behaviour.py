"""What a started container does: its image's own program, or the command that the pod names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from rack.world import applications, operands
from rack.world.container import Container
from rack.world.filetree import FileTree
from rack.world.podtypes import ContainerOutcome, PodContext
from rack.world.result import Result, exited, running

__all__ = ["Result", "run"]

_POLL: Final = re.compile(r"until \[ -f /run/nvidia/validations/(\S+) \]; do echo ([^;]+);")
"""How operands wait for each other."""
_ENDLESS: Final = re.compile(r"sleep (inf|infinity|\d{4,})|tail -f|while (true|:)|for \(\(;;\)\)")
POLL_S: Final = 5.0

_OPAQUE: Final = ("", "operand")
"""Behaviours of images that have more programs than the rack knows."""
_APPLICATIONS: Final[dict[str, Callable[[Container], Result]]] = {
    "immich-machine-learning": applications.immich,
    "vectoradd": applications.vector_add,
    "shell": applications.shell,
    "operand": applications.unknown,
    "": applications.unknown,
}


def run(container: Container, ctx: PodContext) -> Result:
    """What the container comes to, with what the kubelet knows now."""
    result = _run(container, ctx)
    is_sidecar = container.spec.get("restartPolicy") == "Always"
    return result.model_copy(update={"is_sidecar": is_sidecar})


def _run(container: Container, ctx: PodContext) -> Result:
    if container.image.is_missing:
        return _not_pulled(container.image.view.reference)
    if container.injection.error:
        return exited(128, "StartError", container.injection.error)
    text = " ".join(container.argv)
    if (poll := _POLL.search(text)) is not None:
        return _poll(poll.group(1), poll.group(2), ctx)
    operand = operands.behaviour(container)
    if operand is not None:
        return operand(container, ctx)
    if container.argv:
        return _command(container)
    return _APPLICATIONS[container.image.application](container)


def _not_pulled(reference: str) -> Result:
    message = (
        f'Back-off pulling image "{reference}": ErrImagePull: rpc error: code = NotFound desc ='
        f' failed to pull and unpack image "{reference}": failed to resolve reference'
        f' "{reference}": {reference}: not found'
    )
    return Result(
        outcome=ContainerOutcome(state="waiting", reason="ImagePullBackOff", message=message)
    )


def _poll(marker: str, says: str, ctx: PodContext) -> Result:
    """A loop in a shell until another pod has written its file."""
    if marker in ctx.markers:
        return exited(0)
    return running(says.strip(), retry_after=POLL_S)


def _command(container: Container) -> Result:
    """A command of the pod's own."""
    argv, view = container.argv, container.view()
    text = " ".join(argv)
    if container.image.application in _OPAQUE and not container.image.view.python:
        # Nobody knows what else is in such an image, so its programs are taken to do their work.
        known = FileTree(view.files).program(argv[0], view.env.get("PATH", ""))
        if known is None:
            policy = container.pod["spec"].get("restartPolicy", "Always")
            return running() if policy == "Always" else exited(0)
    if FileTree(view.files).program(argv[0], view.env.get("PATH", "")) is None:
        return exited(
            128,
            "StartError",
            "failed to create containerd task: failed to create shim task: OCI runtime create"
            " failed: runc create failed: unable to start container process: error during container"
            f' init: exec: "{argv[0]}": executable file not found in $PATH: unknown',
        )
    if _ENDLESS.search(text):
        return running()
    result = exited(0)
    outcome = result.outcome.model_copy(update={"argv": argv})
    return result.model_copy(update={"outcome": outcome})
