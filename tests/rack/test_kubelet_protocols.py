"""SPDY and WebSocket as the API server speaks them, and the requests in front of them."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any, cast

import pytest

from rack.cluster.streaming import request
from rack.cluster.streaming.channels import Name
from rack.cluster.streaming.connection import Connection
from rack.cluster.streaming.spdy import DICTIONARY, SpdyChannels, pack, unpack
from rack.cluster.streaming.websocket import WebSocketChannels, accept


class Wire:
    """A connection in memory: what comes in is given, what goes out is kept."""

    def __init__(self, incoming: bytes) -> None:
        self.file = io.BufferedReader(io.BytesIO(incoming))
        self.sent = b""

    def send(self, data: bytes) -> None:
        self.sent += data


class Taken:
    """What was handed over."""

    def __init__(self) -> None:
        self.found: list[tuple[str, bytes, bool]] = []

    def __call__(self, name: Name, data: bytes, *, is_last: bool) -> None:
        self.found.append((name, data, is_last))


def spdy(incoming: bytes) -> tuple[SpdyChannels, Wire]:
    wire = Wire(incoming)
    return SpdyChannels(cast("Connection", wire)), wire


def frame(head: int, flags: int, body: bytes) -> bytes:
    return struct.pack(">II", head, flags << 24 | len(body)) + body


def control(kind: int, body: bytes) -> bytes:
    return frame(0x80030000 | kind, 0, body)


class Client:
    """The other side: opens streams with one compressor for all of them."""

    def __init__(self) -> None:
        self.deflate = zlib.compressobj(zdict=DICTIONARY)

    def open(self, number: int, name: str) -> bytes:
        packed = self.deflate.compress(pack({"streamtype": name}))
        packed += self.deflate.flush(zlib.Z_SYNC_FLUSH)
        return control(1, struct.pack(">IIH", number, 0, 0) + packed)


def frames(data: bytes) -> list[tuple[int, int, bytes]]:
    found = []
    while data:
        head, rest = struct.unpack(">II", data[:8])
        size = rest & 0xFFFFFF
        found.append((head, rest >> 24, data[8 : 8 + size]))
        data = data[8 + size :]
    return found


def test_the_dictionary_is_the_protocol_s() -> None:
    assert len(DICTIONARY) == 1423
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


def test_headers_survive_packing() -> None:
    assert unpack(pack({"streamtype": "stdin", "a": ""})) == {"streamtype": "stdin", "a": ""}


def test_streams_are_opened_answered_and_read_by_their_names() -> None:
    client = Client()
    opened = client.open(1, "error") + client.open(3, "stdin")
    channels, wire = spdy(opened + frame(3, 0, b"in") + frame(9, 0, b"?") + frame(3, 1, b""))
    channels.open(2)
    assert [head & 0xFFFF for head, _, _ in frames(wire.sent)] == [2, 2]  # two SYN_REPLY
    taken = Taken()
    channels.read(taken)
    assert taken.found == [("stdin", b"in", False), ("stdin", b"", True)]


def test_a_client_that_leaves_before_it_opens_everything_is_an_error() -> None:
    channels, _ = spdy(Client().open(1, "error"))
    with pytest.raises(ConnectionError):
        channels.open(2)


def test_what_is_written_is_cut_into_frames_and_only_the_last_one_ends_the_stream() -> None:
    channels, wire = spdy(Client().open(1, "stdout"))
    channels.open(1)
    wire.sent = b""
    channels.write("stdout", b"x" * 70_000, is_last=True)
    channels.write("stderr", b"nobody opened it")
    found = frames(wire.sent)
    assert [(head, flags) for head, flags, _ in found] == [(1, 0), (1, 0), (1, 1)]
    assert b"".join(body for _, _, body in found) == b"x" * 70_000


def test_a_ping_comes_back() -> None:
    channels, wire = spdy(control(6, struct.pack(">I", 7)))
    channels.read(Taken())
    assert frames(wire.sent) == [(0x80030006, 0, struct.pack(">I", 7))]


def websocket(incoming: bytes) -> tuple[WebSocketChannels, Wire]:
    wire = Wire(incoming)
    return WebSocketChannels(cast("Connection", wire)), wire


def masked(first: int, body: bytes) -> bytes:
    mask = b"\x01\x02\x03\x04"
    hidden = bytes(byte ^ mask[at % 4] for at, byte in enumerate(body))
    if len(body) < 126:
        return bytes([first, 0x80 | len(body)]) + mask + hidden
    return struct.pack(">BBH", first, 0x80 | 126, len(body)) + mask + hidden


def test_the_key_s_answer_is_that_of_the_standard() -> None:
    assert accept("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def test_messages_in_parts_and_of_every_length_are_read() -> None:
    long = b"\x00" + b"y" * 300
    channels, wire = websocket(
        masked(0x02, b"\x00he") + masked(0x89, b"ping") + masked(0x80, b"llo") + masked(0x82, long)
        + masked(0x82, b"\x09unknown channel") + masked(0x88, b"") + masked(0x82, b"\x00late")
    )  # fmt: skip
    taken = Taken()
    channels.read(taken)
    assert taken.found == [("stdin", b"hello", False), ("stdin", long[1:], False)]
    assert wire.sent == b"\x8a\x04ping"


@pytest.mark.parametrize(
    ("size", "head"),
    [
        (3, b"\x82\x04"),
        (200, b"\x82\x7e\x00\xc9"),
        (70_000, b"\x82\x7f" + struct.pack(">Q", 70_001)),
    ],
)
def test_the_channel_comes_first_in_what_is_written(size: int, head: bytes) -> None:
    channels, wire = websocket(b"")
    channels.write("stdout", b"z" * size)
    assert wire.sent == head + b"\x01" + b"z" * size


def test_an_empty_end_is_not_a_message() -> None:
    channels, wire = websocket(b"")
    channels.write("stdout", b"", is_last=True)
    assert wire.sent == b""


def read(text: str) -> Any:
    return request.read(io.BytesIO(text.encode()))


def test_a_request_s_commands_flags_and_repeated_headers() -> None:
    found = read(
        "POST /exec/immich/a%2Fb/c?command=sh&command=-c&command=ls%20%2F&input=1&tty=true"
        " HTTP/1.1\r\n"
        "X-Stream-Protocol-Version: v5, v4\r\nX-Stream-Protocol-Version: v3\r\n\r\nrest"
    )
    assert found.path == ("exec", "immich", "a/b", "c")
    assert found.query["command"] == ["sh", "-c", "ls /"]
    assert found.flag("input")
    assert found.flag("tty")
    assert not found.flag("error")
    assert found.offers("x-stream-protocol-version") == ["v5", "v4", "v3"]


@pytest.mark.parametrize("text", ["", "\r\n", "nonsense\r\n\r\n"])
def test_what_is_no_request_is_none(text: str) -> None:
    assert read(text) is None
