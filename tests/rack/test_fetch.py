"""A host of the rack reaches the rack's image factory and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from rack.fetch import fetch_from
from rack.rack import Rack
from rack.settings import Settings
from rack.world.errors import Refused
from rack.world.schematic import parse
from rack.world.storage import Fetch

SCHEMATIC = parse(
    "customization: {systemExtensions: {officialExtensions: [siderolabs/qemu-guest-agent]}}"
)


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    rack = Rack(Settings(home=tmp_path))
    rack.world.schematics[SCHEMATIC.id] = SCHEMATIC
    return fetch_from(rack)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_image_of_a_known_schematic(fetch: Fetch, host: str) -> None:
    url = f"http://{host}:8480/image/{SCHEMATIC.id}/v1.13.9/nocloud-amd64"
    found = fetch(f"{url}.qcow2")
    assert (found.filename, found.format) == ("nocloud-amd64.qcow2", "qcow2")
    assert found.content is not None
    assert found.content.schematic_id == SCHEMATIC.id
    assert 0 < found.size < found.virtual_size
    assert found.checksums["sha256"] == fetch(f"{url}.qcow2").checksums["sha256"]
    assert found.checksums["sha256"] != fetch(f"{url}.raw.xz").checksums["sha256"]


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://factory.talos.dev/image/x/v1.13.9/nocloud-amd64.qcow2", "'factory.talos.dev'"),
        ("http://127.0.0.1:80/image.qcow2", "Connection refused"),
        ("http://127.0.0.1/image.qcow2", "127.0.0.1:80"),
        (f"http://127.0.0.1:8480/image/{'0' * 64}/v1.13.9/nocloud-amd64.qcow2", "not found"),
        (f"http://127.0.0.1:8480/image/{SCHEMATIC.id}/v0.0.1/nocloud-amd64.qcow2", "v0.0.1"),
        ("http://127.0.0.1:8480/elsewhere", "404"),
    ],
)
def test_what_is_not_there_fails_the_download(fetch: Fetch, url: str, text: str) -> None:
    with pytest.raises(Refused, match="download failed") as refused:
        fetch(url)
    assert text.removeprefix("v") in refused.value.message
    assert "simulated rack" in refused.value.message
