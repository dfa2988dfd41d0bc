"""A fake host, and a configured provider on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rack.plugins.proxmoxve.provider import ProxmoxVe
from tests.plugins.proxmoxve.driver import Engine
from tests.plugins.proxmoxve.fakepve import FakePve, serving
from tests.plugins.proxmoxve.inputs import TOKEN


@pytest.fixture
def fake() -> Iterator[FakePve]:
    with serving() as host:
        yield host


@pytest.fixture
def engine(fake: FakePve) -> Engine:
    ready = Engine(ProxmoxVe())
    ready.configure(endpoint=fake.endpoint, apiToken=TOKEN)
    return ready
