"""The `initialization` block of a VM: cloud-init options and the drive that carries them."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote, unquote

from rack.plugins.contract import Plain
from rack.plugins.proxmoxve.codec import Field, Fields, decode, encode, parse, unparse

DEFAULT_INTERFACE: Final = "ide2"
IPV4: Final[Fields] = (Field("address", "ip"), Field("gateway", "gw"))
IPV6: Final[Fields] = (Field("address", "ip6"), Field("gateway", "gw6"))
CUSTOM_FILES: Final[Fields] = (
    Field("userDataFileId", "user"),
    Field("vendorDataFileId", "vendor"),
    Field("networkDataFileId", "network"),
    Field("metaDataFileId", "meta"),
)
ACCOUNT: Final[Fields] = (Field("username", "ciuser"), Field("password", "cipassword"))
DNS: Final[Fields] = (Field("domain", "searchdomain"),)
GENERAL: Final[Fields] = (Field("type", "citype"),)
MAX_NETWORK_DEVICES: Final = 32


def options(initialization: Plain | None) -> dict[str, str]:
    """Return the PVE options of an `initialization` block, its drive included."""
    if not initialization:
        return {}
    dns = initialization.get("dns") or {}
    account = initialization.get("userAccount") or {}
    written = {
        **encode(GENERAL, initialization),
        **encode(DNS, dns),
        **encode(ACCOUNT, {**account, "password": _real_password(account.get("password"))}),
        **_addresses(initialization.get("ipConfigs") or []),
    }
    if dns.get("servers"):
        written["nameserver"] = " ".join(dns["servers"])
    if account.get("keys"):
        written["sshkeys"] = quote("\n".join(key.strip() for key in account["keys"]), safe="")
    if initialization.get("upgrade") is not None:
        written["ciupgrade"] = str(int(initialization["upgrade"]))
    if custom := encode(CUSTOM_FILES, initialization):
        written["cicustom"] = unparse(custom)
    drive = {
        "file": f"{initialization['datastoreId']}:cloudinit",
        "format": initialization.get("fileFormat"),
    }
    return {**written, (initialization.get("interface") or DEFAULT_INTERFACE): unparse(drive)}


def _addresses(configs: list[Plain]) -> dict[str, str]:
    return {
        f"ipconfig{index}": unparse(pairs)
        for index, config in enumerate(configs)
        if (
            pairs := encode(IPV4, config.get("ipv4") or {}) | encode(IPV6, config.get("ipv6") or {})
        )
    }


def is_masked(password: Any) -> bool:
    """Tell whether a password is the row of asterisks that PVE shows instead of it."""
    return isinstance(password, str) and password != "" and not password.strip("*")


def _real_password(password: Any) -> Any:
    return None if is_masked(password) else password


def drive_of(config: dict[str, str], vm_id: int) -> tuple[str, dict[str, str]] | None:
    """Find the cloud-init drive of a VM: its interface and its property string, split."""
    for interface, text in config.items():
        if re.fullmatch(r"(ide|sata|scsi)\d+", interface):
            pairs = parse(text, "file")
            if f"vm-{vm_id}-cloudinit" in pairs["file"] or pairs["file"].endswith(":cloudinit"):
                return interface, pairs
    return None


def block(config: dict[str, str], vm_id: int) -> Plain | None:
    """Read the `initialization` block of a VM; None when it has nothing of the kind."""
    found: Plain = {**decode(GENERAL, config), **_files(config)}
    if drive := drive_of(config, vm_id):
        interface, pairs = drive
        storage, _, path = pairs["file"].partition(":")
        found |= {"interface": interface, "datastoreId": storage}
        extension = path.rpartition(".")[2] if "." in path else ""
        if file_format := pairs.get("format") or extension:
            found["fileFormat"] = file_format
    if dns := _dns(config):
        found["dns"] = dns
    if addresses := _ip_configs(config):
        found["ipConfigs"] = addresses
    if account := _account(config):
        found["userAccount"] = account
    if not found:
        return None
    return {**found, "upgrade": config.get("ciupgrade", "1") == "1"}


def _files(config: dict[str, str]) -> Plain:
    return decode(CUSTOM_FILES, parse(config["cicustom"])) if "cicustom" in config else {}


def _dns(config: dict[str, str]) -> Plain:
    dns: Plain = decode(DNS, config)
    if "nameserver" in config:
        dns["servers"] = re.split(r"[ ,;]+", config["nameserver"].strip())
    return dns


def _account(config: dict[str, str]) -> Plain:
    account: Plain = decode(ACCOUNT, config)
    if "sshkeys" in config:
        account["keys"] = unquote(config["sshkeys"]).strip().split("\n")
    return account


def _ip_configs(config: dict[str, str]) -> list[Plain]:
    configs: list[Plain] = []
    for index in range(MAX_NETWORK_DEVICES):
        pairs = parse(config.get(f"ipconfig{index}", ""))
        families = {"ipv4": decode(IPV4, pairs), "ipv6": decode(IPV6, pairs)}
        configs.append({family: found for family, found in families.items() if found})
    while configs and not configs[-1]:
        configs.pop()
    return configs
