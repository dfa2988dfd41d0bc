"""The executable: started as the engine starts it, spoken to over its own protocol."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from google.protobuf import empty_pb2, struct_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

PLUGIN = Path(__file__).parents[3] / "rack" / "plugins" / "bin" / "pulumi-resource-talos"


@pytest.fixture(scope="module")
def process() -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen([sys.executable, str(PLUGIN)], stdout=subprocess.PIPE, text=True)
    yield started
    started.terminate()
    assert started.wait(10) == 0


@pytest.fixture(scope="module")
def plugin(process: subprocess.Popen[str]) -> Iterator[Any]:
    assert process.stdout is not None
    port = process.stdout.readline().strip()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield provider_pb2_grpc.ResourceProviderStub(channel)


def test_it_is_the_version_of_the_official_plugin(plugin: Any) -> None:
    assert plugin.GetPluginInfo(empty_pb2.Empty()).version == "0.8.1"


def test_an_error_is_a_message_and_no_traceback(plugin: Any) -> None:
    empty = struct_pb2.Struct()
    plugin.Configure(provider_pb2.ConfigureRequest(args=empty))
    urn = "urn:pulumi:dev::project::my:module:Parent$talos:imageFactory/schematic:Schematic::s"
    with pytest.raises(grpc.RpcError) as refused:
        plugin.Create(provider_pb2.CreateRequest(urn=urn, properties=empty))
    assert refused.value.details().startswith("refusing to run against https://factory.talos.dev")
    assert "Traceback" not in refused.value.details()
    assert 'File "' not in refused.value.details()
