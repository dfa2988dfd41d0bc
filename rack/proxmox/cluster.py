"""Version, cluster and permissions."""

from __future__ import annotations

from typing import Any

from rack.proxmox.endpoints import Call, endpoint
from rack.proxmox.nodes import node_summary
from rack.proxmox.vms import VM_SUMMARY_KEYS, vm_summary
from rack.world.errors import Refused, invalid
from rack.world.propertystring import Key

VERSION = {"version": "9.0.11", "release": "9.0", "repoid": "simulated-rack"}
"""`repoid` is how a client knows that this is a simulated rack, not a host."""


@endpoint("GET", "/version")
def version(call: Call) -> Any:
    """Version of Proxmox VE."""
    return VERSION


@endpoint("GET", "/cluster/status")
def status(call: Call) -> Any:
    """Members of the cluster."""
    call.require("/", "Sys.Audit")
    return [
        {
            "id": f"node/{host.name}",
            "type": "node",
            "name": host.name,
            "ip": host.address,
            "nodeid": number if len(call.world.hosts) > 1 else 0,
            "online": 1,
            "local": int(number == 1),
            "level": "",
        }
        for number, host in enumerate(call.world.hosts.values(), start=1)
    ]


@endpoint(
    "GET",
    "/cluster/resources",
    parameters={"type": Key(choices=("vm", "storage", "node", "sdn", "network"))},
)
def resources(call: Call) -> Any:
    """VMs, hosts and storages that the caller may see."""
    wanted = call.text("type")
    found: list[dict[str, Any]] = []
    if wanted in ("", "node"):
        found += [node_summary(call, host) for host in call.world.hosts.values()]
    if wanted in ("", "vm"):
        for vm in (vm for _, vm in sorted(call.world.vms.items())):
            if call.has(f"/vms/{vm.vmid}", "VM.Audit"):
                summary = vm_summary(call, vm)
                kept = {key: summary[key] for key in VM_SUMMARY_KEYS if key in summary}
                found.append({"id": f"qemu/{vm.vmid}", "type": "qemu", "node": vm.node, **kept})
    if wanted in ("", "storage"):
        found += _storages(call)
    return found


def _storages(call: Call) -> list[dict[str, Any]]:
    return [
        {
            "id": f"storage/{host.name}/{storage.name}",
            "type": "storage",
            "storage": storage.name,
            "node": host.name,
            "status": "available",
            "plugintype": storage.type,
            "content": storage.status()["content"],
            "disk": storage.used,
            "maxdisk": storage.total,
            "shared": 0,
        }
        for host in call.world.hosts.values()
        for storage in host.storages.values()
        if call.has(f"/storage/{storage.name}", "Datastore.Audit")
        or call.has(f"/storage/{storage.name}", "Datastore.AllocateSpace")
    ]


@endpoint("GET", "/cluster/nextid", parameters={"vmid": Key("integer", minimum=100)})
def next_id(call: Call) -> Any:
    """The lowest number that no VM has, as text; or the one asked about, if it is free."""
    taken = call.world.vms
    if "vmid" in call.values:
        if call.number("vmid") in taken:
            raise invalid(vmid=f"VM {call.number('vmid')} already exists")
        return call.text("vmid")
    free = next((n for n in range(100, 1_000_000) if n not in taken), None)
    if free is None:
        raise Refused("unable to get any free VMID in range [100, 1000000]\n")
    return str(free)


@endpoint("GET", "/access/permissions", parameters={"userid": Key(), "path": Key(pattern="/.*")})
def permissions(call: Call) -> Any:
    """What a user or token may do: path → privilege → whether it propagates."""
    who = call.text("userid", call.who)
    if who != call.who and who.partition("!")[0] != call.who:
        call.require("/access", "Sys.Audit")
    if "path" not in call.values:
        return call.world.access.effective(who)
    path = "/" + "/".join(step for step in call.text("path").split("/") if step)
    return {path: call.world.access.permissions(who, path)}
