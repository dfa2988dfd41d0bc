"""What a preview cannot look at from where it runs, and what that means for the plan."""

from __future__ import annotations

import socket
import ssl
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
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


@dataclass(frozen=True)
class Question:
    """What tells a place from a gateway that answers in its stead."""

    path: str
    answers: frozenset[int]
    """Statuses that only the place itself gives, be it that it refuses us."""
    trusted: bool


QUESTIONS: dict[Part, Question] = {
    "proxmox": Question("/api2/json/version", frozenset({200, 401}), trusted=False),
    "kubernetes": Question("/version", frozenset({200, 401, 403}), trusted=False),
    "factory": Question("/versions", frozenset({200}), trusted=True),
    "charts": Question("/index.yaml", frozenset({200}), trusted=True),
}


def _listens(url: str) -> bool:
    """Whether something takes connections there."""
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 443), timeout=PATIENCE):
            return True
    except OSError:
        return False


def _status(url: str, *, trusted: bool) -> int:
    """The status of an HTTP answer, through the machine's proxy where there is one; 0 without.

    A connection alone proves nothing: some networks take and answer every one.
    """
    context = ssl.create_default_context()
    if not trusted:
        # Nothing secret is sent, and most hosts and clusters have certificates of their own.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        # Only http and https come here.
        with urllib.request.urlopen(url, timeout=PATIENCE, context=context) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, ValueError, HTTPException):
        return 0


def _answers(place: Blind) -> bool:
    """Whether what is expected answers there; a registry of images has no index to look at."""
    if not place.address.startswith(("http://", "https://")):
        return _listens(place.address)
    question = QUESTIONS[place.part]
    url = place.address.rstrip("/") + question.path
    return _status(url, trusted=question.trusted) in question.answers


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
        answers = list(pool.map(_answers, asked))
    return [place for place, answered in zip(asked, answers, strict=True) if not answered]
