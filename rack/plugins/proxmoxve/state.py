"""From PVE's VM configuration to the properties of a VmLegacy.

Everything PVE knows is read from PVE. Only what PVE has no place for (time-outs, what to do on
destroy, where an image came from) is taken from the state before; when there is none, as in an
import, it has its default.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rack.plugins.contract import Plain
from rack.plugins.proxmoxve import cloudinit, disks
from rack.plugins.proxmoxve import devices as table
from rack.plugins.proxmoxve.codec import Fields, decode, parse
from rack.plugins.proxmoxve.options import SCHEMA, block_of

TOKEN: Final = "proxmoxve:index/vmLegacy:VmLegacy"  # noqa: S105 - a type's token, no secret
INPUTS: Final = SCHEMA.resources[TOKEN].inputs
PLUGIN_ONLY: Final = (
    "clone",
    "deleteUnreferencedDisksOnDestroy",
    "migrate",
    "purgeOnDestroy",
    "reboot",
    "rebootAfterUpdate",
    "stopOnDestroy",
    *(name for name in INPUTS if name.startswith("timeout")),
)
"""Properties that PVE has no place for."""

DEFAULT_CDROM: Final = "ide3"
MAC: Final = re.compile(r"(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}")


@dataclass(frozen=True)
class Observed:
    """What the API says about one VM."""

    vm_id: int
    node: str
    config: Mapping[str, str]
    running: bool
    pool: str = ""
    addresses: tuple[Plain, ...] = ()
    """The guest agent's network interfaces, when it answered."""


def as_text(config: Mapping[str, Any]) -> dict[str, str]:
    """Return a configuration with every value as text; PVE gives some options as numbers."""
    return {name: str(value) for name, value in config.items()}


def properties(vm: Observed, current: Plain, format_of: disks.FormatOf) -> Plain:
    """Return all properties of the VM. `current` is the state before, empty in an import."""
    config = dict(vm.config)
    found: Plain = {
        "vmId": vm.vm_id,
        "nodeName": vm.node,
        **decode(table.SCALARS, config),
        "started": vm.running,
        "template": config.get("template") == "1",
        "poolId": vm.pool,
        "bootOrders": parse(config.get("boot", "")).get("order", "").split(";"),
        "tags": sorted(tag.strip() for tag in re.split(r"[;, ]", config.get("tags", "")) if tag),
        "disks": disks.blocks(config, current.get("disks") or [], format_of),
        **_lists(config),
        **_blocks(config, vm.vm_id, current, format_of),
        **_addresses(vm, config),
    }
    if found["bootOrders"] == [""]:
        found["bootOrders"] = []
    if found["template"]:
        found["started"] = current.get("started", True)
    found |= {name: current.get(name, INPUTS[name].default) for name in PLUGIN_ONLY}
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def inputs_of(outputs: Plain) -> Plain:
    """Return the inputs that would make what `outputs` describe, for an import."""
    return {
        name: value
        for name, value in outputs.items()
        if name in INPUTS and name != "macAddresses" and value != INPUTS[name].default
    }


def _lists(config: Mapping[str, str]) -> Plain:
    numbered: dict[str, tuple[str, Callable[[str], Plain]]] = {
        "networkDevices": ("net", _network),
        "rngs": ("rng", lambda text: decode(table.RNG, parse(text, "source"))),
        "serialDevices": ("serial", lambda text: {"device": text}),
        "usbs": ("usb", lambda text: decode(table.USB, parse(text, "host"))),
        "virtiofs": ("virtiofs", lambda text: decode(table.VIRTIOFS, parse(text, "dirid"))),
    }
    lists = {
        name: [read(config[option]) for option in _numbered(config, prefix)]
        for name, (prefix, read) in numbered.items()
    }
    return {
        **lists,
        "hostpcis": _named(config, "hostpci", table.HOSTPCI, "host"),
        "numas": _named(config, "numa", table.NUMA, "cpus"),
    }


def _numbered(config: Mapping[str, str], prefix: str) -> list[str]:
    """Return the options `prefix0`, `prefix1`, … that are there, in the order of their names.

    The official provider sorts them as text, so a program that lists PCI devices in another order
    sees a difference for ever.
    """
    return sorted(name for name in config if re.fullmatch(rf"{prefix}\d+", name))


def _named(config: Mapping[str, str], prefix: str, fields: Fields, first: str) -> list[Plain]:
    return [
        {"device": option, **decode(fields, parse(config[option], first))}
        for option in _numbered(config, prefix)
    ]


def _network(text: str) -> Plain:
    pairs = parse(text, "model")
    model, mac = pairs.get("model", ""), pairs.get("macaddr", "")
    for key, value in pairs.items():
        # PVE writes `virtio=BC:24:11:…`: the model is the key of the address.
        if MAC.fullmatch(value) and key != "macaddr":
            model, mac = key, value
    return {"model": model, "macAddress": mac, "enabled": True, **decode(table.NETWORK, pairs)}


