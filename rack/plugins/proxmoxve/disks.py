"""The disks of a VM: how they are written, read, and changed in place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from rack.plugins.contract import Plain, PluginError
from rack.plugins.proxmoxve import devices as table
from rack.plugins.proxmoxve.codec import decode, encode, parse, unparse

INTERFACE: Final = re.compile(r"(ide|sata|scsi|virtio)\d+")
UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
SUPPORTS: Final = {
    "ssd": ("ide", "sata", "scsi"),
    "iothread": ("scsi", "virtio"),
    "queues": ("scsi",),
}
"""Options that only some kinds of interface have."""

FormatOf = Callable[[str], str | None]
"""Asks the storage for the format of a volume; None when the volume is gone."""


def new(disk: Plain) -> str:
    """Return the option of a disk that does not exist yet: allocate it, or import an image."""
    if disk.get("fileId"):
        raise PluginError(
            f"disk {disk['interface']}: `fileId` is imported over SSH to the Proxmox host, and the"
            " simulated rack has no SSH. Use `importFrom` with a file of content type import"
        )
    size = "0" if disk.get("importFrom") else str(disk["size"])
    pairs: dict[str, str | None] = {
        "file": f"{disk['datastoreId']}:{disk.get('pathInDatastore') or size}",
        "import-from": disk.get("importFrom") or None,
        "format": disk.get("fileFormat") or None,
    }
    return unparse({**pairs, **_settings(disk)})


def existing(disk: Plain, live: str) -> str:
    """Return the option that gives the settings of `disk` to the volume of the option `live`."""
    pairs = parse(live, "file")
    kept: dict[str, str | None] = {key: pairs.get(key) for key in ("file", "format", "size")}
    return unparse({**kept, **_settings(disk)})


def _settings(disk: Plain) -> dict[str, str]:
    kind = disk["interface"].rstrip("0123456789")
    written = {**encode(table.DISK, disk), **encode(table.DISK_SPEED, disk.get("speed") or {})}
    if "queues" in written and kind not in SUPPORTS["queues"]:
        raise PluginError(
            f"disk queues are only supported for SCSI disks, but disk interface was "
            f"{disk['interface']}"
        )
    return {
        key: value for key, value in written.items() if key not in SUPPORTS or kind in SUPPORTS[key]
    }


def settings_changed(was: Plain, now: Plain) -> bool:
    """Tell whether the options of a disk changed that its volume's move or growth does not."""
    return _settings(was) != _settings(now)


def gibibytes(size: str) -> int:
    """Read a size of PVE (`20G`, `528K`), rounded up to whole GiB."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", size)
    if not match:
        return 0
    return -int(-float(match[1]) * UNITS[match[2]] // UNITS["G"])


def of_config(config: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the disks of a VM's configuration: interface → its property string, split."""
    found = {}
    for interface, text in config.items():
        if INTERFACE.fullmatch(interface):
            pairs = parse(text, "file")
            is_drive = pairs.get("media") == "cdrom" or "cloudinit" in pairs["file"]
            if not is_drive and pairs["file"] != "none":
                found[interface] = pairs
    return found


def blocks(config: Mapping[str, str], current: list[Plain], format_of: FormatOf) -> list[Plain]:
    """Read the `disks` of a VM, in the order of the state `current`, new ones after them."""
    known = {disk["interface"]: disk for disk in current}
    found = of_config(config)
    order = [name for name in known if name in found] + sorted(set(found) - set(known))
    return [_block(name, found[name], known.get(name, {}), format_of) for name in order]


def _block(interface: str, pairs: Mapping[str, str], was: Plain, format_of: FormatOf) -> Plain:
    storage, separator, path = pairs["file"].partition(":")
    disk: dict[str, Any] = {
        "interface": interface,
        "datastoreId": storage if separator else "",
        "pathInDatastore": path if separator else storage,
        "size": gibibytes(pairs.get("size", "0")),
        **decode(table.DISK, pairs),
    }
    if file_format := pairs.get("format") or format_of(pairs["file"]):
        disk["fileFormat"] = file_format
    if any(field.key in pairs for field in table.DISK_SPEED):
        disk["speed"] = decode(table.DISK_SPEED, pairs)
    # PVE keeps no trace of where an image came from: only the state knows.
    disk |= {name: was[name] for name in ("importFrom", "fileId") if was.get(name)}
    return disk
