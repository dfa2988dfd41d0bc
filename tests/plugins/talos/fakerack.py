"""A minimal services port of a rack: answers the plugin's requests from a script and records them.

It checks what a machine checks of every request, certificate and signature, with `cryptography`
alone, so that the plugin's signing is tested against another reading of the rules.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509 import load_pem_x509_certificate

Answer = tuple[int, Any]
Script = Callable[[str, str, bytes], Answer | None]


@dataclass
class FakeRack:
    """What the server answers, and what it was asked."""

    identity: Answer = (200, {"simulated_rack": True})
    script: Script = lambda method, path, body: None
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    bad_signatures: int = 0
    url: str = ""

    def asked(self, ending: str) -> list[Any]:
        """Return the bodies of the requests whose path ends so."""
        return [body for _, path, body in self.requests if path.endswith(ending)]


@contextmanager
def serve(rack: FakeRack) -> Iterator[FakeRack]:
    """Serve on a free port until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET", b"")

        def do_POST(self) -> None:
            self._answer("POST", self.rfile.read(int(self.headers.get("Content-Length") or 0)))

        def _answer(self, method: str, body: bytes) -> None:
            if self.path == "/rack":
                self._write(rack.identity)
                return
            if self.path.startswith("/machines/") and method == "POST" and not self._signed(body):
                rack.bad_signatures += 1
            rack.requests.append((method, self.path, _read(body)))
            unknown = (404, {"code": "Unimplemented", "message": self.path})
            self._write(rack.script(method, self.path, body) or unknown)

        def _signed(self, body: bytes) -> bool:
            certificate = base64.b64decode(self.headers.get("X-Talos-Certificate", ""))
            signature = base64.b64decode(self.headers.get("X-Talos-Signature", ""))
            public = load_pem_x509_certificate(certificate).public_key()
            try:
                assert isinstance(public, Ed25519PublicKey)
                public.verify(signature, body)
            except InvalidSignature:
                return False
            return True

        def _write(self, answer: Answer) -> None:
            status, value = answer
            data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    rack.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield rack
    finally:
        server.shutdown()
        server.server_close()


def _read(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode()


UNAVAILABLE: Answer = (503, {"code": "Unavailable", "message": "connection refused"})


def answers(rack: FakeRack, ending: str, *given: tuple[int, Any]) -> None:
    """Answer requests to a path in turn; the last answer stays."""
    left = list(given)

    def script(method: str, path: str, body: bytes) -> tuple[int, Any] | None:
        del method, body
        if not path.endswith(ending):
            return None
        return left.pop(0) if len(left) > 1 else left[0]

    rack.script = script
