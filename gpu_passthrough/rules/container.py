"""An app's container: its image's name, its variables, and those that NVIDIA's runtime reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_passthrough.config import App, Stack
from gpu_passthrough.problems import Path, Problem

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
CUDA_VISIBLE = "CUDA_VISIBLE_DEVICES"
NEEDED = {"compute": "CUDA's libraries", "utility": "NVML and nvidia-smi"}

_VARIABLE = re.compile(r"[ -<>-~]+")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|[A-Za-z0-9-]+(?=:\d))(?::\d+)?/)?"
    rf"{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?"
)


def image_name(stack: Stack) -> Iterator[Problem]:
    """An image's name is one that a container runtime can read (distribution's grammar)."""
    for name, app in stack.apps.items():
        if not _IMAGE.fullmatch(app.image):
            yield Problem(
                ("apps", name, "image"),
                f"{app.image!r} of app {name} is not the name of an image.",
                why="The kubelet says InvalidImageName, and the pod never starts.",
                fix="Write REGISTRY/FOLDER/NAME:TAG; only the tag may have capital letters.",
            )


def _variables(name: str, app: App) -> Iterator[tuple[Path, str]]:
    for key in app.env:
        yield ("apps", name, "env", key), key
    for key in app.secret_env:
        yield ("apps", name, "secretEnv", key), key


def variable_names(stack: Stack) -> Iterator[Problem]:
    """A variable's name is printable and has no equals sign (Kubernetes, envvar name)."""
    for name, app in stack.apps.items():
        for path, key in _variables(name, app):
            if not _VARIABLE.fullmatch(key):
                yield Problem(
                    path,
                    f"{key!r} is not the name of a variable.",
                    why="The API server refuses the pod.",
                    fix="Use letters, digits and underscores.",
                )


def visible_devices(stack: Stack) -> Iterator[Problem]:
    """Which cards a pod sees is the device plugin's to say (NVIDIA/k8s-device-plugin#61, #87)."""
    for name, app in stack.apps.items():
        for path, key in _variables(name, app):
            if key == VISIBLE:
                yield Problem(
                    path,
                    f"App {name} sets {VISIBLE}, and claims {app.gpus} GPU by its limit.",
                    why="The pod's own variable wins over the device plugin's: with all, the app"
                    " computes on cards of others; with none or void, it sees no card.",
                    fix="Remove it; gpus says how many cards the pod gets.",
                    also=(("apps", name, "gpus"),),
                )


def capabilities(stack: Stack) -> Iterator[Problem]:
    """The driver's libraries for computing are asked for (mudler/LocalAI#11973)."""
    for name, app in stack.apps.items():
        given = app.env.get(CAPABILITIES)
        words = {word.strip() for word in (given or "").split(",")}
        if given is None or "all" in words:
            continue
        for word, brings in NEEDED.items():
            if word not in words:
                yield Problem(
                    ("apps", name, "env", CAPABILITIES),
                    f"{CAPABILITIES} of app {name} is {given!r} and leaves out {word}.",
                    why=f"It brings {brings}. Toolkits before 1.18 inject only what is named: the"
                    " app then fails to load libcuda.so.1, or cannot see its card.",
                    fix="Leave it out, or write compute,utility and what else the app needs.",
                )
                break


def cuda_devices(stack: Stack) -> Iterator[Problem]:
    """CUDA counts the pod's own cards, from 0 (CUDA programming guide)."""
    for name, app in stack.apps.items():
        given = app.env.get(CUDA_VISIBLE)
        if given is None or not re.fullmatch(r"\s*(-?\d+\s*(,\s*-?\d+\s*)*)?", given):
            continue
        numbers = [int(word) for word in given.split(",") if word.strip()]
        wrong = [number for number in numbers if not 0 <= number < app.gpus]
        if numbers and not wrong:
            continue
        told = f"; the pod has {app.gpus}, so the last is {app.gpus - 1}" if wrong else ""
        yield Problem(
            ("apps", name, "env", CUDA_VISIBLE),
            f"{CUDA_VISIBLE} of app {name} is {given!r}{told}.",
            why="CUDA hides every card from the first number on that it does not have; the app"
            " finds none.",
            fix="Remove it: a pod sees only the cards that it claimed.",
            also=(("apps", name, "gpus"),),
        )
