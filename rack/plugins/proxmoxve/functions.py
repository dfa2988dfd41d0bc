"""The functions of the plugin: questions to the host that change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from rack.plugins.contract import Plain
from rack.plugins.proxmoxve.client import Client
from rack.plugins.proxmoxve.mapping import outputs_of

Function = Callable[[Client, Plain], Plain]

PCI_DEVICE: Final = {
    "id": ("id", ""),
    "class": ("class", ""),
    "device": ("device", ""),
    "deviceName": ("device_name", ""),
    "iommuGroup": ("iommugroup", -1),
    "subsystemDevice": ("subsystem_device", ""),
    "subsystemDeviceName": ("subsystem_device_name", ""),
    "subsystemVendor": ("subsystem_vendor", ""),
    "subsystemVendorName": ("subsystem_vendor_name", ""),
    "vendor": ("vendor", ""),
    "vendorName": ("vendor_name", ""),
}
"""Property of a PCI device → its name in the API, and what it is when the API leaves it out."""

PCI_FILTERS: Final = {"id": "id", "class": "class", "vendorId": "vendor", "deviceId": "device"}


def get_version(client: Client, arguments: Plain) -> Plain:
    """Return the version of Proxmox VE."""
    version = client.get("/version")
    return {
        "id": "version",
        "release": version["release"],
        "repositoryId": version["repoid"],
        "version": version["version"],
    }


def get_node(client: Client, arguments: Plain) -> Plain:
    """Return processors, memory (bytes) and uptime (seconds) of one node."""
    name = arguments["nodeName"]
    status = client.get(f"/nodes/{name}/status")
    processor, memory = status.get("cpuinfo") or {}, status.get("memory") or {}
    return {
        "id": name,
        "nodeName": name,
        "cpuCores": processor.get("cores", 1),
        "cpuCount": processor.get("cpus", 1),
        "cpuModel": processor.get("model", ""),
        "cpuSockets": processor.get("sockets", 1),
        "cpuUtilization": round(status.get("cpu", 0), 2),
        "memoryAvailable": memory.get("free", 0),
        "memoryTotal": memory.get("total", 0),
        "memoryUsed": memory.get("used", 0),
        "uptime": status.get("uptime", 0),
    }


def get_nodes(client: Client, arguments: Plain) -> Plain:
    """Return all nodes of the cluster, one list per property, in the order of their names."""
    nodes = sorted(client.get("/nodes"), key=lambda node: str(node["node"]))
    columns: dict[str, tuple[str, Any]] = {
        "cpuCounts": ("maxcpu", 1),
        "memoryAvailables": ("maxmem", 0),
        "memoryUseds": ("mem", 0),
        "names": ("node", ""),
        "sslFingerprints": ("ssl_fingerprint", ""),
        "supportLevels": ("level", ""),
        "uptimes": ("uptime", 0),
    }
    return {
        "id": "nodes",
        "onlines": [node.get("status") == "online" for node in nodes],
        "cpuUtilizations": [round(node.get("cpu", 0), 2) for node in nodes],
        **{
            name: [node.get(key, absent) for node in nodes]
            for name, (key, absent) in columns.items()
        },
    }


def get_pci(client: Client, arguments: Plain) -> Plain:
    """Return the PCI devices of a node; filters match prefixes, hex with or without `0x`."""
    classes = arguments.get("pciClassBlacklists")
    blacklist = None if classes is None else ";".join(classes)
    path = f"/nodes/{arguments['nodeName']}/hardware/pci"
    devices = client.get(path, **{"pci-class-blacklist": blacklist})
    filters = arguments.get("filters") or {}
    return {
        **arguments,
        "id": arguments["nodeName"],
        "devices": [_pci_device(device) for device in devices if _matches(device, filters)],
    }


def _pci_device(device: Mapping[str, Any]) -> Plain:
    found = {name: device.get(key, absent) for name, (key, absent) in PCI_DEVICE.items()}
    return {**found, "mdev": bool(device.get("mdev", 0))}


def _matches(device: Mapping[str, Any], filters: Plain) -> bool:
    return all(
        _hex(str(device.get(PCI_FILTERS[name], ""))).startswith(_hex(prefix))
        for name, prefix in filters.items()
    )


def _hex(text: str) -> str:
    return text.lower().removeprefix("0x")


def get_mappings(client: Client, arguments: Plain) -> Plain:
    """Return the names of all mappings of a type, and what is wrong with them on a node."""
    kind, node = arguments["type"], arguments.get("checkNode")
    mappings = client.get(f"/cluster/mapping/{kind}", **{"check-node": node})
    checks = [
        {
            "mappingId": mapping["id"],
            "severity": check["severity"],
            "message": check["message"].removesuffix("\n"),
        }
        for mapping in sorted(mappings, key=lambda mapping: str(mapping["id"]))
        for check in mapping.get("checks") or []
    ]
    ids = sorted(str(mapping["id"]) for mapping in mappings)
    return {**arguments, "id": f"hardware_mapping_{kind}", "ids": ids, "checks": checks}


def get_pci_mapping(client: Client, arguments: Plain) -> Plain:
    """Return one PCI mapping; what it leaves out is empty, an unset IOMMU group -1."""
    name = arguments["name"]
    mapping = outputs_of(client, name)
    absent: Plain = {"comment": "", "subsystemId": "", "iommuGroup": -1}
    maps = [{**absent, **entry} for entry in mapping["maps"]]
    return {"comment": "", **mapping, "maps": maps, "id": name}


FUNCTIONS: Final[Mapping[str, Function]] = {
    "proxmoxve:index/getVersion:getVersion": get_version,
    "proxmoxve:index/getNodeLegacy:getNodeLegacy": get_node,
    "proxmoxve:index/getNodesLegacy:getNodesLegacy": get_nodes,
    "proxmoxve:hardware/getPci:getPci": get_pci,
    "proxmoxve:hardware/getMappings:getMappings": get_mappings,
    "proxmoxve:hardware/mapping/getPci:getPci": get_pci_mapping,
}
