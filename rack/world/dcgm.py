"""DCGM's metrics of one node, as its exporter writes them: a series per counter and GPU.

Names, labels and units are those of dcgm-exporter's default counters. A GPU belongs to the
container to which the kubelet allocated it; a pod that merely sees every GPU holds none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from rack.world.podview import ContainerView, GpuView, PodView

CONTAINER: Final = "nvidia-dcgm-exporter"
PORT: Final = 9400
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
Allocations = Mapping[str, Mapping[str, Sequence[str]]]
"""UUIDs of the GPUs, by the pod's uid and the container's name."""


class _Counter(NamedTuple):
    name: str
    help: str
    value: Callable[[GpuView], int]


_COUNTERS: Final = (
    _Counter("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", lambda gpu: gpu.temperature_c),
    _Counter("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", lambda gpu: gpu.power_w),
    _Counter("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", lambda gpu: gpu.utilisation),
    _Counter(
        "DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %).", lambda gpu: gpu.utilisation // 4
    ),
    _Counter("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.", lambda _: 0),
    _Counter(
        "DCGM_FI_DEV_FB_FREE",
        "Frame buffer memory free (in MB).",
        lambda gpu: gpu.memory_mib - gpu.used_mib,
    ),
    _Counter("DCGM_FI_DEV_FB_USED", "Frame buffer memory used (in MB).", lambda gpu: gpu.used_mib),
)


def metrics(exporter: ContainerView, pods: Sequence[PodView], allocations: Allocations) -> str:
    """The exporter's text.

    Args:
        exporter: the exporter's container; its GPUs are the node's.
        pods: every pod of the node, the exporter's own included.
        allocations: what the kubelet gave to whom.
    """
    cards = [(_busiest(gpu, pods), _labels(gpu, exporter, pods, allocations))
             for gpu in exporter.gpus]  # fmt: skip
    lines: list[str] = []
    for counter in _COUNTERS if cards else ():
        lines += [f"# HELP {counter.name} {counter.help}", f"# TYPE {counter.name} gauge"]
        lines += [f"{counter.name}{{{labels}}} {counter.value(gpu)}" for gpu, labels in cards]
    return "".join(f"{line}\n" for line in lines)


def _busiest(gpu: GpuView, pods: Sequence[PodView]) -> GpuView:
    """The card as the container sees it that uses it most: its values are the card's."""
    views = [
        one
        for pod in pods
        for container in pod.containers.values()
        for one in container.gpus
        if one.uuid == gpu.uuid
    ]
    return max(views, key=lambda one: (one.utilisation, one.used_mib), default=gpu)


def _labels(
    gpu: GpuView, exporter: ContainerView, pods: Sequence[PodView], allocations: Allocations
) -> str:
    holder = next(_holders(gpu.uuid, pods, allocations), ("", "", ""))
    values = {
        "gpu": str(gpu.minor),
        "UUID": gpu.uuid,
        "pci_bus_id": gpu.bus_id,
        "device": f"nvidia{gpu.minor}",
        "modelName": gpu.name,
        "Hostname": exporter.env.get("NODE_NAME") or exporter.hostname,
        "DCGM_FI_DRIVER_VERSION": exporter.driver.version if exporter.driver else "",
        **dict(zip(("container", "namespace", "pod"), holder, strict=True)),
    }
    return ",".join(f'{name}="{_escaped(text)}"' for name, text in values.items())


def _holders(
    uuid: str, pods: Sequence[PodView], allocations: Allocations
) -> Iterator[tuple[str, str, str]]:
    """Container, namespace and pod; of several that share a card, the exporter names one."""
    for pod in pods:
        for container, uuids in allocations.get(pod.uid, {}).items():
            if uuid in uuids:
                yield container, pod.namespace, pod.name


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