def _blocks(config: dict[str, str], vm_id: int, current: Plain, format_of: disks.FormatOf) -> Plain:
    read: dict[str, Plain | None] = {
        "agent": _agent(config, current),
        "cpu": {
            **decode(table.CPU, config),
            **decode(table.CPU_MODEL, parse(config.get("cpu", "qemu64"), "cputype")),
        },
        "memory": _memory(config),
        "operatingSystem": decode(table.OPERATING_SYSTEM, config),
        "watchdog": _optional(config, "watchdog", table.WATCHDOG, "model", {"enabled": True}),
        "amdSev": _optional(config, "amd-sev", table.AMD_SEV, "type"),
        "audioDevice": _optional(config, "audio0", table.AUDIO, "device", {"enabled": True}),
        "cdrom": _cdrom(config, current),
        "efiDisk": _volume(config, "efidisk0", table.EFI_DISK, format_of),
        "tpmState": _volume(config, "tpmstate0", table.TPM, None),
        "initialization": cloudinit.block(config, vm_id),
        "smbios": _smbios(config, current),
        "startup": _optional(config, "startup", table.STARTUP, "order"),
        "vga": _optional(config, "vga", table.VGA, "type"),
    }
    return {name: block for name, block in read.items() if _belongs(name, block, current)}


def _belongs(name: str, block: Plain | None, current: Plain) -> bool:
    """Tell whether a block belongs into the state: it was there, or it is not just the default."""
    if block is None:
        return False
    if current.get(name):
        return True
    default = block_of({}, name)
    return any(value != default.get(key) for key, value in block.items() if value)


def _optional(
    config: Mapping[str, str], option: str, fields: Fields, first: str, extra: Plain | None = None
) -> Plain | None:
    if option not in config:
        return None
    return {**decode(fields, parse(config[option], first)), **(extra or {})}


def _agent(config: Mapping[str, str], current: Plain) -> Plain:
    was = block_of(current, "agent")
    kept = {name: was[name] for name in ("timeout", "waitForIp") if was.get(name)}
    return {**decode(table.AGENT, parse(config.get("agent", "0"), "enabled")), **kept}


def _memory(config: Mapping[str, str]) -> Plain:
    size = parse(config.get("memory", "512"), "current")
    shared = parse(config.get("ivshmem", "")).get("size", "0")
    memory = decode(table.MEMORY, {**config, "memory": size["current"]})
    return {**memory, "shared": int(shared)}


def _cdrom(config: Mapping[str, str], current: Plain) -> Plain | None:
    was = current.get("cdrom") or {}
    interface = was.get("interface") or DEFAULT_CDROM
    pairs = parse(config.get(interface, ""), "file")
    if pairs.get("media") != "cdrom" or "cloudinit" in pairs["file"]:
        return None
    empty = was and not was.get("fileId")
    return {"interface": interface, **({} if empty else {"fileId": pairs["file"]})}


def _volume(
    config: Mapping[str, str], option: str, fields: Fields, format_of: disks.FormatOf | None
) -> Plain | None:
    if option not in config:
        return None
    pairs = parse(config[option], "file")
    block = {"datastoreId": pairs["file"].partition(":")[0], **decode(fields, pairs)}
    if format_of and "fileFormat" not in block and (found := format_of(pairs["file"])):
        block["fileFormat"] = found
    return block


def _smbios(config: Mapping[str, str], current: Plain) -> Plain | None:
    pairs = parse(config.get("smbios1", ""))
    texts = decode(table.SMBIOS_TEXTS, pairs)
    # PVE gives every VM a UUID: alone it is not the program's block.
    if not texts and not current.get("smbios"):
        return None
    if pairs.get("base64") == "1":
        texts = {name: _base64_text(text) for name, text in texts.items()}
    return {**texts, "uuid": pairs.get("uuid", "")}


def _base64_text(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return text


def _addresses(vm: Observed, config: Mapping[str, str]) -> Plain:
    if vm.addresses:
        return {
            "networkInterfaceNames": [nic.get("name", "") for nic in vm.addresses],
            "macAddresses": [nic.get("hardware-address", "").upper() for nic in vm.addresses],
            "ipv4Addresses": [_of_family(nic, "ipv4") for nic in vm.addresses],
            "ipv6Addresses": [_of_family(nic, "ipv6") for nic in vm.addresses],
        }
    cards = [_network(config[option]) for option in _numbered(config, "net")]
    return {"macAddresses": [card["macAddress"] for card in cards]}


def _of_family(nic: Plain, family: str) -> list[str]:
    found = nic.get("ip-addresses") or []
    return [ip["ip-address"] for ip in found if ip.get("ip-address-type") == family]
