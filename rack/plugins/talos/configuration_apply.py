"""machine:ConfigurationApply: hands a machine its configuration, and resets it when asked to."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pulumi.provider.experimental.provider import PropertyDiffKind

from rack.plugins.contract import UNKNOWN, Plain, PluginError, contains_unknown
from rack.plugins.talos import patches
from rack.plugins.talos.client import Access, ApiError
from rack.plugins.talos.resource import (
    Differences,
    Resource,
    deadline,
    duration_problems,
    exactly_one,
    with_endpoint,
)

WRITE_ONLY: Final = ("clientConfigurationWo", "machineConfigurationInputWo")
"""Inputs that never reach the state."""
STAGED_IF_NEEDED: Final = "staged_if_needing_reboot"
WIPED_PARTITIONS: Final = ("STATE", "EPHEMERAL")


class ConfigurationApply(Resource):
    """A configuration with its patches, applied to one node."""

    token: ClassVar[str] = "talos:machine/configurationApply:ConfigurationApply"  # noqa: S105

    def problems(self, inputs: Plain) -> Mapping[str, str]:
        """Require one configuration and one client configuration, and patches that apply."""
        return {
            **exactly_one(inputs, "machineConfigurationInput", "machineConfigurationInputWo"),
            **exactly_one(inputs, "clientConfiguration", "clientConfigurationWo"),
            **duration_problems(inputs),
        }

    def preview(self, inputs: Plain, old: Plain | None) -> Plain:
        """Render the configuration where all of it is known, so that bad patches show early."""
        del old
        return self._outputs(inputs, _rendered(inputs))

    def create(self, inputs: Plain, seconds: float | None) -> tuple[str, Plain]:
        """Apply the configuration."""
        return "machine_configuration_apply", self._apply(inputs, "create", seconds)

    def adjust(self, differences: Differences, old: Plain, inputs: Plain) -> Differences:
        """Write-only inputs are compared by the hash of what they render to."""
        adjusted = {
            path: kind for path, kind in differences.items() if _root(path) not in WRITE_ONLY
        }
        write_only = inputs.get("machineConfigurationInputWo") is not None
        if write_only and _hash(_rendered(inputs)) != old.get("machineConfigurationHash"):
            adjusted["machineConfigurationHash"] = PropertyDiffKind.UPDATE
        return adjusted

    def update(self, old: Plain, inputs: Plain, seconds: float | None) -> Plain:
        """Apply the new configuration."""
        del old
        return self._apply(inputs, "update", seconds)

    def delete(self, old: Plain, seconds: float | None) -> None:
        """Reset the machine when `onDestroy.reset` says so; otherwise leave it as it is."""
        on_destroy = old.get("onDestroy") or {}
        if not on_destroy.get("reset"):
            return
        if old.get("clientConfiguration") is None:
            raise PluginError(
                "onDestroy.reset: clientConfigurationWo is not in the state, so the machine cannot"
                " be reset; use clientConfiguration"
            )
        access, what = Access.of(old["clientConfiguration"]), f"resetting node {old['node']}"
        limit = deadline(old, "delete", seconds)
        started = time.monotonic()
        parameters = {
            "graceful": on_destroy.get("graceful", True),
            "reboot": on_destroy.get("reboot", False),
            "wipe": list(WIPED_PARTITIONS),
        }
        self.rack.persist(
            what, limit, lambda: self.rack.command(old["node"], "reset", access, parameters)
        )
        left = limit - (time.monotonic() - started)
        goal = "maintenance" if parameters["reboot"] else "off"
        self.rack.persist(what, left, lambda: self._require_reset(old["node"], goal))

    def _apply(self, inputs: Plain, operation: str, seconds: float | None) -> Plain:
        inputs = with_endpoint(inputs)
        access = Access.of(inputs.get("clientConfigurationWo") or inputs["clientConfiguration"])
        outputs = self._outputs(inputs, configuration := _rendered(inputs))
        parameters = {"configuration": configuration, "mode": outputs["resolvedApplyMode"]}
        self.rack.persist(
            f"applying configuration to node {inputs['node']}",
            deadline(inputs, operation, seconds),
            lambda: self.rack.command(inputs["node"], "apply", access, parameters),
        )
        return outputs

    def _outputs(self, inputs: Plain, configuration: Any) -> Plain:
        mode = inputs.get("applyMode")
        kept = {name: v for name, v in with_endpoint(inputs).items() if name not in WRITE_ONLY}
        return {
            **kept,
            # Write-only input stays out of the state in its rendered form too.
            "machineConfiguration": (
                None if inputs.get("machineConfigurationInputWo") is not None else configuration
            ),
            "machineConfigurationHash": _hash(configuration),
            # The rack's machines do not say in advance whether a change needs a reboot; the
            # official plugin takes `auto` then.
            "resolvedApplyMode": "auto" if mode == STAGED_IF_NEEDED else mode,
        }

    def _require_reset(self, node: str, goal: str) -> None:
        try:
            stage = self.rack.machine(node).get("stage")
        except ApiError:
            if goal == "off":
                return  # A machine that is switched off does not answer.
            raise
        if stage != goal:
            raise ApiError("Unavailable", f"the machine is still in stage {stage}")


def _rendered(inputs: Plain) -> Any:
    """Return the configuration with its patches applied, or `UNKNOWN` before it can be known."""
    source = inputs.get("machineConfigurationInputWo") or inputs["machineConfigurationInput"]
    texts = inputs.get("configPatches") or []
    if contains_unknown(source) or contains_unknown(texts):
        return UNKNOWN
    return patches.apply_to_text(source, texts)


def _hash(configuration: Any) -> Any:
    if contains_unknown(configuration):
        return UNKNOWN
    return hashlib.sha256(configuration.encode()).hexdigest()


def _root(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]
