"""`kubectl port-forward`: connections to the ports of a pod, in both carriers.

What listens in the rack's pods answers one HTTP request at a time, from its head: so a connection
is a head that comes in and an answer that goes out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from rack.cluster.listeners import Listener
from rack.cluster.streaming.connection import Connection
from rack.cluster.streaming.spdy import Headers, Spdy
from rack.cluster.streaming.websocket import WebSocket

PROTOCOL: Final = "portforward.k8s.io"
"""The version that SPDY carries; WebSocket carries that of exec."""
LONGEST: Final = 64 * 1024
"""Most bytes of a request's head."""
_END: Final = b"\r\n\r\n"
_TOO_LONG: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)
Find = Callable[[int], Listener | None]
"""What listens on a port; None where nothing does."""


class Talk:
    """One connection to a port."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._head = b""

    def take(self, data: bytes) -> bytes:
        """The answer, once the request is there; empty before."""
        self._head += data
        if _END in self._head:
            return self._listener(self._head)
        return _TOO_LONG if len(self._head) > LONGEST else b""


def refused(port: int) -> bytes:
    """What the container runtime says of a port where nothing listens."""
    return (
        f"error forwarding port {port} to pod: failed to connect to localhost:{port} inside"
        f" namespace: IPv4: dial tcp4 127.0.0.1:{port}: connect: connection refused"
    ).encode()


class SpdyForward(Spdy):
    """Any number of connections: two streams each, with the same number of request."""

    def __init__(self, connection: Connection, find: Find) -> None:
        super().__init__(connection)
        self._find = find
        self._streams: dict[int, Headers] = {}
        self._talks: dict[int, Talk] = {}

    def run(self) -> None:
        """Serve until the client has gone."""
        while self.take():
            pass

    def opened(self, number: int, headers: Headers) -> None:
        """With its second stream a connection begins."""
        self._streams[number] = headers
        pair = {
            one["streamtype"]: known
            for known, one in self._streams.items()
            if one.get("requestid") == headers.get("requestid")
        }
        if pair.keys() < {"data", "error"}:
            return
        port = int(headers["port"])
        listener = self._find(port)
        if listener is not None:
            self._talks[pair["data"]] = Talk(listener)
            return
        self.send(pair["error"], refused(port), is_last=True)
        self._end(pair["data"])

    def taken(self, number: int, data: bytes, *, is_last: bool) -> None:
        """Part of a request."""
        talk = self._talks.get(number)
        if talk is None:
            return
        if answer := talk.take(data):
            self.send(number, answer)
        if answer or is_last:
            self._end(number)

    def dropped(self, number: int) -> None:
        """The client ends a connection."""
        self._streams.pop(number, None)
        self._talks.pop(number, None)

    def _end(self, number: int) -> None:
        """End a connection by its stream of data."""
        self._talks.pop(number, None)
        request = self._streams[number].get("requestid")
        for known, headers in list(self._streams.items()):
            if headers.get("requestid") == request:
                del self._streams[known]
                self.send(known, b"", is_last=True)


class WebSocketForward(WebSocket):
    """One connection for each port: channels of data are even, their channels of errors odd."""

    def __init__(self, connection: Connection, ports: list[int], find: Find) -> None:
        super().__init__(connection)
        self._ports = ports
        self._find = find

    def run(self) -> None:
        """Serve until every port has answered or the client has gone."""
        talks: dict[int, Talk] = {}
        for index, port in enumerate(self._ports):
            number = struct.pack("<H", port)
            self.send(bytes([2 * index]) + number)
            self.send(bytes([2 * index + 1]) + number)
            if (listener := self._find(port)) is None:
                self.send(bytes([2 * index + 1]) + refused(port))
            else:
                talks[2 * index] = Talk(listener)
        incoming = self.messages()
        while talks and (message := next(incoming, None)) is not None:
            talk = talks.get(message[0]) if message else None
            if talk is not None and (answer := talk.take(message[1:])):
                self.send(message[:1] + answer)
                del talks[message[0]]
        self.close()
