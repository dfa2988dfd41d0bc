"""Hosts: their state, PCI devices, networks, and what a URL offers them."""

from __future__ import annotations

from typing import Any, Final

from rack.proxmox.endpoints import BOOLEAN, Call, any_on, endpoint, on
from rack.world.errors import Refused, forbidden
from rack.world.host import Host
from rack.world.pci import HIDDEN_CLASSES, PciFunction
from rack.world.propertystring import Key, split_list

MIB: Final = 1 << 20
HOST_MEMORY_MIB: Final = 2048
"""Memory that the host itself uses, in MiB."""

URL: Final = Key(pattern="https?://.*", required=True)


def used_memory(call: Call, host: Host) -> int:
    """Bytes that host and running VMs use."""
    guests = sum(vm.memory_mib for vm in call.world.vms_of(host.name) if vm.is_running)
    return (HOST_MEMORY_MIB + guests) * MIB


def node_summary(call: Call, host: Host) -> dict[str, Any]:
    """What lists say about a host."""
    disk = host.storages.get("local")
    return {
        "id": f"node/{host.name}",
        "type": "node",
        "node": host.name,
        "status": "online",
        "level": "",
        "cpu": 0.01,
        "maxcpu": host.cpus,
        "mem": used_memory(call, host),
        "maxmem": host.memory_mib * MIB,
        "disk": disk.used if disk else 0,
        "maxdisk": disk.total if disk else 0,
        "uptime": int(call.now - host.booted_at),
    }


@endpoint("GET", "/nodes")
def index(call: Call) -> Any:
    """Hosts of the cluster."""
    return [node_summary(call, host) for host in call.world.hosts.values()]


@endpoint("GET", "/nodes/{node}/status", on("/nodes/{node}", "Sys.Audit"))
def status(call: Call) -> Any:
    """Processors, memory, disk and versions of a host; sizes in bytes."""
    host = call.host
    total, used = host.memory_mib * MIB, used_memory(call, host)
    disk = host.storages.get("local")
    root = {
        "total": disk.total if disk else 0,
        "used": disk.used if disk else 0,
        "avail": disk.total - disk.used if disk else 0,
        "free": disk.total - disk.used if disk else 0,
    }
    return {
        "uptime": int(call.now - host.booted_at),
        "cpu": 0.01,
        "wait": 0,
        "idle": 0,
        "loadavg": ["0.08", "0.05", "0.01"],
        "cpuinfo": {
            "model": host.cpu_model,
            "cores": host.cpus // 2,
            "cpus": host.cpus,
            "sockets": 1,
            "mhz": "3400.000",
            "hvm": "1",
            "user_hz": 100,
            "flags": "svm",
        },
        "memory": {"total": total, "used": used, "free": total - used, "available": total - used},
        "swap": {"total": 0, "used": 0, "free": 0},
        "rootfs": root,
        "ksm": {"shared": 0},
        "pveversion": "pve-manager/9.0.11/simulated-rack",
        "kversion": "Linux 6.14.11-4-pve #1 SMP PREEMPT_DYNAMIC",
        "current-kernel": {
            "sysname": "Linux",
            "release": "6.14.11-4-pve",
            "version": "#1 SMP PREEMPT_DYNAMIC",
            "machine": "x86_64",
        },
        "boot-info": {"mode": "efi", "secureboot": 0},
    }


@endpoint(
    "GET",
    "/nodes/{node}/hardware/pci",
    any_on("/", "Sys.Audit", "Sys.Modify"),
    parameters={"pci-class-blacklist": Key(), "verbose": BOOLEAN},
)
def pci(call: Call) -> Any:
    """PCI functions; without being asked, PVE hides memory, bridges and processors."""
    host = call.host
    hidden: tuple[str, ...] = HIDDEN_CLASSES
    if "pci-class-blacklist" in call.values:
        hidden = tuple(split_list(call.text("pci-class-blacklist")))
    verbose = call.flag("verbose", default=True)
    return [_device(host, function, verbose=verbose) for function in host.listed(hidden)]


def _device(host: Host, function: PciFunction, *, verbose: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": function.address,
        "class": function.device_class,
        "vendor": function.vendor,
        "device": function.device,
        "iommugroup": host.group_of(function),
    }
    more = {
        "vendor_name": function.vendor_name,
        "device_name": function.device_name,
        "subsystem_vendor": function.subsystem_vendor,
        "subsystem_device": function.subsystem_device,
    }
    return found | ({key: text for key, text in more.items() if text} if verbose else {})


@endpoint("GET", "/nodes/{node}/network", parameters={"type": Key()})
def network(call: Call) -> Any:
    """Bridges, and the card that they stand on."""
    wanted = call.text("type")
    found = [
        {
            "iface": bridge,
            "type": "bridge",
            "active": 1,
            "autostart": 1,
            "priority": number,
            "method": "static",
            "address": call.host.address,
            "bridge_ports": "enp4s0",
            "families": ["inet"],
        }
        for number, bridge in enumerate(call.host.bridges, start=4)
    ]
    cards = [{"iface": "enp4s0", "type": "eth", "active": 1, "exists": 1, "priority": 3}]
    kinds = ("bridge", "any_bridge", "any_local_bridge")
    return [
        *(cards if wanted in ("", "eth") else []),
        *(found if wanted in ("", *kinds) else []),
    ]


def may_reach_network(call: Call) -> None:
    """Demand what letting a host reach into its network takes."""
    node = call.text("node")
    if call.has("/", "Sys.Audit") and call.has("/", "Sys.Modify"):
        return
    if not call.has(f"/nodes/{node}", "Sys.AccessNetwork"):
        raise forbidden(f"/nodes/{node}", "Sys.AccessNetwork")


@endpoint(
    "GET",
    "/nodes/{node}/query-url-metadata",
    may_reach_network,
    parameters={"url": URL, "verify-certificates": BOOLEAN},
)
def url_metadata(call: Call) -> Any:
    """Name, size in bytes and media type of what a URL offers."""
    call.world.host(call.text("node"))
    try:
        file = call.world.fetch(call.text("url"))
    except Refused as error:
        raise Refused(f"invalid server response: '{error.message.strip()}'\n") from None
    return {"filename": file.filename, "size": file.size, "mimetype": file.media_type}
