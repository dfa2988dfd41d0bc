"""Helm without Helm's program: Pulumi's Kubernetes plugin has it inside, and answers a call for it.

The plugin is the one that `pulumi up` installs the release with, so what is compared here is what
is installed there. It needs neither engine nor cluster to render.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc  # type: ignore[import-untyped]
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from google.protobuf.struct_pb2 import Struct  # type: ignore[import-untyped]
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from rack.charts.repository import CHART, ChartError
from rack.settings import CHECKOUT, LOOPBACK

PLUGIN: Final = "pulumi-resource-kubernetes"
NO_ENGINE: Final = f"{LOOPBACK}:9"
"""The plugin wants an engine's address and asks it nothing while it renders."""
RENDER: Final = "kubernetes:helm:template"
KUBERNETES: Final = "1.34.4"
"""What charts are told of the cluster's version: the rack's."""
APIS: Final = ("resource.k8s.io/v1/DeviceClass",)
"""APIs that they are told of beyond Helm's own list: those that came with this version."""
START_S: Final = 30.0
ANSWER_S: Final = 60.0
MOST_BYTES: Final = 256 << 20
"""Largest answer of the plugin, as for Pulumi's own engine."""

Object = dict[str, Any]


class RenderError(Exception):
    """Helm cannot be asked; the message says why and what to do."""


@dataclass(frozen=True)
class Refused:
    """The chart does not render with these values."""

    text: str
    """Helm's words."""


class Helm:
    """A running plugin."""

    def __init__(self, channel: Any) -> None:
        self._plugin = provider_pb2_grpc.ResourceProviderStub(channel)
        # It renders only after this, and finds no cluster.
        self._ask("Configure", provider_pb2.ConfigureRequest(acceptSecrets=True))

    def render(self, package: Path, values: Mapping[str, Any]) -> list[Object] | Refused:
        """Every object that a chart package makes of values, hooks too, without its CRDs."""
        options = {
            "path": str(package.parent),
            "chart": package.name,
            "release_name": CHART,
            "namespace": CHART,
            "kube_version": KUBERNETES,
            "api_versions": APIS,
            "skip_crd_rendering": True,
            "values": values,
        }
        given = Struct()
        given.update({"jsonOpts": json.dumps(options)})
        try:
            found = self._ask("Invoke", provider_pb2.InvokeRequest(tok=RENDER, args=given))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNKNOWN:
                raise RenderError(f"{PLUGIN} failed to render: {error.details()}") from None
            return Refused(error.details().partition("from template: ")[2] or error.details())
        objects: list[Object] = _whole(MessageToDict(getattr(found, "return"))["result"])
        return objects

    def _ask(self, method: str, request: Any) -> Any:
        return getattr(self._plugin, method)(request, timeout=ANSWER_S)


@contextmanager
def helm() -> Iterator[Helm]:
    """Start the plugin, and end it.

    Raises:
        RenderError: it is not there, or does not start.

    """
    folders = os.pathsep.join([os.environ.get("PATH", ""), str(CHECKOUT / ".tools" / "bin")])
    program = shutil.which(PLUGIN, path=folders)
    if program is None:
        raise RenderError(
            f"{PLUGIN}, which has Helm inside, is neither on PATH nor in .tools/bin. `make tools`"
            " brings it"
        )
    process = subprocess.Popen(
        [program, NO_ENGINE],
        # A cluster that happens to be in reach must not have a say in what is rendered.
        env={**os.environ, "KUBECONFIG": os.devnull},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        options = [("grpc.max_receive_message_length", MOST_BYTES)]
        with grpc.insecure_channel(f"{LOOPBACK}:{_port(process)}", options=options) as channel:
            yield Helm(channel)
    except grpc.RpcError as error:
        raise RenderError(f"{PLUGIN} ({program}) does not answer: {error.details()}") from None
    finally:
        process.terminate()
        process.wait()


def _port(process: subprocess.Popen[bytes]) -> int:
    """The first line that a plugin prints."""
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    ready, _, _ = select.select([process.stdout], [], [], START_S)
    line = process.stdout.readline().strip() if ready else b""
    if not line.isdigit():
        raise RenderError(
            f"{PLUGIN} named no port within {START_S:g} s. Run `{PLUGIN} {NO_ENGINE}` to see what"
            " it says"
        )
    return int(line)


def _whole(value: Any) -> Any:
    """Numbers as they were: the protocol knows none but floating-point ones."""
    if isinstance(value, dict):
        return {key: _whole(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def the_one(objects: list[Object], kind: str, name: str = "") -> Object | None:
    """The object of a kind, by name where there may be several.

    Raises:
        ChartError: there are two, and no name says which.

    """
    found = [one for one in objects if one["kind"] == kind]
    if name:
        found = [one for one in found if one["metadata"]["name"] == name]
    if len(found) > 1:
        raise ChartError(f"the chart makes {len(found)} objects of kind {kind}, not one")
    return found[0] if found else None
