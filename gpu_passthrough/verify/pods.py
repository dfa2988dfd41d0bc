"""Two ways into a pod: a GET on one of its ports, and a command in one of its containers."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Sequence
from typing import Any, Final, cast

import websocket

from gpu_passthrough.verify.cluster import Cluster, Object

ANSWER_S: Final = 10.0
"""Longest wait for an answer."""
_STATUS: Final = 3
"""Channel on which the API server says how a command ended."""
_LARGEST: Final = 16 * 1024 * 1024
"""Most bytes of an answer: a pod can send anything."""


# A stream connects without a limit of its own: an API server whose machine is off would hold it.
websocket.setdefaulttimeout(ANSWER_S)


class PodError(Exception):
    """The pod did not answer; the message says why, in one line."""


class RefusedError(PodError):
    """The API server does not let us."""


def fetch(cluster: Cluster, pod: Object, port: int, path: str) -> str:
    """What a port of a pod answers to a GET, through the API server's port-forward.

    Raises:
        PodError: it does not answer, or with something else than 200.
    """
    from kubernetes.client import ApiException
    from kubernetes.stream import portforward

    meta = pod["metadata"]
    try:
        forward = portforward(
            cluster.core().connect_get_namespaced_pod_portforward,
            meta["name"],
            meta["namespace"],
            ports=str(port),
        )
    except (ApiException, OSError) as error:
        raise _failed("port-forward", error) from None
    connection = forward.socket(port)
    try:
        connection.settimeout(ANSWER_S)
        return _get(connection, path)
    except (OSError, http.client.HTTPException) as error:
        said = str(forward.error(port) or "") or str(error) or type(error).__name__
        raise PodError(f"port {port} does not answer: {_line(said)}") from None
    finally:
        forward.close()


def _get(connection: Any, path: str) -> str:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    connection.sendall(request.encode())
    answer = http.client.HTTPResponse(cast("socket.socket", connection))
    answer.begin()
    text = answer.read(_LARGEST).decode(errors="replace")
    if answer.status != 200:
        raise http.client.HTTPException(f"{answer.status} {answer.reason}")
    return text


def run(
    cluster: Cluster, pod: Object, container: str, argv: Sequence[str], seconds: float = ANSWER_S
) -> str:
    """What a command in a container prints within so many seconds.

    Raises:
        PodError: it cannot be run, does not end, or ends badly.
    """
    from kubernetes.client import ApiException
    from kubernetes.stream import stream
    from websocket import WebSocketException

    meta = pod["metadata"]
    try:
        session = stream(
            cluster.core().connect_get_namespaced_pod_exec,
            meta["name"],
            meta["namespace"],
            container=container,
            command=list(argv),
            stdin=False,
            stdout=True,
            stderr=True,
            tty=False,
            _preload_content=False,
        )
    except (ApiException, OSError) as error:
        raise _failed("exec", error) from None
    try:
        session.run_forever(timeout=seconds)
        if session.is_open():
            raise PodError(f"{argv[0]} does not end within {seconds:.0f} s")
        status = str(session.read_channel(_STATUS))
        text = str(session.read_all())
    except (OSError, WebSocketException) as error:
        raise PodError(f"exec broke off: {reason(error)}") from None
    finally:
        session.close()
    if problem := _failure(status):
        raise PodError(f"{argv[0]}: {_line(text) or problem}")
    return text


def _failure(status: str) -> str:
    """What the API server says of a command that has ended; empty where it ended well."""
    try:
        said = json.loads(status)
        return "" if said["status"] == "Success" else _line(str(said.get("message"))) or "failed"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "it was cut off"


REFUSALS: Final = ("Handshake status 401", "Handshake status 403")


def _failed(what: str, error: BaseException) -> PodError:
    """A stream that does not begin: the API server refuses it, or does not reach the kubelet."""
    why = reason(error)
    if why.startswith(REFUSALS) or getattr(error, "status", None) in (401, 403):
        return RefusedError(f"{what} is refused: {why}")
    return PodError(f"{what} does not begin: {why}")


def reason(error: BaseException) -> str:
    """Why a request failed, in one line."""
    return _line(str(getattr(error, "reason", None) or error)) or type(error).__name__


def _line(text: str) -> str:
    """The first line that says something, not too long."""
    lines = [one.strip() for one in text.splitlines() if one.strip()]
    return lines[0][:200] if lines else ""
