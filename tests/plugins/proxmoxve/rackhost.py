"""A simulated rack in a folder, its Proxmox VE API with TLS on a random port of the loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rack.certificate import server_context
from rack.fetch import fetch_from
from rack.proxmox.server import ProxmoxServer
from rack.rack import Rack
from rack.settings import Settings
from rack.sockets import listen
from rack.token import read_token
from rack.world.factory import accept

SCHEMATIC = "customization:\n    systemExtensions:\n        officialExtensions:\n" + "".join(
    f"            - siderolabs/{name}\n"
    for name in ("nonfree-kmod-nvidia-lts", "nvidia-container-toolkit-lts")
)


@dataclass(frozen=True)
class RackHost:
    """The rack, how a client reaches it, and an image that its factory offers."""

    rack: Rack
    endpoint: str
    token: str
    image_url: str


@contextmanager
def rack_host(home: Path) -> Iterator[RackHost]:
    """Run a rack until the block ends."""
    settings = Settings(home=home)
    rack = Rack(settings)
    rack.fetch_through(fetch_from(rack))
    schematic = accept(SCHEMATIC)
    with rack.lock() as world:
        world.schematics[schematic.id] = schematic
    clock = threading.Thread(target=rack.run_clock, daemon=True)
    clock.start()
    server = ProxmoxServer(rack, listen(0, "a test"), server_context(settings))
    server.start()
    try:
        yield RackHost(
            rack,
            f"https://127.0.0.1:{server.server_address[1]}",
            read_token(settings),
            f"{settings.services_url}/image/{schematic.id}/v1.13.9/nocloud-amd64.qcow2",
        )
    finally:
        server.shutdown()
        server.server_close()
        rack.close()
        clock.join()
