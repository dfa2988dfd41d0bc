"""What listens inside of pods: the only ports that a port-forward reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from pydantic import ValidationError

from rack.cluster.devices import read_allocations
from rack.settings import Settings
from rack.world import dcgm
from rack.world.podview import PodView

CHECKPOINT: Final = "devices.json"
"""Allocations of the kubelets' device managers, in the folder of the cluster."""
Listener = Callable[[bytes], bytes]
"""Takes the head of an HTTP request and gives the whole answer."""
_INDEX: Final = "<html><head><title>GPU Exporter</title></head></html>\n"


def listener(settings: Settings, uid: str, port: int) -> Listener | None:
    """What listens on a port of a pod; None where nothing does."""
    pod = _view(settings, uid)
    if port != dcgm.PORT or pod is None or dcgm.CONTAINER not in pod.containers:
        return None
    return lambda head: _exporter(settings, uid, head)


def _exporter(settings: Settings, uid: str, head: bytes) -> bytes:
    """The DCGM exporter's answers."""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    path = words[1].partition("?")[0] if len(words) == 3 else ""
    pod = _view(settings, uid)
    if path == "/metrics" and pod is not None:
        return _answer("200 OK", dcgm.CONTENT_TYPE, _metrics(settings, pod))
    if path == "/health":
        return _answer("200 OK", "text/plain; charset=utf-8", "OK")
    if path == "/":
        return _answer("200 OK", "text/html; charset=utf-8", _INDEX)
    return _answer("404 Not Found", "text/plain; charset=utf-8", "404 page not found\n")


def _metrics(settings: Settings, exporter: PodView) -> str:
    pods = [pod for pod in _views(settings) if pod.node == exporter.node]
    allocations = read_allocations(settings.kubernetes_home / CHECKPOINT)
    return dcgm.metrics(exporter.containers[dcgm.CONTAINER], pods, allocations)


def _views(settings: Settings) -> Iterator[PodView]:
    for file in sorted(settings.pods_home.glob("*.json")):
        pod = _view(settings, file.stem)
        if pod is not None:
            yield pod


def _view(settings: Settings, uid: str) -> PodView | None:
    """A pod from inside; None where it is gone or not there yet."""
    try:
        return PodView.model_validate_json((settings.pods_home / f"{uid}.json").read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _answer(status: str, kind: str, text: str) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
