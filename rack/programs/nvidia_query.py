"""`nvidia-smi --query-gpu`: values of cards as CSV."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Final

from rack.programs.container import Container, Gpu
from rack.programs.process import Process

_INVALID: Final = 2
_Value = Callable[[Gpu, Container], tuple[str, str]]
"""A value of a card, and its unit."""


def _plain(read: Callable[[Gpu], object], unit: str = "") -> _Value:
    return lambda gpu, _: (str(read(gpu)), unit)


def _now(gpu: Gpu, container: Container) -> tuple[str, str]:
    return datetime.datetime.now(datetime.UTC).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3], ""


_FIELDS: Final[dict[str, _Value]] = {
    "compute_cap": _plain(lambda gpu: ".".join(map(str, gpu.compute_capability))),
    "count": lambda _, container: (str(len(container.gpus)), ""),
    "driver_version": lambda _, container: (container.driver_version, ""),
    "ecc.mode.current": _plain(lambda _: "[N/A]"),
    "fan.speed": _plain(lambda _: 0, "%"),
    "index": _plain(lambda gpu: gpu.index),
    "memory.free": _plain(lambda gpu: gpu.memory_mib - gpu.used_mib, "MiB"),
    "memory.total": _plain(lambda gpu: gpu.memory_mib, "MiB"),
    "memory.used": _plain(lambda gpu: gpu.used_mib, "MiB"),
    "mig.mode.current": _plain(lambda _: "[N/A]"),
    "name": _plain(lambda gpu: gpu.name),
    "pci.bus_id": _plain(lambda gpu: gpu.bus_id),
    "persistence_mode": _plain(lambda _: "Disabled"),
    "power.draw": _plain(lambda gpu: f"{gpu.power_w:.2f}", "W"),
    "power.limit": _plain(lambda gpu: f"{gpu.power_limit_w:.2f}", "W"),
    "pstate": _plain(lambda gpu: "P2" if gpu.utilisation else "P8"),
    "temperature.gpu": _plain(lambda gpu: gpu.temperature_c),
    "timestamp": _now,
    "utilization.gpu": _plain(lambda gpu: gpu.utilisation, "%"),
    "utilization.memory": _plain(lambda gpu: gpu.utilisation // 4, "%"),
    "uuid": _plain(lambda gpu: gpu.uuid),
}
_OTHER_NAMES: Final = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "fan": "fan.speed",
}
_HEADINGS: Final = {
    "memory.free": "memory.free [MiB]",
    "memory.total": "memory.total [MiB]",
    "memory.used": "memory.used [MiB]",
    "power.draw": "power.draw [W]",
    "power.limit": "power.limit [W]",
    "fan.speed": "fan.speed [%]",
    "utilization.gpu": "utilization.gpu [%]",
    "utilization.memory": "utilization.memory [%]",
}


def query(process: Process, args: list[str], gpus: list[Gpu]) -> int:
    """Write the fields that --query-gpu names, in the form that --format names."""
    options = dict(_pairs(args))
    names = [one.strip() for one in options.pop("--query-gpu", "").split(",")]
    form = options.pop("--format", "").split(",")
    if options:
        return process.refuse(f"`{min(options)}`")
    if "csv" not in form:
        process.say("\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.")
        return _INVALID
    fields = [_OTHER_NAMES.get(name, name) for name in names]
    for name, field in zip(names, fields, strict=True):
        if field not in _FIELDS:
            process.say(f'Field "{name}" is not a valid field to query.\n')
            return _INVALID
    if "noheader" not in form:
        process.say(", ".join(_HEADINGS.get(field, field) for field in fields))
    for gpu in gpus:
        values = [_FIELDS[field](gpu, process.container) for field in fields]
        process.say(", ".join(_with_unit(value, unit, form) for value, unit in values))
    return 0


def _pairs(args: list[str]) -> list[tuple[str, str]]:
    """Options with their values, which follow after `=` or a space."""
    found = []
    waiting = list(args)
    while waiting:
        name, equals, value = waiting.pop(0).partition("=")
        if not equals and waiting and not waiting[0].startswith("-"):
            value = waiting.pop(0)
        found.append((name, value))
    return found


def _with_unit(value: str, unit: str, form: list[str]) -> str:
    return f"{value} {unit}" if unit and "nounits" not in form else value
