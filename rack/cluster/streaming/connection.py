"""A TLS connection that one thread reads while others write.

OpenSSL's objects are for one thread at a time, and a thread that waits inside of one would keep
the others out: so waiting happens outside, on the socket.
"""

from __future__ import annotations

import io
import select
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer

_BLOCK: Final = 64 * 1024
_AGAIN: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Connection:
    """Reading and writing at the same time."""

    def __init__(self, tls: ssl.SSLSocket) -> None:
        tls.setblocking(False)
        self._tls = tls
        self._mutex = threading.Lock()
        self.file = io.BufferedReader(_Incoming(self))
        """What comes in."""

    @property
    def subject(self) -> list[tuple[str, str]]:
        """Parts of the name in the client's certificate."""
        found = self._tls.getpeercert() or {}
        parts = found.get("subject", ())
        return [(str(pair[0]), str(pair[1])) for part in parts for pair in part]

    def send(self, data: bytes) -> None:
        """Send everything.

        Raises:
            OSError: the other side is gone.
        """
        with self._mutex:
            left = memoryview(data)
            while left:
                try:
                    left = left[self._tls.send(left[:_BLOCK]) :]
                except _AGAIN:
                    # Still holding the mutex: the rest has to follow before anybody else's.
                    select.select([], [self._tls], [])

    def receive(self, size: int) -> bytes:
        """What has come in, at least a byte; empty where nothing comes any more."""
        while True:
            with self._mutex:
                try:
                    return self._tls.recv(size)
                except ssl.SSLWantReadError:
                    pass
                except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                    return b""
            select.select([self._tls], [], [])

    @property
    def is_gone(self) -> bool:
        """The other side has closed; for a client that sends nothing any more."""
        with self._mutex:
            try:
                return not self._tls.recv(1)
            except _AGAIN:
                return False
            except OSError:
                return True

    def finish(self, seconds: float) -> None:
        """Say that nothing follows, and let the other side close."""
        with self._mutex:
            self._tls.settimeout(seconds)
            self._tls.shutdown(socket.SHUT_WR)


class _Incoming(io.RawIOBase):
    """A connection as Python's files want it."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill a buffer as far as there is something."""
        into = memoryview(buffer).cast("B")
        data = self._connection.receive(len(into))
        into[: len(data)] = data
        return len(data)
