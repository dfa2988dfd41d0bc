"""The labels that GPU Feature Discovery puts on a node, computed by GFD's own rule.

Rule: internal/lm/resource.go of NVIDIA/k8s-device-plugin at v0.17.0: characters that a label
cannot hold are dropped from the product's name, words are joined with `-`, memory is NVML's in
MiB. Only NVML's values count: no label is computed for a card whose values are not known.
"""

from __future__ import annotations

import re

from gpu_passthrough import versions
from gpu_passthrough.cards import Card

PREFIX = "nvidia.com/"
PRODUCT = "nvidia.com/gpu.product"

_DROPPED = re.compile(r"[^A-Za-z0-9\-_. ]")
FAMILIES_FIXED = versions.parse("v0.20.0")
"""Before it, Ada Lovelace was labelled ampere and Blackwell undefined."""
MISNAMED = {"ada-lovelace": "ampere", "blackwell": "undefined"}


def product(nvml_name: str, *, shared: bool = False) -> str:
    """The value of nvidia.com/gpu.product; shared: slots are offered under the card's own name."""
    words = _DROPPED.sub("", nvml_name).split()
    return "-".join(words) + ("-SHARED" if shared else "")


def family(card: Card, gfd: str | None) -> str | None:
    """The value of nvidia.com/gpu.family for a GFD version; None where that is not known."""
    name = card.architecture.gfd_family
    if name not in MISNAMED:
        return name
    if gfd is None:
        return None
    return name if versions.parse(gfd) >= FAMILIES_FIXED else MISNAMED[name]


def labels(
    card: Card, count: int, *, gfd: str | None, slots: int = 1, renamed: bool = False
) -> dict[str, str]:
    """The labels of a node with `count` cards of one kind, as far as they are known.

    gfd: version of GFD; slots: how many each card offers; renamed: under a name of their own.
    """
    found = {
        "gpu.count": str(count),
        "gpu.replicas": str(slots),
        "gpu.sharing-strategy": "time-slicing" if slots > 1 else "none",
        "gpu.compute.major": str(card.compute_capability[0]),
        "gpu.compute.minor": str(card.compute_capability[1]),
    }
    if card.nvml_name is not None:
        found["gpu.product"] = product(card.nvml_name, shared=slots > 1 and not renamed)
    if card.nvml_memory_mib is not None:
        found["gpu.memory"] = str(card.nvml_memory_mib)
    if (name := family(card, gfd)) is not None:
        found["gpu.family"] = name
    return {PREFIX + key: value for key, value in found.items()}
