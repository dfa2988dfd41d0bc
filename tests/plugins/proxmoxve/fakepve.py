"""A few paths of the Proxmox VE API on a random port, with failures on demand.

For what a healthy host does not do: lost proxy requests, tasks that fail or never end, a guest
without an agent. It checks nothing: what a host accepts is the simulated rack's business.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Options = dict[str, Any]
GIB = 1 << 30


class RefusedError(Exception):
    """An answer other than success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class FakePve:
    """The host's world, and what is to go wrong in it."""

    repoid: str = "simulated-rack"
    vms: dict[int, Options] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)
    mappings: dict[str, Options] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    tasks: dict[str, str | None] = field(default_factory=dict)
    requests: list[tuple[str, str, Options]] = field(default_factory=list)
    start_fails_with: str | None = None
    tasks_never_end: bool = False
    lost_requests: int = 0
    agent: list[Options] | None = None
    endpoint: str = ""

    def task(self, kind: str, outcome: str = "OK") -> str:
        upid = f"UPID:pve:{len(self.tasks):08X}:00000001:66000000:{kind}:1:root@pam!t:"
        self.tasks[upid] = None if self.tasks_never_end else outcome
        return upid

    def calls(self, method: str, path: str = "") -> list[tuple[str, Options]]:
        """Return the requests so far of a method whose path contains `path`."""
        return [(p, values) for m, p, values in self.requests if m == method and path in p]

    def answer(self, method: str, path: str, values: Options) -> Any:
        self.requests.append((method, path, dict(values)))
        for pattern, handler in ROUTES.items():
            verb, _, expression = pattern.partition(" ")
            if verb == method and (match := re.fullmatch(expression, path)):
                return handler(self, *match.groups(), **{"values": values})
        raise RefusedError(501, f"Method '{method} {path}' not implemented")

    def version(self, values: Options) -> Any:
        return {"version": "9.0.11", "release": "9.0", "repoid": self.repoid}

    def task_status(self, upid: str, values: Options) -> Any:
        if self.lost_requests:
            self.lost_requests -= 1
            raise RefusedError(599, "Too many redirections")
        outcome = self.tasks[unquote(upid)]
        stopped = {"status": "stopped", "exitstatus": outcome}
        return {"status": "running"} if outcome is None else stopped

    def resources(self, values: Options) -> Any:
        return [{"type": "qemu", "vmid": number, "node": "pve"} for number in self.vms]

    def create(self, values: Options) -> Any:
        number = int(values.pop("vmid"))
        if number in self.vms:
            message = f"unable to create VM {number} - VM {number} already exists on node 'pve'"
            raise RefusedError(500, message)
        self.vms[number] = {}
        for option, text in values.items():
            self._set(number, option, text)
        self.vms[number].setdefault("smbios1", "uuid=00000000-0000-4000-8000-000000000000")
        return self.task("qmcreate")

    def _set(self, number: int, option: str, text: str) -> None:
        """Store an option; allocate the volume that it asks for."""
        file = re.match(r"file=([\w-]+):(\d+|cloudinit)((?:,.*)?)$", text)
        if file:
            name = "cloudinit" if file[2] == "cloudinit" else f"disk-{option}"
            rest = re.sub(r",(import-from|format)=[^,]*", "", file[3])
            media = ",media=cdrom" if name == "cloudinit" else ""
            size = f"{file[2]}G" if file[2].isdigit() and file[2] != "0" else "4M"
            text = f"{file[1]}:vm-{number}-{name}{rest}{media},size={size}"
        elif option.startswith("net") and "macaddr" not in text:
            text = re.sub(r"model=(\w+)", r"\1=BC:24:11:00:00:01", text)
        numeric = text.isdigit() and option != "memory"
        self.vms[number][option] = int(text) if numeric else text

    def _vm(self, number: str) -> Options:
        if int(number) not in self.vms:
            missing = f"Configuration file 'nodes/pve/qemu-server/{number}.conf' does not exist"
            raise RefusedError(500, missing)
        return self.vms[int(number)]

    def config(self, number: str, values: Options) -> Any:
        return {**self._vm(number), "digest": "0" * 40}

    def configure(self, number: str, values: Options) -> Any:
        vm = self._vm(number)
        for option in values.pop("delete", "").split(","):
            vm.pop(option, None)
        for option, text in values.items():
            self._set(int(number), option, text)

    def status(self, number: str, values: Options) -> Any:
        self._vm(number)
        return {"status": "running" if int(number) in self.running else "stopped"}

    def start(self, number: str, values: Options) -> Any:
        if self.start_fails_with:
            return self.task("qmstart", self.start_fails_with)
        self.running.add(int(number))
        return self.task("qmstart")

    def stop(self, number: str, values: Options) -> Any:
        self.running.discard(int(number))
        return self.task("qmstop")

    def resize(self, number: str, values: Options) -> Any:
        vm = self._vm(number)
        disk = values["disk"]
        vm[disk] = re.sub(r"size=\w+", f"size={values['size']}", vm[disk])
        return self.task("resize")

    def destroy(self, number: str, values: Options) -> Any:
        self._vm(number)
        del self.vms[int(number)]
        return self.task("qmdestroy")

    def interfaces(self, number: str, values: Options) -> Any:
        if self.agent is None:
            raise RefusedError(500, "QEMU guest agent is not running")
        return {"result": self.agent}

    def map(self, values: Options) -> Any:
        name = values.pop("id")
        if name in self.mappings:
            raise RefusedError(500, f"mapping ID '{name}' already defined")
        self.mappings[name] = values

    def mapping(self, name: str, values: Options) -> Any:
        if name not in self.mappings:
            raise RefusedError(500, f"mapping '{name}' not found")
        found = self.mappings[name]
        maps = found["map"] if isinstance(found["map"], list) else [found["map"]]
        return {**found, "map": maps}

    def remap(self, name: str, values: Options) -> Any:
        found = self.mapping(name, {})
        gone = values.pop("delete", "").split(",")
        self.mappings[name] = {k: v for k, v in {**found, **values}.items() if k not in gone}

    def unmap(self, name: str, values: Options) -> Any:
        self.mapping(name, {})
        del self.mappings[name]

    def offered(self, values: Options) -> Any:
        return {"filename": values["url"].rpartition("/")[2], "size": GIB}

    def download(self, storage: str, values: Options) -> Any:
        volume = f"{storage}:{values['content']}/{values['filename']}"
        if volume in self.files:
            return self.task("download", f"refusing to override existing file '{volume}'")
        self.files[volume] = GIB
        return self.task("download")

    def content(self, storage: str, values: Options) -> Any:
        return [{"volid": volume, "size": size} for volume, size in self.files.items()]

    def volume(self, storage: str, volume: str, values: Options) -> Any:
        return {"format": "raw"}

    def delete_volume(self, storage: str, volume: str, values: Options) -> Any:
        if unquote(volume) not in self.files:
            raise RefusedError(500, f"volume '{unquote(volume)}' does not exist")
        del self.files[unquote(volume)]
        return self.task("imgdel")


