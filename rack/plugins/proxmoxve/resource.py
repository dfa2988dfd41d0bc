"""What the plugin asks of each type of resource."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pulumi.provider.experimental.provider import PropertyDiffKind

from rack.plugins.contract import Plain
from rack.plugins.proxmoxve.client import Client

Kinds = dict[str, PropertyDiffKind]


@dataclass(frozen=True)
class Context:
    """What an operation on a resource may use."""

    client: Client
    warn: Callable[[str], None]
    """Shows the user a warning beside the resource."""


@dataclass(frozen=True)
class Found:
    """A resource that exists: its id, its properties, and the inputs that would make it."""

    resource_id: str
    outputs: Plain
    inputs: Plain


class Resource(Protocol):
    """The life of one type of resource. All properties are plain, inputs checked and defaulted."""

    def create(self, context: Context, inputs: Plain) -> Found:
        """Make the resource, or raise; `PartialCreationError` when it exists but is not ready."""

    def read(self, context: Context, resource_id: str, state: Plain) -> Found | None:
        """Look the resource up by its id; `state` is empty in an import. None when it is gone."""

    def update(self, context: Context, resource_id: str, old: Plain, new: Plain) -> Plain:
        """Change the resource from the state `old` to the plan `new`; return its outputs."""

    def delete(self, context: Context, resource_id: str, state: Plain) -> None:
        """Remove the resource; one that is gone already is no error."""

    def refine(self, kinds: Kinds, old: Plain, new: Plain) -> Kinds:
        """Correct the schema's differences by the rules it cannot express."""
