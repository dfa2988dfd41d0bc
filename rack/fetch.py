"""What a host of the rack finds behind a URL: only the rack's own image factory is there."""

from __future__ import annotations

import hashlib
from typing import Final
from urllib.parse import unquote, urlsplit

from rack.rack import Rack
from rack.settings import LOOPBACK
from rack.world.errors import Refused
from rack.world.factory import image
from rack.world.storage import Fetch, FetchedImage

ALGORITHMS: Final = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
_LOCAL_NAMES: Final = (LOOPBACK, "localhost")


def fetch_from(rack: Rack) -> Fetch:
    """Bind the hosts' downloads to a rack's image factory."""

    def fetch(url: str) -> FetchedImage:
        place = urlsplit(url)
        _check_place(rack, place.hostname or "", place.port)
        try:
            content = image(rack.world.schematics, unquote(place.path))
        except Refused as refusal:
            raise Refused(
                f"download failed: the simulated rack's image factory answers {refusal.status}: "
                f"{refusal.message.strip()}\n"
            ) from None
        # No image has bytes here, so its sums are those of what stands for it.
        text = content.model_dump_json().encode()
        return FetchedImage(
            filename=place.path.rpartition("/")[2],
            size=content.size,
            virtual_size=content.virtual_size,
            format=content.format,
            checksums={name: hashlib.new(name, text).hexdigest() for name in ALGORITHMS},
            content=content,
        )

    return fetch


def _check_place(rack: Rack, host: str, port: int | None) -> None:
    """Refuse any place but the factory's own, as a machine without a network would."""
    services = rack.settings.ports.services
    if host not in _LOCAL_NAMES:
        raise Refused(
            f"download failed: unable to resolve host address '{host}': the simulated rack reaches"
            f" only its own image factory, {rack.settings.services_url}\n"
        )
    if port != services:
        raise Refused(
            f"download failed: Connecting to {host}:{port or 80}... failed: Connection refused. The"
            f" simulated rack's image factory is {rack.settings.services_url}\n"
        )
