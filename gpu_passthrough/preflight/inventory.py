"""The NVIDIA cards of the hosts as entries of a stack file, from the live PCI bus.

A stack file that lacks them cannot be judged yet, so this reads nothing of it but the way in.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from gpu_passthrough import cards, load, stackfile, wording
from gpu_passthrough.config import Proxmox
from gpu_passthrough.preflight.client import Client
from gpu_passthrough.preflight.devices import Device, entry, identity
from gpu_passthrough.problems import ConfigurationError, Problem

NVIDIA: Final = "0x10de"
DISPLAY: Final = "0x03"
"""Class of graphics cards and 3D controllers."""


def site_of(file: Path) -> Proxmox:
    """The way to Proxmox VE that a stack file says, whatever else is wrong with the file.

    Raises:
        ConfigurationError: it says none, or a wrong one.
    """
    values = load.merge(load.defaults(file.parent), stackfile.read(file).values).get("proxmox")
    if values is None:
        text = "The stack has no section proxmox: it builds no VMs."
        raise ConfigurationError([Problem(("proxmox",), text, rule="start", file=file.name)])
    try:
        return Proxmox.model_validate(values)
    except ValidationError as error:
        found = [
            wording.problem({**one, "loc": ("proxmox", *one["loc"])}) for one in error.errors()
        ]
        raise ConfigurationError(found) from None


def devices(client: Client) -> Iterator[str]:
    """Lines of YAML for each host: its cards, and what else is in their IOMMU groups."""
    for host in sorted(str(one["node"]) for one in client.get("nodes")):
        yield f"# host {host}"
        found: list[Device] = client.get(f"nodes/{host}/hardware/pci?pci-class-blacklist=")
        graphics = [one for one in found if _is_card(one)]
        yield "gpus:" if graphics else "# no NVIDIA card"
        for function in graphics:
            yield from _entry(function, found)


def _is_card(function: Device) -> bool:
    vendor, kind = function.get("vendor"), str(function.get("class", ""))
    return vendor == NVIDIA and kind.startswith(DISPLAY)


def _entry(function: Device, found: list[Device]) -> Iterator[str]:
    known = cards.of_device(identity(function))
    seen = function.get("device_name", "without a name")
    names = " or ".join(one.name for one in known) or "UNKNOWN"
    yield f"  - card: {names}  # {seen}"
    yield from (f"    {key}: {value}" for key, value in entry(function).items())
    yield f"    # in this IOMMU group: {', '.join(_members(function, found))}"


def _members(function: Device, found: list[Device]) -> list[str]:
    group: Any = function.get("iommugroup", -1)
    if group == -1:
        return ["none, the IOMMU is off"]
    return [str(one["id"]) for one in found if one.get("iommugroup") == group]
