"""machine:Bootstrap: starts etcd on the first control plane node, once in a cluster's life."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rack.plugins.contract import Plain
from rack.plugins.talos.client import Access
from rack.plugins.talos.resource import (
    Differences,
    Resource,
    deadline,
    duration_problems,
    exactly_one,
    with_endpoint,
)


class Bootstrap(Resource):
    """An event rather than a thing: changing it does nothing, nor does deleting it."""

    token: ClassVar[str] = "talos:machine/bootstrap:Bootstrap"  # noqa: S105 - a type token

    def problems(self, inputs: Plain) -> Mapping[str, str]:
        """Require one client configuration."""
        one = exactly_one(inputs, "clientConfiguration", "clientConfigurationWo")
        return {**one, **duration_problems(inputs)}

    def preview(self, inputs: Plain, old: Plain | None) -> Plain:
        """Everything is known."""
        del old
        return _state(inputs)

    def create(self, inputs: Plain, seconds: float | None) -> tuple[str, Plain]:
        """Bootstrap the node.

        A cluster that exists already is an error like any other: it is retried until the time is
        over, as the official plugin does.
        """
        access = Access.of(inputs.get("clientConfigurationWo") or inputs["clientConfiguration"])
        self.rack.persist(
            f"bootstrapping node {inputs['node']}",
            deadline(inputs, "create", seconds),
            lambda: self.rack.command(inputs["node"], "bootstrap", access, {}),
        )
        return "machine_bootstrap", _state(inputs)

    def adjust(self, differences: Differences, old: Plain, inputs: Plain) -> Differences:
        """Write-only input is not in the state, so it cannot differ from it."""
        del old, inputs
        return {p: kind for p, kind in differences.items() if "clientConfigurationWo" not in p}

    def update(self, old: Plain, inputs: Plain, seconds: float | None) -> Plain:
        """Take over the inputs and touch no machine."""
        del old, seconds
        return _state(inputs)

    def imported(self, resource_id: str) -> Plain:
        """Take the cluster's word for it: an imported bootstrap knows nothing about itself."""
        del resource_id
        return {}


def _state(inputs: Plain) -> Plain:
    filled = with_endpoint(inputs)
    return {name: value for name, value in filled.items() if name != "clientConfigurationWo"}
