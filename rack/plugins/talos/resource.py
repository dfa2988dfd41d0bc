"""What a resource of the plugin can do: the part of the protocol that differs between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final

from pulumi.provider.experimental.provider import PropertyDiffKind

from rack.plugins.contract import Plain, PluginError, Unknown
from rack.plugins.talos import durations
from rack.plugins.talos.client import Rack

DEFAULT_SECONDS: Final = 600.0

Differences = dict[str, PropertyDiffKind]
Clock = Callable[[], datetime]


@dataclass
class Resource(ABC):
    """One resource type. Inputs are checked against the schema and complete with its defaults."""

    rack: Rack
    now: Clock

    token: ClassVar[str]

    def problems(self, inputs: Plain) -> Mapping[str, str]:
        """Return what the schema cannot say about wrong inputs: property → reason."""
        del inputs
        return {}

    @abstractmethod
    def preview(self, inputs: Plain, old: Plain | None) -> Plain:
        """Return the outputs as far as they are known before create, or update of `old`."""

    @abstractmethod
    def create(self, inputs: Plain, seconds: float | None) -> tuple[str, Plain]:
        """Make the resource and return its id and outputs."""

    def adjust(self, differences: Differences, old: Plain, inputs: Plain) -> Differences:
        """Return the differences with what only this resource knows about them."""
        del old, inputs
        return differences

    @abstractmethod
    def update(self, old: Plain, inputs: Plain, seconds: float | None) -> Plain:
        """Change the resource in place and return its outputs."""

    def delete(self, old: Plain, seconds: float | None) -> None:
        """Remove the resource; for most, the official plugin has nothing to remove."""
        del old, seconds

    def imported(self, resource_id: str) -> Plain:
        """Return the state of a resource that Pulumi knows by id only."""
        raise PluginError(
            f"{self.token} cannot be imported (id {resource_id!r}): the machine does not tell what"
            " it was made from. Declare the resource without import"
        )


def deadline(inputs: Plain, operation: str, seconds: float | None) -> float:
    """Return how long an operation may take, in seconds.

    The resource's own `timeouts` first, then the engine's custom timeout, then ten minutes.
    """
    own = (inputs.get("timeouts") or {}).get(operation)
    if own is not None and not isinstance(own, Unknown):
        return durations.seconds(own)
    return seconds or DEFAULT_SECONDS


def duration_problems(inputs: Plain, *names: str) -> dict[str, str]:
    """Find malformed durations in `timeouts` and in the properties `names`."""
    timeouts = inputs.get("timeouts")
    values: dict[str, Any] = {name: inputs.get(name) for name in names}
    if isinstance(timeouts, dict):
        values |= {f"timeouts.{name}": value for name, value in timeouts.items()}
    found = {}
    for path, value in values.items():
        if isinstance(value, str):
            try:
                durations.seconds(value)
            except ValueError as error:
                found[path] = f"{path!r}: {error}"
    return found


def exactly_one(inputs: Plain, *names: str) -> dict[str, str]:
    """Require one of a property and its write-only twin."""
    given = [name for name in names if inputs.get(name) is not None]
    if len(given) == 1:
        return {}
    return {names[0]: f"exactly one of {' and '.join(map(repr, names))} must be set"}


def with_endpoint(inputs: Plain) -> Plain:
    """Return the inputs with the endpoint that the official plugin fills in: the node itself."""
    return {**inputs, "endpoint": inputs.get("endpoint") or inputs.get("node")}
