"""Reading a ClusterPolicy with the operator's own defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rack.world.cuda import version

CDI_REWORKED_SINCE: Final = (25, 10)
"""From here on, CDI needs nothing of NVIDIA's toolkit container."""
NRI_SINCE: Final = (26, 3)


class PolicyView:
    """A ClusterPolicy; `spec` is the chart's."""

    def __init__(self, policy: Mapping[str, Any]) -> None:
        self.spec: Mapping[str, Any] = policy.get("spec") or {}

    def section(self, name: str) -> Mapping[str, Any]:
        """A part of the specification; empty where it is missing."""
        return self.spec.get(name) or {}

    def has(self, name: str, *, default: bool = False) -> bool:
        """The part is switched on."""
        found = self.section(name).get("enabled")
        return default if found is None else bool(found)

    @property
    def version(self) -> str:
        """The operator's version; the chart gives the validator its own."""
        return str(self.section("validator").get("version") or "v0.0.0")

    @property
    def line(self) -> tuple[int, int]:
        """Major and minor number of the operator's version."""
        return version(self.version.removeprefix("v"))

    @property
    def runtime_class(self) -> str:
        """Name of the RuntimeClass, and of its handler."""
        return str(self.section("operator").get("runtimeClass") or "nvidia")

    @property
    def uses_nri_plugin(self) -> bool:
        """Injection is left to a plugin in the toolkit container."""
        is_known = self.line >= NRI_SINCE and self.has("cdi")
        return is_known and bool(self.section("cdi").get("nriPluginEnabled"))

    @property
    def driver_root(self) -> str:
        """Where the driver is looked for when the host has none of its own."""
        return str(self.section("hostPaths").get("driverInstallDir") or "/run/nvidia/driver")

    def image(self, name: str) -> str:
        """Full name of a part's image."""
        found = self.section(name)
        repository, image = found.get("repository", ""), found.get("image", "")
        return f"{repository}/{image}:{found.get('version', '')}"

    def env(self, name: str) -> dict[str, str]:
        """Variables that the policy adds to a part."""
        return {
            one["name"]: str(one.get("value", "")) for one in self.section(name).get("env") or ()
        }

    def validator_env(self, step: str) -> dict[str, str]:
        """Variables that the policy adds to a step of the validator."""
        found = self.section("validator").get(step) or {}
        return {one["name"]: str(one.get("value", "")) for one in found.get("env") or ()}

    @property
    def device_list_strategy(self) -> tuple[str, ...]:
        """How the device plugin hands devices to the kubelet."""
        own = self.env("devicePlugin").get("DEVICE_LIST_STRATEGY", "")
        if self.has("cdi"):
            if self.line < CDI_REWORKED_SINCE:
                return ("envvar", "cdi-annotations")
            # Since then the policy's own variables come last.
            return tuple(own.split(",")) if own else ("cdi-annotations", "cdi-cri")
        return tuple(own.split(",")) if own else ("envvar",)
