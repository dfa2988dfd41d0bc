"""The plugin as a process: what the engine sees of errors, partial creation and signals."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from tests.plugins.proxmoxve.driver import encode_map
from tests.plugins.proxmoxve.fakepve import FakePve
from tests.plugins.proxmoxve.inputs import FILE, GPU_VM, IMAGE, TOKEN, VM

PLUGIN = Path(__file__).parents[3] / "rack/plugins/bin/pulumi-resource-proxmoxve"


@dataclass
class Plugin:
    """The running plugin."""

    process: subprocess.Popen[str]
    stub: Any

    def create(self, token: str, inputs: dict[str, Any]) -> Any:
        urn = f"urn:pulumi:dev::project::my:module:Parent${token}::it"
        check = provider_pb2.CheckRequest(urn=urn, news=struct(inputs))
        checked = self.stub.Check(check)
        assert not checked.failures
        return provider_pb2.CreateRequest(urn=urn, properties=checked.inputs)


def struct(values: dict[str, Any]) -> Any:
    return PropertyValue.marshal_map(encode_map(values))


@pytest.fixture
def plugin(fake: FakePve) -> Iterator[Plugin]:
    process = subprocess.Popen([sys.executable, PLUGIN], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with grpc.insecure_channel(f"127.0.0.1:{process.stdout.readline().strip()}") as channel:
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        settings = struct({"endpoint": fake.endpoint, "apiToken": TOKEN})
        stub.Configure(provider_pb2.ConfigureRequest(args=settings))
        yield Plugin(process, stub)
        process.kill()
    process.wait()
    process.stdout.close()


def test_partial_creation_carries_the_vm(plugin: Plugin, fake: FakePve) -> None:
    fake.start_fails_with = "no IOMMU detected"
    with pytest.raises(grpc.RpcError) as caught:
        plugin.stub.Create(plugin.create(VM, GPU_VM))
    assert "VM start failed: no IOMMU detected" in caught.value.details()
    assert "Traceback" not in caught.value.details()
    ((_, detail),) = caught.value.trailing_metadata()
    status = status_pb2.Status.FromString(detail)
    reported = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(reported)
    assert reported.id == "111"
    assert reported.properties["started"] is False
    assert reported.inputs["machine"] == "q35"
    assert list(reported.reasons) == [caught.value.details()]


def test_an_ordinary_error_is_its_text_alone(plugin: Plugin, fake: FakePve) -> None:
    fake.files["local:import/talos.qcow2"] = 1
    with pytest.raises(grpc.RpcError) as caught:
        plugin.stub.Create(plugin.create(FILE, IMAGE))
    assert caught.value.details().startswith("File already exists in the datastore")
    assert "Traceback" not in caught.value.details()
    assert "c0de" not in caught.value.details()


def test_changed_provider_configuration_is_a_change(plugin: Plugin) -> None:
    def changes(**new: str) -> tuple[int, list[str]]:
        request = provider_pb2.DiffRequest(olds=struct({"endpoint": "a"}), news=struct(new))
        response = plugin.stub.DiffConfig(request)
        return response.changes, list(response.diffs)

    assert changes(endpoint="a") == (provider_pb2.DiffResponse.DIFF_NONE, [])
    assert changes(endpoint="b") == (provider_pb2.DiffResponse.DIFF_SOME, ["endpoint"])


@pytest.mark.parametrize("how", ["signal", "Cancel"])
def test_stopping_ends_what_waits(plugin: Plugin, fake: FakePve, how: str) -> None:
    fake.tasks_never_end = True
    pending = plugin.stub.Create.future(plugin.create(FILE, IMAGE))
    while not fake.calls("POST", "download-url"):
        time.sleep(0.01)
    if how == "signal":
        plugin.process.send_signal(signal.SIGTERM)
    else:
        plugin.stub.Cancel(empty_pb2.Empty())
    assert "cancelled" in str(pending.exception(timeout=10).details())
    if how == "signal":
        assert plugin.process.wait(timeout=10) == 0
