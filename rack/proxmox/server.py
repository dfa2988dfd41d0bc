"""Proxmox VE's API on a socket.

The standard library's server, because it sends the reason phrase that is asked for: Proxmox VE
says there what went wrong, and its clients read it.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from rack.proxmox.api import PREFIX, Answer, Request, UnreachableError, answer
from rack.rack import Rack

LOG: Final = logging.getLogger(__name__)
HANDSHAKE_SECONDS: Final = 10.0
SHUTDOWN_POLL_SECONDS: Final = 0.05
"""How often the accepting thread looks whether it is to end."""
IDLE_SECONDS: Final = 120.0
LARGEST_BODY: Final = 512 * 1024
"""Bytes; PVE's own limit."""


class ProxmoxServer(ThreadingHTTPServer):
    """Serves a rack's API on a socket that listens already; with TLS where a context is given."""

    daemon_threads = True

    def __init__(
        self, rack: Rack, listener: socket.socket, context: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(listener.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.rack = rack
        self._context = context

    def start(self) -> threading.Thread:
        """Serve in a thread of its own until `shutdown()`."""
        thread = threading.Thread(
            target=self.serve_forever, args=(SHUTDOWN_POLL_SECONDS,), name="proxmox", daemon=True
        )
        thread.start()
        return thread

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Talk to one client; the TLS handshake is done here, in the client's own thread."""
        if self._context is not None:
            request.settimeout(HANDSHAKE_SECONDS)
            try:
                request = self._context.wrap_socket(request, server_side=True)
            except OSError:
                return  # a client that does not trust the certificate hangs up
        request.settimeout(IDLE_SECONDS)
        with request:
            super().finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away in the middle are no news."""
        LOG.debug("connection of %s ended", client_address, exc_info=True)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "pve-api-daemon/3.0"
    sys_version = ""
    server: ProxmoxServer
    # Headers and body leave together: with Nagle's algorithm each answer would wait for the client.
    wbufsize = -1
    disable_nagle_algorithm = True

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > LARGEST_BODY:
            self.close_connection = True
            self._send(Answer(413, "request entity too large", media_type=""))
            return
        place = urlsplit(self.path)
        body = self.rfile.read(length)
        if not place.path.startswith(f"{PREFIX}/"):
            text = f"no such file '{place.path}'"
            self._send(Answer(404, text, text.encode(), media_type="text/plain"))
            return
        headers = dict(self.headers.items())
        self._answer(Request(self.command, place.path, place.query, headers, body))

    def _answer(self, request: Request) -> None:
        try:
            found = answer(self.server.rack, request)
        except UnreachableError as error:
            LOG.warning("no answer to %s %s: %s", request.method, request.path, error)
            self.close_connection = True
            return
        except Exception as error:
            LOG.exception("defect of the simulated rack in %s %s", request.method, request.path)
            found = Answer(500, f"defect of the simulated rack: {type(error).__name__}")
        if found.delay:
            time.sleep(found.delay)
        self._send(found)

    def _send(self, found: Answer) -> None:
        # A reason phrase is one line of printable ASCII.
        reason = "".join(c if " " <= c <= "~" else "?" for c in found.reason)
        self.send_response(found.status, reason)
        if found.media_type:
            self.send_header("Content-Type", found.media_type)
        self.send_header("Content-Length", str(len(found.body)))
        self.send_header("Cache-Control", "max-age=0")
        self.end_headers()
        self.wfile.write(found.body)
        self.wfile.flush()

    do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815 - the base class's names

    def log_message(self, format: str, *args: Any) -> None:
        """Requests go to the log only where it is asked for everything."""
        LOG.debug(format, *args)
