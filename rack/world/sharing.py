"""How the device plugin offers the cards of a node: whole, or each several times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from rack.world.nodefacts import Frozen

RESOURCE: Final = "nvidia.com/gpu"
CONFIG_LABEL: Final = "nvidia.com/device-plugin.config"
"""Label of a node that names its entry in the device plugin's ConfigMap."""


class Sharing(Frozen):
    """Time-slicing of a node's cards; one slot a card is none."""

    replicas: int = 1
    is_renamed: bool = False
    """The slots are offered as nvidia.com/gpu.shared."""
    largest_claim: int | None = None
    """Most slots that one container may claim; None: no limit."""

    @property
    def is_shared(self) -> bool:
        """A card is offered more than once."""
        return self.replicas > 1

    @property
    def resource(self) -> str:
        """Name of what the node offers."""
        return f"{RESOURCE}.shared" if self.is_shared and self.is_renamed else RESOURCE


NO_SHARING: Final = Sharing()


def sharing(
    policy: Mapping[str, Any], config: Mapping[str, str], node_labels: Mapping[str, str]
) -> Sharing:
    """How a node's cards are offered.

    Args:
        policy: the ClusterPolicy, with its `spec`.
        config: data of the ConfigMap that `spec.devicePlugin.config.name` names.
        node_labels: labels of the node; one of them may name an entry.

    """
    named = (policy["spec"].get("devicePlugin") or {}).get("config") or {}
    key = node_labels.get(CONFIG_LABEL) or named.get("default") or ""
    return parse(config[key]) if named.get("name") and key in config else NO_SHARING


def parse(text: str) -> Sharing:
    """Read one entry; what cannot be read shares nothing, as the plugin does not start then."""
    try:
        found = YAML(typ="safe", pure=True).load(text) or {}
    except YAMLError:
        return NO_SHARING
    slicing: Mapping[str, Any] = (found.get("sharing") or {}).get("timeSlicing") or {}
    entries = {one.get("name"): one for one in slicing.get("resources") or ()}
    entry = entries.get(RESOURCE)
    if entry is None:
        return NO_SHARING
    replicas = int(entry.get("replicas", 1))
    is_limited = replicas > 1 and slicing.get("failRequestsGreaterThanOne")
    return Sharing(
        replicas=replicas,
        is_renamed=bool(entry.get("rename") or slicing.get("renameByDefault")),
        largest_claim=1 if is_limited else None,
    )
