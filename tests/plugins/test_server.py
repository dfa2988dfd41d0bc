"""A plugin's process: it does not outlive its engine."""

from __future__ import annotations

import asyncio
import socket

import pytest

from rack.plugins.server import _until_gone


def listener() -> socket.socket:
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    made.listen()
    return made


def test_it_ends_with_its_engine() -> None:
    async def scenario() -> None:
        engine = listener()
        address = f"127.0.0.1:{engine.getsockname()[1]}"
        watching = asyncio.ensure_future(_until_gone(address, pause=0.02))
        await asyncio.sleep(0.2)
        assert not watching.done()
        engine.close()
        await asyncio.wait_for(watching, 5)

    asyncio.run(scenario())


def test_without_an_engine_it_stays() -> None:
    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_until_gone("", pause=0.01), 0.2)

    asyncio.run(scenario())
