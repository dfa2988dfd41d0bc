"""One request to a kubelet's API, and the answers that need no stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import BinaryIO, Final
from urllib.parse import parse_qs, unquote, urlsplit

from rack.cluster.streaming.connection import Connection

_LONGEST: Final = 64 * 1024
"""Most bytes of a request's head."""


@dataclass(frozen=True)
class Request:
    """Method, path, query and headers; names of headers are in lower case."""

    method: str
    path: tuple[str, ...]
    query: dict[str, list[str]] = field(default_factory=dict)
    headers: dict[str, list[str]] = field(default_factory=dict)

    def flag(self, name: str) -> bool:
        """A switch of the query, in either of the two ways in which clients write it."""
        return self.query.get(name, [""])[0] in ("1", "true")

    def offers(self, name: str) -> list[str]:
        """Values of a header that may be there several times or hold a list."""
        return [one.strip() for text in self.headers.get(name, ()) for one in text.split(",")]


def read(file: BinaryIO) -> Request | None:
    """The next request; None where there is none, or where it cannot be understood."""
    lines: list[str] = []
    left = _LONGEST
    while line := file.readline(left):
        left -= len(line)
        if not line.strip():
            break
        lines.append(line.decode("latin-1").rstrip("\r\n"))
    words = lines[0].split(" ") if lines else []
    if len(words) != 3:
        return None
    url = urlsplit(words[1])
    headers: dict[str, list[str]] = {}
    for one in lines[1:]:
        name, _, text = one.partition(":")
        headers.setdefault(name.strip().lower(), []).append(text.strip())
    path = tuple(unquote(part) for part in url.path.split("/") if part)
    return Request(words[0], path, parse_qs(url.query, keep_blank_values=True), headers)


def answer(connection: Connection, status: str, text: str) -> None:
    """Answer with plain text and end."""
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    connection.send(f"{head}Connection: close\r\n\r\n".encode() + body)


def begin(connection: Connection) -> None:
    """Begin an answer whose end is the connection's."""
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    connection.send(head.encode())


def switch(connection: Connection, headers: dict[str, str]) -> None:
    """Answer that the connection now speaks another protocol."""
    lines = [f"{name}: {text}" for name, text in headers.items()]
    head = "\r\n".join(["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", *lines])
    connection.send(f"{head}\r\n\r\n".encode())
