"""SPDY/3.1 as far as the API server speaks it to kubelets.

Frames and the dictionary for headers are those of the SPDY protocol, draft 3.1. Flow control is
not in use: neither side of Kubernetes asks for it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, cast

from rack.cluster.streaming.channels import Input, Name
from rack.cluster.streaming.connection import Connection

_SYN_STREAM: Final = 1
_SYN_REPLY: Final = 2
_RST_STREAM: Final = 3
_PING: Final = 6
_GOAWAY: Final = 7
_CONTROL: Final = 0x80000000
_VERSION: Final = 3
_FIN: Final = 1
_NUMBER: Final = 0x7FFFFFFF
_PART: Final = 32 * 1024
"""Most bytes of a data frame."""
_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language"
    " accept-ranges age allow authorization cache-control connection content-base content-encoding"
    " content-language content-length content-location content-md5 content-range content-type date"
    " etag expect expires from host if-match if-modified-since if-none-match if-range"
    " if-unmodified-since last-modified location max-forwards pragma proxy-authenticate"
    " proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade"
    " user-agent vary via warning www-authenticate method get status"
)
_PHRASES: Final = (*_WORDS.split(), "200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie",
                   "keep-alive", "origin")  # fmt: skip
_TAIL: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue,"
    " Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch"
    "charset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY: Final = (
    b"".join(struct.pack(">I", len(one)) + one.encode() for one in _PHRASES) + _TAIL.encode()
)
"""What both sides compress headers with."""

Headers = dict[str, str]
Frame = tuple[int, int, bytes]
"""First word, flags and body."""


def pack(headers: Headers) -> bytes:
    """Headers as they are before compression."""
    parts = [struct.pack(">I", len(headers))]
    for text in (part for pair in headers.items() for part in pair):
        parts += [struct.pack(">I", len(text)), text.encode()]
    return b"".join(parts)


def unpack(data: bytes) -> Headers:
    """Headers after decompression."""
    texts = _texts(data[4:])
    return dict(zip(texts, texts, strict=False))


def _texts(data: bytes) -> Iterator[str]:
    while data:
        (size,) = struct.unpack(">I", data[:4])
        yield data[4 : 4 + size].decode()
        data = data[4 + size :]


class Spdy:
    """The server's side of one connection: streams by number. Subclasses say what they carry."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._file = connection.file
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def opened(self, number: int, headers: Headers) -> None:
        """The client has opened a stream."""

    def taken(self, number: int, data: bytes, *, is_last: bool) -> None:
        """Data of a stream has come in; the last may be empty."""

    def dropped(self, number: int) -> None:
        """The client wants nothing more of a stream."""

    def take(self) -> bool:
        """Wait for one frame and handle it; False where the client has gone."""
        frame = self._next()
        if frame is None:
            return False
        head, flags, body = frame
        if head & _CONTROL:
            self._control(head & 0xFFFF, body)
        else:
            self.taken(head & _NUMBER, body, is_last=bool(flags & _FIN))
        return True

    def send(self, number: int, data: bytes, *, is_last: bool = False) -> None:
        """Send data of a stream.

        Raises:
            OSError: the client is gone.
        """
        parts = [data[at : at + _PART] for at in range(0, len(data), _PART)] or [b""]
        for index, part in enumerate(parts):
            flags = _FIN if is_last and index == len(parts) - 1 else 0
            self._send(number, flags, part)

    def close(self, last: int = 0) -> None:
        """Say that nothing follows, and end the connection; `last` is the last stream served."""
        self._send_control(_GOAWAY, struct.pack(">II", last, 0))

    def _control(self, kind: int, body: bytes) -> None:
        if kind == _SYN_STREAM:
            number = struct.unpack(">I", body[:4])[0] & _NUMBER
            headers = unpack(self._inflate.decompress(body[10:]))
            reply = self._deflate.compress(pack({})) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
            self._send_control(_SYN_REPLY, struct.pack(">I", number) + reply)
            self.opened(number, headers)
        elif kind == _PING:
            self._send_control(_PING, body)
        elif kind == _RST_STREAM:
            self.dropped(struct.unpack(">I", body[:4])[0] & _NUMBER)

    def _next(self) -> Frame | None:
        """The next frame; None where there is none."""
        try:
            head = self._file.read(8)
            if len(head) < 8:
                return None
            first, second = struct.unpack(">II", head)
            body = self._file.read(second & 0xFFFFFF)
        except (OSError, ValueError):
            return None
        return first, second >> 24, body

    def _send_control(self, kind: int, body: bytes) -> None:
        self._send(_CONTROL | _VERSION << 16 | kind, 0, body)

    def _send(self, head: int, flags: int, body: bytes) -> None:
        self._connection.send(struct.pack(">II", head, flags << 24 | len(body)) + body)


class SpdyChannels(Spdy):
    """The streams of one exec."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._names: dict[int, Name] = {}
        self._input: Input | None = None

    def open(self, count: int) -> None:
        """Wait until the client has opened that many channels.

        Raises:
            OSError: it went away, or speaks something else.
        """
        while len(self._names) < count:
            if not self.take():
                raise ConnectionError("the client went away before it opened its streams")

    def read(self, take: Input) -> None:
        """Hand over what comes in."""
        self._input = take
        while self.take():
            pass

    def write(self, name: Name, data: bytes, *, is_last: bool = False) -> None:
        """Send data of a channel; a channel that the client did not open takes nothing."""
        number = next((one for one, known in self._names.items() if known == name), None)
        if number is not None:
            self.send(number, data, is_last=is_last)

    def close(self, last: int = 0) -> None:
        """Say that nothing follows, and end the connection."""
        super().close(max(self._names, default=last))

    def opened(self, number: int, headers: Headers) -> None:
        """A channel by the name in its headers."""
        self._names[number] = cast("Name", headers["streamtype"])

    def taken(self, number: int, data: bytes, *, is_last: bool) -> None:
        """Hand input over; nothing is sent before every channel is open."""
        if self._input is not None and (name := self._names.get(number)) is not None:
            self._input(name, data, is_last=is_last)

    def dropped(self, number: int) -> None:
        """Forget a channel."""
        self._names.pop(number, None)
