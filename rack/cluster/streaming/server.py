"""Every kubelet's HTTPS port: exec, logs and port-forward, for the API server only.

All nodes share the port: the pod says which node is meant. Commands are the rack's own programs
(see session.py).
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Final

from urllib3.exceptions import HTTPError

from rack.cluster import listeners, podlogs
from rack.cluster.api import Api, ApiError, Object
from rack.cluster.streaming import forward, logs, request, session
from rack.cluster.streaming.channels import PROTOCOL
from rack.cluster.streaming.connection import Connection
from rack.cluster.streaming.request import Request
from rack.cluster.streaming.spdy import SpdyChannels
from rack.cluster.streaming.websocket import WebSocketChannels, accept
from rack.settings import Settings
from rack.sockets import listen

LOG: Final = logging.getLogger(__name__)
HANDSHAKE_S: Final = 10.0
SPDY: Final = "SPDY/3.1"
_CLIENTS: Final = "system:masters"
"""Organization of the API server's certificate as a client of kubelets."""


class UnavailableError(Exception):
    """The request cannot be served; status line and text of the answer."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class KubeletServer:
    """The port, open from start to stop."""

    def __init__(self, settings: Settings, api: Api, is_up: Callable[[str], bool]) -> None:
        """Serve the pods of one API server.

        Args:
            settings: where the pods' files and the certificates are.
            api: knows the pods.
            is_up: whether the machine of a node runs.
        """
        self._settings = settings
        self._api = api
        self._is_up = is_up
        self._tls = _context(settings)
        self._listener = listen(settings.ports.kubelet, "the simulated rack's kubelets")
        self._thread = threading.Thread(target=self._run, name="kubelet API", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port; commands that run lose their client with the API server."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _run(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._talk, args=(plain,), daemon=True).start()

    def _talk(self, plain: socket.socket) -> None:
        try:
            plain.settimeout(HANDSHAKE_S)
            with self._tls.wrap_socket(plain, server_side=True) as tls:
                self._serve(Connection(tls))
        except (OSError, ApiError, HTTPError) as error:
            LOG.debug("a connection to the kubelets ended: %s", error)
        except Exception:
            LOG.exception("a request to the simulated rack's kubelets broke")
        finally:
            plain.close()

    def _serve(self, connection: Connection) -> None:
        found = request.read(connection.file)
        if found is None:
            return
        try:
            if ("organizationName", _CLIENTS) not in connection.subject:
                raise UnavailableError("403 Forbidden", "Forbidden")
            self._dispatch(found, connection)
        except UnavailableError as refusal:
            request.answer(connection, refusal.status, refusal.text)

    def _dispatch(self, found: Request, connection: Connection) -> None:
        match found.path:
            case ("healthz",):
                request.answer(connection, "200 OK", "ok")
            case ("containerLogs", namespace, name, container):
                self._logs(found, self._pod(namespace, name), container, connection)
            case ("exec", namespace, name, container):
                pod = self._pod(namespace, name)
                self._exec(found, pod, container, connection)
            case ("exec", namespace, name, uid, container):
                pod = self._pod(namespace, name, uid)
                self._exec(found, pod, container, connection)
            case ("portForward", namespace, name):
                self._forward(found, self._pod(namespace, name), connection)
            case ("portForward", namespace, name, uid):
                self._forward(found, self._pod(namespace, name, uid), connection)
            case _:
                text = f"simulated rack: kubelets do not serve /{'/'.join(found.path)}"
                raise UnavailableError("404 Not Found", text)

    def _pod(self, namespace: str, name: str, uid: str = "") -> Object:
        pod = self._api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        if pod is None or (uid and pod["metadata"]["uid"] != uid):
            raise UnavailableError("404 Not Found", "pod does not exist")
        node = pod["spec"].get("nodeName", "")
        if not self._is_up(node):
            text = f"simulated rack: the machine of node {node} is off: no route to host"
            raise UnavailableError("502 Bad Gateway", text)
        return pod

    def _logs(self, found: Request, pod: Object, container: str, connection: Connection) -> None:
        try:
            query = {name: values[0] for name, values in found.query.items()}
            wanted = logs.Wanted.of(query, time.time())
        except ValueError as error:
            raise UnavailableError("400 Bad Request", str(error)) from None
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        file = podlogs.log_file(self._settings, uid, container, wanted.previous)
        if not file.exists():
            raise UnavailableError("400 Bad Request", _no_log(pod, container, wanted.previous))
        namespace = pod["metadata"]["namespace"]
        request.begin(connection)
        for part in logs.read(file, wanted, lambda: self._is_over(namespace, name, uid, container)):
            if connection.is_gone:
                return
            connection.send(part)

    def _is_over(self, namespace: str, name: str, uid: str, container: str) -> bool:
        """Nothing more is written to the container's log."""
        pod = self._api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        if pod is None or pod["metadata"]["uid"] != uid:
            return True
        return "terminated" in _state(pod, container)

    def _exec(
        self,
        found: Request,
        pod: Object,
        container: str,
        connection: Connection,
    ) -> None:
        argv = found.query.get("command", [])
        if "running" not in _state(pod, container):
            text = f'container not found ("{container}")'
            raise UnavailableError("500 Internal Server Error", text)
        if not argv:
            raise UnavailableError("400 Bad Request", "you must specify at least one command")
        command = session.Command(
            view=self._settings.pods_home / f"{pod['metadata']['uid']}.json",
            container=container,
            argv=argv,
            has_stdin=found.flag("input"),
            is_terminal=found.flag("tty"),
        )
        channels = _upgrade(found, command, connection)
        session.run(command, channels)
        channels.close()
        connection.finish(HANDSHAKE_S)

    def _forward(self, found: Request, pod: Object, connection: Connection) -> None:
        """Connect a client to ports of a pod.

        Nothing listens in a pod whose containers do not run: not yet, or not any more.
        """
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]

        def find(port: int) -> listeners.Listener | None:
            try:
                now = self._pod(namespace, name, pod["metadata"]["uid"])
            except UnavailableError:
                return None
            if "running" not in _state(now, now["spec"]["containers"][0]["name"]):
                return None
            return listeners.listener(self._settings, now["metadata"]["uid"], port)

        _upgrade_forward(found, find, connection).run()
        connection.finish(HANDSHAKE_S)


