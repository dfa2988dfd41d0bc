"""WebSocket as clients of the API server speak it to kubelets: binary messages, channel first."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Iterator
from typing import Final

from rack.cluster.streaming.channels import Input, Name
from rack.cluster.streaming.connection import Connection

_MAGIC: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455, section 1.3."""
_NAMES: Final[tuple[Name, ...]] = ("stdin", "stdout", "stderr", "error", "resize")
_CONTINUED: Final = 0
_BINARY: Final = 2
_CLOSE: Final = 8
_PING: Final = 9
_PONG: Final = 10
_FINAL: Final = 0x80
_MASKED: Final = 0x80
_NORMAL: Final = struct.pack(">H", 1000)


def accept(key: str) -> str:
    """The answer to a client's key."""
    digest = hashlib.sha1((key + _MAGIC).encode(), usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


class WebSocket:
    """The server's side of one connection: binary messages."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._file = connection.file

    def messages(self) -> Iterator[bytes]:
        """What comes in, until the client has gone."""
        message = b""
        while (frame := self._next()) is not None:
            kind, is_final, body = frame
            if kind == _CLOSE:
                return
            if kind == _PING:
                self._send(_PONG, body)
            if kind > _CLOSE:
                continue
            message += body
            if is_final:
                yield message
                message = b""

    def send(self, message: bytes) -> None:
        """Send a message.

        Raises:
            OSError: the client is gone.
        """
        self._send(_BINARY, message)

    def close(self) -> None:
        """Say that nothing follows."""
        self._send(_CLOSE, _NORMAL)

    def _next(self) -> tuple[int, bool, bytes] | None:
        """Kind, whether it ends its message, and content of a frame; None where there is none."""
        try:
            first, second = self._exactly(2)
            size = second & ~_MASKED
            if size > 125:
                form, length = (">H", 2) if size == 126 else (">Q", 8)
                (size,) = struct.unpack(form, self._exactly(length))
            mask = self._exactly(4) if second & _MASKED else bytes(4)
            body = self._exactly(size)
        except (OSError, ValueError):
            return None
        plain = bytes(byte ^ mask[at % 4] for at, byte in enumerate(body))
        return first & 0x0F, bool(first & _FINAL), plain

    def _exactly(self, size: int) -> bytes:
        found = self._file.read(size)
        if len(found) < size:
            raise ConnectionError("the client went away")
        return found

    def _send(self, kind: int, body: bytes) -> None:
        size = len(body)
        if size < 126:
            head = struct.pack(">BB", _FINAL | kind, size)
        elif size < 1 << 16:
            head = struct.pack(">BBH", _FINAL | kind, 126, size)
        else:
            head = struct.pack(">BBQ", _FINAL | kind, 127, size)
        self._connection.send(head + body)


class WebSocketChannels(WebSocket):
    """The channels of one exec."""

    def read(self, take: Input) -> None:
        """Hand over what comes in."""
        for message in self.messages():
            if message and message[0] < len(_NAMES):
                take(_NAMES[message[0]], message[1:], is_last=False)

    def write(self, name: Name, data: bytes, *, is_last: bool = False) -> None:
        """Send data of a channel."""
        if data:
            self.send(bytes([_NAMES.index(name)]) + data)
