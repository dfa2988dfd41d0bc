"""Stands in for a chart repository that does not answer, so that a preview goes on without it.

The Kubernetes provider loads a release's chart before it compares anything, and refuses the whole
preview where it cannot. It takes only the chart's version from it, so an empty chart of that
version will do. The release itself is compared as ever.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def package(name: str, version: str) -> bytes:
    """A chart with nothing in it."""
    metadata = json.dumps({"apiVersion": "v2", "name": name, "version": version}).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo(f"{name}/Chart.yaml")
        entry.size = len(metadata)
        archive.addfile(entry, io.BytesIO(metadata))
    return gzip.compress(packed.getvalue(), mtime=0)


def files(name: str, version: str) -> dict[str, bytes]:
    """The repository's files by their path."""
    archive = f"{name}-{version}.tgz"
    entry = {"apiVersion": "v2", "name": name, "version": version, "urls": [archive]}
    index = {"apiVersion": "v1", "entries": {name: [entry]}}
    return {"/index.yaml": json.dumps(index).encode(), f"/{archive}": package(name, version)}


def _handler(content: Mapping[str, bytes]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = content.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def repository(name: str, version: str) -> Iterator[str]:
    """Serve one empty chart on this machine; gives the repository's URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(files(name, version)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
