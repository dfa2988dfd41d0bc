"""The image factory over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rack.rack import Rack
from rack.settings import Settings
from tests.model.talosworld import NONFREE_LTS, schematic_text, talos_image
from tests.rack.talosapi import TalosApi, serving

VANILLA = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
NVIDIA = "af8eb82417d3deaa94d2ef19c3b590b0dac1b2549d0b9b35b3da2bc325de75f7"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[TalosApi]:
    with serving(tmp_path / "rack") as found:
        yield found


def test_a_schematic_is_kept_under_its_id(api: TalosApi, tmp_path: Path) -> None:
    answer = api.post("/schematics", schematic_text(*NONFREE_LTS).encode())
    assert answer.status_code == 201
    assert answer.json()["id"] == NVIDIA
    assert api.get(f"/schematics/{NVIDIA}").text == schematic_text(*NONFREE_LTS)
    assert NVIDIA in Rack(Settings(home=tmp_path / "rack")).world.schematics


def test_an_invalid_one_is_refused_in_plain_text(api: TalosApi) -> None:
    answer = api.post("/schematics", b"customization:\n  bar: 1\n")
    assert answer.status_code == 400
    assert "line 2: field bar not found in type schematic.Customization" in answer.text
    assert api.get(f"/schematics/{'0' * 64}").status_code == 404


def test_versions_and_their_extensions(api: TalosApi) -> None:
    assert "v1.13.9" in api.get("/versions").json()
    found = api.get("/version/v1.13.9/extensions/official").json()
    refs = {entry["name"]: entry["ref"] for entry in found}
    assert refs["siderolabs/nonfree-kmod-nvidia-lts"] == (
        "ghcr.io/siderolabs/nonfree-kmod-nvidia-lts:580.178.04-v1.13.9"
    )
    assert api.get("/version/v1.99.0/extensions/official").status_code == 404


def test_an_image_shows_its_size_and_no_bytes(api: TalosApi) -> None:
    path = f"/image/{VANILLA}/v1.13.9/nocloud-amd64.qcow2"
    head = api.session.head(api.url + path, timeout=10)
    assert head.status_code == 200
    assert int(head.headers["Content-Length"]) == talos_image().size
    body = api.get(path)
    assert body.status_code == 501
    assert "simulated rack" in body.text


def test_an_image_of_an_unknown_schematic_is_not_found(api: TalosApi) -> None:
    path = f"/image/{NVIDIA}/v1.13.9/nocloud-amd64.qcow2"
    assert api.get(path).status_code == 404
    api.post("/schematics", schematic_text(*NONFREE_LTS).encode())
    assert api.session.head(api.url + path, timeout=10).status_code == 200
