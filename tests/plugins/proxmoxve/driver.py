"""Drives a provider through the plugin protocol's calls, in the engine's order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

from pulumi.provider.experimental import provider as protocol
from pulumi.provider.experimental.property_value import PropertyValue

from rack.plugins.contract import UNKNOWN_WIRE, Plain, Unknown, decode

T = TypeVar("T")


def run(work: Awaitable[T]) -> T:
    """Run one call of the protocol."""

    async def wait() -> T:
        return await work

    return asyncio.run(wait())


def encode(value: Any) -> PropertyValue:
    """Write a plain value as the engine sends it."""
    if isinstance(value, Unknown):
        return PropertyValue(UNKNOWN_WIRE)
    if isinstance(value, dict):
        return PropertyValue(encode_map(value))
    if isinstance(value, list):
        return PropertyValue([encode(item) for item in value])
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return PropertyValue(float(value) if is_number else value)


def encode_map(values: Plain) -> dict[str, PropertyValue]:
    return {name: encode(value) for name, value in values.items()}


class CheckFailedError(Exception):
    """Inputs that the provider refused: property path → reason."""

    def __init__(self, failures: list[protocol.CheckFailure]) -> None:
        super().__init__("; ".join(failure.reason for failure in failures))
        self.failures = {failure.property: failure.reason for failure in failures}


@dataclass
class Engine:
    """One stack's view of a provider."""

    provider: protocol.Provider

    def configure(self, **values: Any) -> None:
        request = protocol.ConfigureRequest({}, encode_map(values), True, True)
        run(self.provider.configure(request))

    def urn(self, token: str, name: str = "it") -> str:
        return f"urn:pulumi:dev::project::my:module:Parent${token}::{name}"

    def check(self, token: str, inputs: Plain, old: Plain | None = None) -> Plain:
        request = protocol.CheckRequest(
            self.urn(token), encode_map(old or {}), encode_map(inputs), b"seed"
        )
        response = run(self.provider.check(request))
        if response.failures:
            raise CheckFailedError(response.failures)
        return decode(response.inputs or {})

    def diff(self, token: str, state: Plain, inputs: Plain, *ignored: str) -> dict[str, str]:
        """Return path → kind of the differences between a state and a program's inputs."""
        checked = self.check(token, inputs, state)
        request = protocol.DiffRequest(
            self.urn(token), "id", encode_map(state), encode_map(checked), list(ignored)
        )
        response = run(self.provider.diff(request))
        assert bool(response.detailed_diff) == bool(response.changes)
        return {path: entry.kind.name for path, entry in response.detailed_diff.items()}

    def create(self, token: str, inputs: Plain, *, preview: bool = False) -> tuple[str, Plain]:
        checked = self.check(token, inputs)
        request = protocol.CreateRequest(self.urn(token), encode_map(checked), 0, preview)
        response = run(self.provider.create(request))
        return response.resource_id or "", decode(response.properties)

    def read(
        self, token: str, resource_id: str, state: Plain | None = None, inputs: Plain | None = None
    ) -> tuple[str, Plain, Plain]:
        """Return id, state and inputs; the id is empty when the resource is gone."""
        request = protocol.ReadRequest(
            self.urn(token), resource_id, encode_map(state or {}), encode_map(inputs or {})
        )
        response = run(self.provider.read(request))
        return response.resource_id or "", decode(response.properties), decode(response.inputs)

    def update(self, token: str, resource_id: str, state: Plain, inputs: Plain) -> Plain:
        checked = self.check(token, inputs, state)
        request = protocol.UpdateRequest(
            self.urn(token), resource_id, encode_map(state), encode_map(checked), 0, [], False
        )
        return decode(run(self.provider.update(request)).properties)

    def delete(self, token: str, resource_id: str, state: Plain) -> None:
        request = protocol.DeleteRequest(self.urn(token), resource_id, encode_map(state), 0)
        run(self.provider.delete(request))

    def invoke(self, token: str, arguments: Plain) -> Plain:
        response = run(self.provider.invoke(protocol.InvokeRequest(token, encode_map(arguments))))
        if response.failures:
            raise CheckFailedError(response.failures)
        return decode(response.return_value or {})
