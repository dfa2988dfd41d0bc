"""A rack whose Proxmox API listens on a random port, through TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import requests

from rack.certificate import server_context
from rack.proxmox.server import ProxmoxServer
from rack.rack import Rack
from rack.settings import Settings
from rack.sockets import listen
from rack.token import read_token
from tests.model.proxmoxworld import image


class Served:
    """A rack whose Proxmox API listens on a random port."""

    def __init__(self, home: Path) -> None:
        self.settings = Settings(home=home)
        self.rack = Rack(self.settings)
        self.rack.fetch_through(image)
        listener = listen(0, "a test")
        self.port = listener.getsockname()[1]
        self.server = ProxmoxServer(self.rack, listener, server_context(self.settings))
        self.server.start()
        self.token = read_token(self.settings)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/api2/json"

    def raw(self, method: str, path: str, **options: Any) -> requests.Response:
        headers = {"Authorization": f"PVEAPIToken={self.token}", **options.pop("headers", {})}
        return requests.request(
            method,
            self.url + path,
            headers={name: text for name, text in headers.items() if text},
            verify=str(self.settings.certificate),
            timeout=10,
            **options,
        )

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
