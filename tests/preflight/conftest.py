"""A rack's Proxmox API on a random port, its token and its authority in the environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_passthrough.preflight.client import AUTHORITIES, TOKEN
from tests.rack.proxmoxserver import Served


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    made = Served(tmp_path)
    monkeypatch.setenv(TOKEN, made.token)
    monkeypatch.setenv(AUTHORITIES, str(made.settings.certificate))
    yield made
    made.close()
