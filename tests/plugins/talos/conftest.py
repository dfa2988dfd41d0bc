"""A plugin with a scripted rack, and one whose rack cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rack.plugins.talos import machine_secrets, pki
from rack.plugins.talos.provider import TalosProvider
from tests.plugins.proxmoxve.driver import Engine
from tests.plugins.talos.fakerack import FakeRack, serve
from tests.plugins.talos.inputs import (
    CONFIGURATION,
    START,
    Clock,
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rack() -> Iterator[FakeRack]:
    with serve(FakeRack()) as fake:
        yield fake


@pytest.fixture
def engine(rack: FakeRack, clock: Clock) -> Engine:
    engine = Engine(TalosProvider(now=clock))
    engine.configure(imageFactoryUrl=rack.url)
    return engine


@pytest.fixture
def offline(clock: Clock) -> Engine:
    """A plugin whose rack cannot be reached."""
    engine = Engine(TalosProvider(now=clock))
    engine.configure(imageFactoryUrl="http://127.0.0.1:9")
    return engine


@pytest.fixture(scope="module")
def client() -> dict[str, Any]:
    return machine_secrets.client_configuration(
        {"certs": {"os": _encoded(pki.talos_authority(START))}}, START
    )


@pytest.fixture
def apply_inputs(client: dict[str, Any]) -> dict[str, Any]:
    return {
        "node": "127.0.0.2",
        "clientConfiguration": client,
        "machineConfigurationInput": CONFIGURATION,
        "timeouts": {"create": "5s", "update": "5s", "delete": "5s"},
    }


def _encoded(pair: pki.Pair) -> dict[str, str]:
    return {"cert": pki.encode(pair.certificate), "key": pki.encode(pair.key)}
