"""A download counts only where it is what the vendor published, and stays so."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tools import download
from tools.sources import ToolError

URL = "https://vendor.example/etcd"


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(download, "LOCK", tmp_path / "downloads.lock.json")
    path = tmp_path / "etcd"
    path.write_bytes(b"content")
    return path


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_download_as_published_is_recorded(fetched: Path) -> None:
    download.check(URL, fetched, digest(b"content"))
    assert json.loads(download.LOCK.read_text()) == {URL: digest(b"content")}


def test_another_content_than_published_is_refused_and_not_recorded(fetched: Path) -> None:
    with pytest.raises(ToolError, match="the vendor publishes"):
        download.check(URL, fetched, digest(b"other"))
    assert not download.LOCK.exists()


def test_a_release_that_was_replaced_is_refused_although_the_vendor_agrees(fetched: Path) -> None:
    download.check(URL, fetched, digest(b"content"))
    fetched.write_bytes(b"replaced")
    with pytest.raises(ToolError, match="but was recorded"):
        download.check(URL, fetched, digest(b"replaced"))


def test_a_vendor_out_of_reach_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(url: str, timeout: float) -> None:
        asked.append(url)
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr(download.urllib.request, "urlopen", refuse)
    monkeypatch.setattr(download, "_out_of_reach", {})
    for path in ("a", "b"):
        with pytest.raises(download.NotOfferedError, match="Name or service not known"):
            download._read(f"https://vendor.example/{path}")
    assert asked == ["https://vendor.example/a"]
