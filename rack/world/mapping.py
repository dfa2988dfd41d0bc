"""PCI resource mappings of the cluster (pve-guest-common, PVE::Mapping::PCI).

A mapping names, for each node, the device it stands for and how it looked when it was written.
Proxmox VE compares that with the live device at every start of a VM.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from pydantic import BaseModel

from rack.world.errors import Refused, invalid
from rack.world.host import Host
from rack.world.pci import PciFunction
from rack.world.propertystring import Format, Key, keys

_PATH: Final = r"[a-f0-9]{4,}:[a-f0-9]{2}:[a-f0-9]{2}(?:\.[a-f0-9])?"
_ID: Final = r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}"
MAP: Final = Format(
    {
        "node": Key(pattern=r"[a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?", required=True),
        "id": Key(pattern=_ID, required=True),
        "path": Key(pattern=f"(?:{_PATH};)*{_PATH}", required=True),
        **keys(
            subsystem_id=Key(pattern=_ID),
            iommugroup=Key("integer"),
            description=Key(longest=4096),
        ),
    }
)


class PciMapping(BaseModel):
    """One mapping. `map` keeps the entries as they were written."""

    map: list[str]
    description: str = ""
    mdev: bool = False

    def entries(self, node: str) -> list[dict[str, str]]:
        """Parsed entries for a node."""
        return [pairs for text in self.map if (pairs := MAP.parse(text))["node"] == node]

    def fields(self) -> dict[str, Any]:
        """What the API says about the mapping; its name is not among it."""
        found: dict[str, Any] = {"type": "pci", "map": list(self.map)}
        if self.description:
            found["description"] = self.description
        if self.mdev:
            found["mdev"] = 1
        return found

    def checks(self, name: str, host: Host) -> list[dict[str, str]]:
        """What is wrong with the mapping on a host: nothing for a valid one."""
        entries = self.entries(host.name)
        if not entries:
            return [{"severity": "warning", "message": f"No mapping for node {host.name}."}]
        found = []
        for entry in entries:
            try:
                self.assert_valid(name, entry, host)
            except Refused as problem:
                message = f"Invalid configuration: {problem.message}"
                found.append({"severity": "error", "message": message})
        return found

    def assert_valid(self, name: str, entry: dict[str, str], host: Host) -> None:
        """Compare an entry with the live device.

        Raises:
            Refused: naming the first property, by alphabet, that differs.
        """
        for index, path in enumerate(entry["path"].split(";")):
            whole_device = "." not in path
            address = f"{path}.0" if whole_device else path
            function = host.function(address)
            if function is None:
                raise Refused(f"pci device '{address}' not found\n")
            expected = _expected(function, host)
            configured: dict[str, str | None] = {
                "id": entry["id"],
                "iommugroup": entry.get("iommugroup"),
                "subsystem-id": entry.get("subsystem-id"),
                "mdev": str(int(self.mdev)),
            }
            if index:
                # PVE looks at the group of the first path only.
                expected.pop("iommugroup")
            for key in sorted(expected):
                _compare(key, name, address, expected[key], configured[key])


def _expected(function: PciFunction, host: Host) -> dict[str, str | None]:
    group = host.group_of(function)
    return {
        "id": function.id,
        "iommugroup": str(group) if group >= 0 else None,
        "subsystem-id": function.subsystem_id or None,
        "mdev": "0",
    }


def _compare(
    key: str, name: str, address: str, expected: str | None, configured: str | None
) -> None:
    if expected is None and configured is None:
        return
    if configured is None:
        raise Refused(f"missing expected property '{key}' for device '{address}'\n")
    if expected is None:
        raise Refused(f"unexpected property '{key}' configured for device '{address}'\n")
    if expected != configured.replace("0x", ""):
        raise Refused(f"'{key}' does not match for '{name}' ({expected} != {configured})\n")


def check_map(entries: list[str]) -> None:
    """Refuse entries that are not written as PVE wants them, before anything is stored."""
    for number, text in enumerate(entries):
        try:
            MAP.parse(text)
        except Refused as problem:
            error = invalid()
            error.errors[f"map[{number}]"] = f"invalid format - {problem.message}"
            raise error from None


def digest(mappings: dict[str, PciMapping]) -> str:
    """SHA-1 of all mappings: changes with any of them."""
    text = "".join(f"{name}{mappings[name].model_dump_json()}" for name in sorted(mappings))
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