VM = r"/nodes/pve/qemu/(\d+)"
STORE = r"/nodes/pve/storage/([\w-]+)"
ROUTES: dict[str, Any] = {
    "GET /version": FakePve.version,
    r"GET /nodes/pve/tasks/(.+)/status": FakePve.task_status,
    "GET /cluster/resources": FakePve.resources,
    "GET /cluster/nextid": lambda fake, values: "100",
    "GET /nodes": lambda fake, values: [{"node": "pve", "status": "online"}],
    "POST /nodes/pve/qemu": FakePve.create,
    f"GET {VM}/config": FakePve.config,
    f"PUT {VM}/config": FakePve.configure,
    f"GET {VM}/status/current": FakePve.status,
    f"POST {VM}/status/start": FakePve.start,
    f"POST {VM}/status/(?:stop|shutdown)": FakePve.stop,
    f"PUT {VM}/resize": FakePve.resize,
    f"DELETE {VM}": FakePve.destroy,
    f"GET {VM}/agent/network-get-interfaces": FakePve.interfaces,
    "POST /cluster/mapping/pci": FakePve.map,
    "GET /cluster/mapping/pci/(.+)": FakePve.mapping,
    "PUT /cluster/mapping/pci/(.+)": FakePve.remap,
    "DELETE /cluster/mapping/pci/(.+)": FakePve.unmap,
    "GET /nodes/pve/query-url-metadata": FakePve.offered,
    f"POST {STORE}/download-url": FakePve.download,
    f"GET {STORE}/content": FakePve.content,
    f"GET {STORE}/content/(.+)": FakePve.volume,
    f"DELETE {STORE}/content/(.+)": FakePve.delete_volume,
}


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[FakePve]:
    """Serve a fake host until the block ends, over TLS with a context."""
    fake = FakePve()

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            place = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            text = self.rfile.read(length).decode() or place.query
            values = {
                name: found if len(found) > 1 else found[0]
                for name, found in parse_qs(text, keep_blank_values=True).items()
            }
            path = place.path.removeprefix("/api2/json")
            try:
                body, status = {"data": fake.answer(self.command, path, values)}, 200
                self.send_response(status)
            except RefusedError as error:
                body = {"data": None, "message": f"{error}\n"}
                self.send_response(error.status, str(error))
            payload = json.dumps(body).encode()
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *arguments: Any) -> None:
            pass

    for method in ("GET", "POST", "PUT", "DELETE"):
        setattr(Handler, f"do_{method}", Handler._handle)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    scheme = "https" if tls else "http"
    fake.endpoint = f"{scheme}://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
