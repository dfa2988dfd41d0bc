"""What one GPU does at one moment, read from either source."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from gpu_passthrough.watch.prometheus import parse

Source = Literal["dcgm", "nvidia-smi"]
_PREFIX: Final = "DCGM_FI_DEV_"
_READ: Final = ("GPU_UTIL", "FB_USED", "FB_FREE", "FB_RESERVED", "GPU_TEMP", "POWER_USAGE")
QUERY: Final = (
    "uuid",
    "name",
    "pci.bus_id",
    "utilization.gpu",
    "memory.used",
    "memory.total",
    "temperature.gpu",
    "power.draw",
)
"""What nvidia-smi is asked for, in this order."""
SMI: Final = ("nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits")


@dataclass(frozen=True)
class GpuSample:
    """One GPU; a value is None where its source does not tell it."""

    node: str
    uuid: str
    name: str
    """Product name as the driver reports it."""
    bus_id: str
    """PCI address in the node, for example 00000000:01:00.0."""
    source: Source
    pods: tuple[str, ...] = ()
    """Who holds the card, as namespace/pod; several where it is shared, none where it is free."""
    index: int | None = None
    """The driver's number on the node; a container numbers its own cards, so nvidia-smi has none.
    """
    utilisation: float | None = None
    """Per cent of the last moment in which a kernel ran."""
    used_mib: float | None = None
    total_mib: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None


def from_dcgm(text: str, node: str) -> list[GpuSample]:
    """The GPUs in the metrics of a node's DCGM exporter.

    Slices of MIG count as their card: their series carry the card's UUID.

    Raises:
        MetricsError: the text is none of Prometheus' format.
    """
    cards: dict[str, GpuSample] = {}
    values: dict[str, dict[str, float]] = {}
    for name, labels, value in parse(text):
        uuid = labels.get("UUID", "")
        if not name.startswith(_PREFIX) or not uuid:
            continue
        cards[uuid] = merged([*([cards[uuid]] if uuid in cards else []), _card(labels, node)])[0]
        metric = name.removeprefix(_PREFIX)
        if metric in _READ and math.isfinite(value):
            values.setdefault(uuid, {})[metric] = value
    return [_with_values(card, values.get(uuid, {})) for uuid, card in cards.items()]


def _card(labels: dict[str, str], node: str) -> GpuSample:
    pod, namespace = labels.get("pod", ""), labels.get("namespace", "")
    number = labels.get("gpu", "")
    return GpuSample(
        node=node,
        uuid=labels["UUID"],
        name=labels.get("modelName", ""),
        bus_id=labels.get("pci_bus_id", ""),
        source="dcgm",
        pods=(f"{namespace}/{pod}",) if pod else (),
        index=int(number) if number.isdecimal() else None,
    )


def _with_values(card: GpuSample, values: dict[str, float]) -> GpuSample:
    used, free = values.get("FB_USED"), values.get("FB_FREE")
    total = None
    if used is not None and free is not None:
        total = used + free + values.get("FB_RESERVED", 0.0)
    return replace(
        card,
        utilisation=values.get("GPU_UTIL"),
        used_mib=used,
        total_mib=total,
        temperature_c=values.get("GPU_TEMP"),
        power_w=values.get("POWER_USAGE"),
    )


def from_smi(text: str, node: str, pod: str) -> list[GpuSample]:
    """The GPUs that nvidia-smi listed in a pod that holds them.

    Raises:
        ValueError: the text is something else; it says what.
    """
    found = []
    for line in text.strip().splitlines():
        fields = [one.strip() for one in line.split(",")]
        if len(fields) != len(QUERY) or not fields[0].startswith("GPU-"):
            raise ValueError(f"nvidia-smi answered {line.strip()[:120]!r}")
        uuid, name, bus_id = fields[:3]
        values = [_number(one) for one in fields[3:]]
        found.append(GpuSample(node, uuid, name, bus_id, "nvidia-smi", (pod,), None, *values))
    if not found:
        raise ValueError("nvidia-smi answered nothing")
    return found


def _number(text: str) -> float | None:
    """A value; None for what the card does not have, such as [N/A]."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def merged(samples: Iterable[GpuSample]) -> list[GpuSample]:
    """Each GPU once, in the order of nodes and cards.

    The first sample of a card stays, with every pod that any of them names.
    """
    cards: dict[str, GpuSample] = {}
    for one in samples:
        first = cards.setdefault(one.uuid, one)
        pods = tuple(dict.fromkeys([*first.pods, *one.pods]))
        cards[one.uuid] = replace(first, pods=pods)
    return sorted(cards.values(), key=lambda one: (one.node, one.bus_id.lower(), one.uuid))
