"""Runs the program, or one component, against a recorder in the engine's place."""

from __future__ import annotations

import asyncio
import copy
import runpy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime import mocks, rpc
from pulumi.runtime.settings import set_root_resource

from gpu_passthrough.config import Stack

PROGRAM = Path(__file__).parents[2] / "__main__.py"
SECRETS = {
    "machineSecrets": {
        "certs": {
            one: {"cert": f"{one}-certificate", "key": f"{one}-key"}
            for one in ("etcd", "k8s", "k8sAggregator", "os")
        }
        | {"k8sServiceaccount": {"key": "service-account-key"}},
        "cluster": {"id": "cluster-id", "secret": "cluster-secret"},
        "secrets": {
            "bootstrapToken": "bootstrap-token",
            "secretboxEncryptionSecret": "secretbox",
            "aescbcEncryptionSecret": "aescbc",
        },
        "trustdinfo": {"token": "trustd-token"},
    },
    "clientConfiguration": {
        "caCertificate": "os-certificate",
        "clientCertificate": "client-certificate",
        "clientKey": "client-key",
    },
}
OUTPUTS: dict[str, Mapping[str, Any]] = {
    "talos:machine/secrets:Secrets": SECRETS,
    "talos:cluster/kubeconfig:Kubeconfig": {"kubeconfigRaw": "the kubeconfig"},
}
GENERATE = "talos:machine/getConfiguration:getConfiguration"
TALOSCONFIG = "talos:client/getConfiguration:getConfiguration"
RESULTS: dict[str, dict[str, Any]] = {
    GENERATE: {"machineConfiguration": "version: v1alpha1"},
    TALOSCONFIG: {"talosConfig": "the talosconfig"},
}


@dataclass
class Registered:
    """One resource as the engine is asked for it."""

    request: Any
    urn: str
    inputs: dict[str, Any]
    secrets: set[str]
    """Inputs that are secret as a whole."""

    @property
    def type(self) -> str:
        return str(self.request.type)

    @property
    def name(self) -> str:
        return str(self.request.name)


@dataclass
class Recorder(mocks.Mocks):
    """What was asked for, in the order in which the engine would be asked."""

    resources: list[Registered] = field(default_factory=list)
    calls: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    secret_outputs: set[str] = field(default_factory=set)

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        made = {**args.inputs, **OUTPUTS.get(args.typ, {})}
        made.setdefault("metadata", {"name": f"{args.name}-made"})
        return f"id-of-{args.name}" if args.custom else None, made

    def call(self, args: mocks.MockCallArgs) -> dict[str, Any]:  # type: ignore[override]
        self.calls.setdefault(args.token, []).append(copy.deepcopy(args.args))
        return {**args.args, **RESULTS[args.token]}

    def of(self, kind: str) -> list[Registered]:
        """The resources of a type, by its last word."""
        return [one for one in self.resources if one.type.rpartition(":")[2] == kind]

    def one(self, kind: str, name: str | None = None) -> Registered:
        """The only resource of a type, or the only one of that name as well."""
        (found,) = [one for one in self.of(kind) if name in (None, one.name)]
        return found

    def inputs(self, kind: str, name: str | None = None) -> dict[str, Any]:
        return self.one(kind, name).inputs

    def provider(self, name: str) -> Registered:
        """A provider, by its resource name."""
        (found,) = [r for r in self.resources if "pulumi:providers:" in r.type and r.name == name]
        return found

    def parent(self, child: Registered) -> Registered | None:
        return next((one for one in self.resources if one.urn == child.request.parent), None)

    def waits_for(self, resource: Registered) -> set[str]:
        """URNs of everything that has to be there before, through parents and dependencies."""
        urns = {one.urn: one for one in self.resources}
        found: set[str] = set()
        open_ends = [resource]
        while open_ends:
            request = open_ends.pop().request
            provider = request.provider.rpartition("::")[0]
            for urn in {*request.dependencies, request.parent, provider} - found:
                if urn in urns:
                    found.add(urn)
                    open_ends.append(urns[urn])
        return found


class Monitor(mocks.MockMonitor):
    """Keeps the requests, which the mocks are not shown: options, secrets, dependencies."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self.recorder = recorder

    def RegisterResource(self, request: Any) -> Any:
        answer = super().RegisterResource(request)
        if request.type != "pulumi:pulumi:Stack":
            raw = rpc.deserialize_properties(request.object, keep_unknowns=True)
            inputs = {key: unwrap(value) for key, value in raw.items()}
            secrets = {key for key, value in raw.items() if rpc.is_rpc_secret(value)}
            self.recorder.resources.append(Registered(request, answer.urn, inputs, secrets))
        return answer

    def RegisterResourceOutputs(self, request: Any) -> Any:
        if request.urn.split("::")[-2] == "pulumi:pulumi:Stack":
            raw = rpc.deserialize_properties(request.outputs, keep_unknowns=True)
            self.recorder.outputs = {key: unwrap(value) for key, value in raw.items()}
            self.recorder.secret_outputs = {k for k, v in raw.items() if rpc.is_rpc_secret(v)}
        return super().RegisterResourceOutputs(request)


def unwrap(value: Any) -> Any:
    """Take secrets out of their wrapping, however deep."""
    if rpc.is_rpc_secret(value):
        return unwrap(rpc.unwrap_rpc_secret(value))
    if isinstance(value, Mapping):
        return {key: unwrap(one) for key, one in value.items()}
    return [unwrap(one) for one in value] if isinstance(value, list) else value


def record(build: Callable[[], object], recorder: Recorder | None = None) -> Recorder:
    """Build in an otherwise empty world, and give back what was asked for."""
    recorder = recorder or Recorder()

    async def run() -> None:
        mocks.set_mocks(recorder, "gpu-passthrough", "test", False, monitor=Monitor(recorder))
        set_root_resource(None)  # the mocks made one; the program gets a stack of its own
        await pulumi.runtime.run_in_stack(lambda: build() and None)

    asyncio.run(run())
    return recorder


def run_program(load: Callable[[], Stack], recorder: Recorder | None = None) -> Recorder:
    """Run the whole program with a configuration that nobody judged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpu_passthrough.load.load_stack", load)
        return record(lambda: runpy.run_path(str(PROGRAM)), recorder)


def walk(value: Any) -> Iterator[Any]:
    """Every value inside of a value."""
    yield value
    inner = value.values() if isinstance(value, Mapping) else value
    for one in inner if isinstance(value, list | Mapping) else ():
        yield from walk(one)
