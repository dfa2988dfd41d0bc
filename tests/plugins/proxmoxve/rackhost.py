"""A simulated rack in a folder, its Proxmox VE API on a random port of the loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rack.proxmox.api import Request, answer
from rack.rack import Rack
from rack.settings import Settings
from rack.token import read_token
from rack.world.storage import FetchedImage

GIB = 1 << 30


@dataclass(frozen=True)
class RackHost:
    """The rack, and how a client reaches it."""

    rack: Rack
    endpoint: str
    token: str


def an_image(url: str) -> FetchedImage:
    """Any URL offers a disk image of 4 GiB in a file of 1 GiB."""
    name = url.rpartition("/")[2]
    return FetchedImage(filename=name, size=GIB, virtual_size=4 * GIB, format="qcow2")


@contextmanager
def rack_host(home: Path) -> Iterator[RackHost]:
    """Run a rack until the block ends."""
    rack = Rack(Settings(home=home))
    rack.fetch_through(an_image)
    clock = threading.Thread(target=rack.run_clock, daemon=True)
    clock.start()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(rack))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}"
        yield RackHost(rack, endpoint, read_token(rack.settings))
    finally:
        server.shutdown()
        server.server_close()
        rack.close()
        clock.join()


def _handler(rack: Rack) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            place = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.title(): value for name, value in self.headers.items()}
            said = answer(rack, Request(self.command, place.path, place.query, headers, body))
            self.send_response(said.status, said.reason)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, *arguments: Any) -> None:
            pass

    for method in ("GET", "POST", "PUT", "DELETE"):
        setattr(Handler, f"do_{method}", Handler._handle)
    return Handler