def _context(settings: Settings) -> ssl.SSLContext:
    folder = settings.kubernetes_home / "pki"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "kubelet.crt", folder / "kubelet.key")
    context.load_verify_locations(folder / "kubernetes-ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _upgrade(
    found: Request, command: session.Command, connection: Connection
) -> SpdyChannels | WebSocketChannels:
    carrier = _switch(found, connection, PROTOCOL)
    if carrier == "websocket":
        return WebSocketChannels(connection)
    if carrier == SPDY:
        channels = SpdyChannels(connection)
        asked = [found.flag(name) for name in ("input", "output")]
        asked.append(command.is_terminal or found.flag("error"))  # a terminal has its size there
        channels.open(1 + sum(asked))
        return channels
    raise _not_upgraded()


def _upgrade_forward(
    found: Request, find: forward.Find, connection: Connection
) -> forward.SpdyForward | forward.WebSocketForward:
    carrier = _switch(found, connection, forward.PROTOCOL)
    if carrier == "websocket":
        ports = [int(port) for port in found.query.get("port", []) if port.isdecimal()]
        return forward.WebSocketForward(connection, ports, find)
    if carrier == SPDY:
        return forward.SpdyForward(connection, find)
    raise _not_upgraded()


def _switch(found: Request, connection: Connection, spdy_version: str) -> str:
    """Agree on a carrier and say so to the client; empty where it offers none that is known."""
    kind = found.headers.get("upgrade", [""])[0]
    if kind.lower() == "websocket" and PROTOCOL in found.offers("sec-websocket-protocol"):
        key = found.headers.get("sec-websocket-key", [""])[0]
        answer = {"Sec-WebSocket-Accept": accept(key), "Sec-WebSocket-Protocol": PROTOCOL}
        request.switch(connection, {"Upgrade": "websocket", **answer})
        return "websocket"
    if kind == SPDY and spdy_version in found.offers("x-stream-protocol-version"):
        request.switch(connection, {"Upgrade": SPDY, "X-Stream-Protocol-Version": spdy_version})
        return SPDY
    return ""


def _not_upgraded() -> UnavailableError:
    return UnavailableError(
        "400 Bad Request", f"unable to upgrade: only {SPDY} and WebSocket are known"
    )


def _state(pod: Object, container: str) -> Object:
    """State of a container; empty where there is none of that name."""
    known = pod.get("status") or {}
    for part in ("containerStatuses", "initContainerStatuses"):
        for one in known.get(part) or ():
            if one["name"] == container:
                state: Object = one["state"]
                return state
    return {}


def _no_log(pod: Object, container: str, previous: bool) -> str:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    if previous:
        return f'previous terminated container "{container}" in pod "{name}" not found'
    reason = _state(pod, container).get("waiting", {}).get("reason", "")
    if reason:
        return f'container "{container}" in pod "{name}" is waiting to start: {reason}'
    return f'container "{container}" in pod "{namespace}/{name}" is not available'
