"""What a preview cannot look at from where it runs, and what that means for the plan."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from gpu_passthrough.config import Stack

Part = Literal["proxmox", "kubernetes", "factory", "charts"]

PATIENCE = 3
"""Seconds that a place has to answer."""
MEANING: dict[Part, tuple[str, str]] = {
    "proxmox": ("Proxmox", "VMs and mappings are compared with the state, not with the host"),
    "kubernetes": (
        "the Kubernetes API",
        "objects in the cluster are compared with the state, not with the cluster",
    ),
    "factory": ("the image factory", "nobody asked whether it has these extensions"),
    "charts": (
        "the chart repository",
        "the release's values are compared, but nobody saw whether the chart exists",
    ),
}
"""What a part is called, and what the plan lacks without it."""


@dataclass(frozen=True)
class Blind:
    """A place that does not answer."""

    part: Part
    address: str

    def __str__(self) -> str:
        name, meaning = MEANING[self.part]
        return f"{name} ({self.address}) does not answer from here: {meaning}."


def _listens(url: str) -> bool:
    """Whether something takes connections there."""
    parts = urlsplit(url)
    port = parts.port or (80 if parts.scheme == "http" else 443)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=PATIENCE):
            return True
    except OSError:
        return False


def _serves(url: str) -> bool:
    """Whether an HTTP server answers there, through the machine's proxy where there is one."""
    if not url.startswith(("http://", "https://")):
        return _listens(url)
    try:
        # Its scheme is checked above.
        with urllib.request.urlopen(url, timeout=PATIENCE):  # noqa: S310
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except (OSError, ValueError):
        return False


def _has_charts(url: str) -> bool:
    if not url.startswith(("http://", "https://")):
        return _listens(url)
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/index.yaml", timeout=PATIENCE):  # noqa: S310
            return True
    except (OSError, ValueError):
        return False


ANSWERS: dict[Part, Callable[[str], bool]] = {
    "proxmox": _listens,
    "kubernetes": _listens,
    "factory": _serves,
    "charts": _has_charts,
}


def places(stack: Stack) -> list[Blind]:
    """Everything outside that `up` would talk to, as far as the configuration has its address."""
    found: list[Blind] = []
    if stack.proxmox:
        found.append(Blind("proxmox", stack.proxmox.endpoint))
    if stack.cluster:
        found.append(Blind("kubernetes", stack.cluster.endpoint))
        found.append(Blind("factory", stack.cluster.image_factory))
    found.append(Blind("charts", stack.gpu_operator.repository))
    return found


def blind(stack: Stack) -> list[Blind]:
    """The places that do not answer; all are asked at once."""
    asked = places(stack)
    with ThreadPoolExecutor(max_workers=len(asked)) as pool:
        answers = list(pool.map(lambda one: ANSWERS[one.part](one.address), asked))
    return [place for place, answered in zip(asked, answers, strict=True) if not answered]
