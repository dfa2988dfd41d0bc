"""What VMs need from their hosts besides cards: storages, memory, processors, ids, bridges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpu_passthrough.config import Node
from gpu_passthrough.preflight.client import DeniedError
from gpu_passthrough.preflight.findings import Check

IMAGE_BYTES: Final = 4 << 30
"""Room for a boot image; the qcow2 of Talos with the NVIDIA extensions is below this."""
GIB: Final = 1 << 30
GROWING: Final = ("dir", "nfs", "cifs", "btrfs", "lvmthin", "cephfs", "rbd")
"""Kinds of storage on which a disk takes its room as it is written; on the others it has it."""
TAKEN: Final = 400
"""What Proxmox VE answers to who asks for an id that is taken."""
HOST_MIB: Final = 2048
"""Memory for the host itself, as Proxmox VE's system requirements have it."""
BRIDGES: Final = ("bridge", "OVSBridge", "vnet")
"""Kinds of networks that a VM's network card can be on; `vnet` is one of SDN."""


def storages(check: Check) -> Iterator[None]:
    """The storages are there, active, and take what is put into them."""
    site = check.site
    needs = ((site.image_datastore, "import"), (site.disk_datastore, "images"))
    for host in check.hosts:
        for storage, content in needs:
            with check.about(f"storage {storage} on {host}"):
                path = f"nodes/{host}/storage"
                found = next((o for o in check.ask(path) if o["storage"] == storage), None)
                if found is None:
                    names = ", ".join(sorted(o["storage"] for o in check.ask(path))) or "none"
                    check.fail(
                        path,
                        f"host {host} has no storage of that name; it shows {names}",
                        "Boot image and disks have no place.",
                        "Name another one in proxmox.imageDatastore or proxmox.diskDatastore, or"
                        " give the token Datastore.Audit on it.",
                    )
                elif not (found.get("active") and found.get("enabled")):
                    check.fail(
                        path,
                        "it is not active",
                        "Nothing can be put into it.",
                        f"pvesm status; pvesm set {storage} --disable 0",
                        answer=found,
                    )
                elif content not in str(found.get("content", "")).split(","):
                    check.fail(
                        path,
                        f"it does not take the content type {content}: {found.get('content')}",
                        "The boot image could not be downloaded, or the disk not be made.",
                        f"pvesm set {storage} --content {found.get('content')},{content}",
                        answer=found.get("content"),
                    )
                elif content == "import" and found.get("shared") and len(check.hosts) > 1:
                    check.warn(
                        path,
                        f"it is shared by {', '.join(check.hosts)}, and each downloads its boot"
                        " image there under the same name",
                        "One download may replace the file from which another host makes a disk.",
                        "Name a storage that each host has for itself in proxmox.imageDatastore.",
                    )
                else:
                    check.passed(f"takes {content}")
            yield


def space(check: Check) -> Iterator[None]:
    """There is room for what is still to be made."""
    for host in check.hosts:
        new = [node for node in check.nodes_of(host).values() if not check.exists(node)]
        wanted = {
            check.site.disk_datastore: sum(node.disk_gib for node in new) * GIB,
            check.site.image_datastore: IMAGE_BYTES if new else 0,
        }
        for storage, size in wanted.items():
            with check.about(f"room in {storage} on {host}"):
                path = f"nodes/{host}/storage"
                found = next((o for o in check.ask(path) if o["storage"] == storage), None)
                if found is None:
                    check.follows("the storage is not there")
                elif int(found.get("avail", 0)) < size:
                    check.fail(
                        path,
                        f"{size / GIB:.0f} GiB are needed, {_free_gib(found)} are free",
                        "A full storage stops every VM on it.",
                        "Make room, choose another storage, or ask for smaller disks (diskGib).",
                        answer=found,
                    )
                elif not new and _is_full(found):
                    check.fail(
                        path,
                        f"{int(found.get('avail', 0)) >> 20} MiB are free",
                        "Disks grow into it: when it is full, the VMs on it stop with I/O errors.",
                        "Make room, or add disks to it.",
                        answer=found,
                    )
                else:
                    check.passed(f"{size / GIB:.0f} GiB needed, {_free_gib(found)} GiB free")
            yield


def _is_full(storage: Mapping[str, Any]) -> bool:
    """Nothing is left for disks that take their room as they are written."""
    return storage.get("type") in GROWING and int(storage.get("avail", 0)) < GIB


def _free_gib(storage: Mapping[str, Any]) -> int:
    return int(storage.get("avail", 0)) // GIB


def memory(check: Check) -> Iterator[None]:
    """The host has the memory that all its VMs take; passed-through cards allow no ballooning."""
    for host in check.hosts:
        with check.about(f"host {host}"):
            path = f"nodes/{host}/status"
            total = int(check.ask(path)["memory"]["total"]) >> 20
            own = sum(node.memory_mib for node in check.nodes_of(host).values())
            running = [
                vm
                for vm in check.vms(host)
                if vm.get("status") == "running" and not check.is_ours(vm)
            ]
            others = sum(int(vm.get("maxmem", 0)) for vm in running) >> 20
            left = total - own - others
            if left < 0:
                check.fail(
                    path,
                    f"the stack's VMs need {own} MiB, other running VMs have {others} MiB, and the"
                    f" host has {total} MiB",
                    "Memory of a VM with a passed-through card is pinned when it starts: the start"
                    " fails, or the host kills something.",
                    "Lower memoryMib, stop other VMs, or add memory.",
                    answer=f"total {total} MiB",
                )
            elif left < HOST_MIB:
                check.warn(
                    path,
                    f"{left} MiB are left for the host itself, less than {HOST_MIB}",
                    "Proxmox VE needs about so much, and ZFS more: under pressure it kills VMs.",
                    "Lower memoryMib.",
                )
            else:
                check.passed_for_all(
                    f"{own} MiB asked, {total - others} of {total} MiB not promised"
                )
        yield


def processors(check: Check) -> Iterator[None]:
    """No VM has more processors than its host."""
    for name, node in check.machines.items():
        with check.about(f"{name} on {node.host}"):
            path = f"nodes/{node.host}/status"
            count = int(check.ask(path)["cpuinfo"]["cpus"])
            if node.cores > count:
                check.fail(
                    path,
                    f"{node.cores} cores asked, the host has {count} processors",
                    "Proxmox VE refuses to start a VM with more.",
                    f"Set cores to at most {count}.",
                    answer=f"cpus {count}",
                )
            else:
                check.passed(f"{node.cores} of {count}")
        yield


def vm_ids(check: Check) -> Iterator[None]:
    """The ids are free, or belong to the stack's own VMs."""
    listed = {int(one["vmid"]): one for one in check.ask("cluster/resources?type=vm")}
    for name, node in check.stack.nodes.items():
        with check.about(f"{name}: VM {node.vm_id}"):
            found = listed.get(node.vm_id)
            if found is None:
                _free(check, name, node)
            elif _is_own(found, name, node):
                check.passed("is the stack's own")
            else:
                check.fail(
                    "cluster/resources?type=vm",
                    f"VM {node.vm_id} exists: {found.get('name', 'without a name')} on"
                    f" {found.get('node')}",
                    "The creation is refused, and nothing above this machine is built.",
                    f"Give {name} another vmId, or remove that VM if nobody needs it.",
                    answer=found,
                )
        yield


def _is_own(found: Mapping[str, Any], name: str, node: Node) -> bool:
    """Id, name and host agree, and it is no container: those share the ids."""
    seen = (found.get("name"), found.get("node"), found.get("type", "qemu"))
    return seen == (name, node.host, "qemu")


def _free(check: Check, name: str, node: Node) -> None:
    """Proxmox VE itself says whether an id is free, also of VMs that the token may not see."""
    path = f"cluster/nextid?vmid={node.vm_id}"
    try:
        check.ask(path)
    except DeniedError as refusal:
        if refusal.status != TAKEN:
            raise
        check.fail(
            path,
            f"VM {node.vm_id} exists, and the token may not see what it is",
            "The creation is refused, and nothing above this machine is built.",
            f"Give {name} another vmId.",
        )
    else:
        check.passed("the id is free")


def bridges(check: Check) -> Iterator[None]:
    """The bridge exists on every host."""
    network = check.site.network
    for host in check.hosts:
        with check.about(f"bridge {network.bridge} on {host}"):
            path = f"nodes/{host}/network?type=any_bridge"
            found = {one["iface"]: one for one in check.ask(path) if one.get("type") in BRIDGES}
            bridge = found.get(network.bridge)
            if bridge is None:
                names = sorted(found)
                check.fail(
                    path,
                    f"there is no such bridge; there are {', '.join(names) or 'none'}",
                    "The VM would not start.",
                    "Name another one in proxmox.network.bridge, make it on the host, or give the"
                    " token SDN.Use on it: without, it is not listed.",
                )
            elif network.vlan and bridge["type"] == "bridge" and not _is_vlan_aware(bridge):
                check.warn(
                    path,
                    f"it is not VLAN aware, and the VMs' network cards ask for VLAN {network.vlan}",
                    "Proxmox VE makes a second bridge for the VLAN then, which works on a bridge"
                    " with a physical port only.",
                    f"Set bridge-vlan-aware yes on {network.bridge}.",
                )
            else:
                check.passed("is there")
        yield


def _is_vlan_aware(bridge: Mapping[str, Any]) -> bool:
    return str(bridge.get("bridge_vlan_aware", 0)) == "1"


def addresses(check: Check) -> Iterator[None]:
    """Nobody else has the addresses; a silent machine may have one all the same."""
    for name, node in check.machines.items():
        with check.about(f"{name}: {node.address}", best_effort=True):
            holders = list(_holders(check, node))
            if holders:
                check.fail(
                    f"nodes/{node.host}/qemu/{holders[0]}/config",
                    f"VM {holders[0]} is configured with {node.address}",
                    "Two machines with one address answer in turn.",
                    f"Give {name} another address.",
                )
            else:
                check.unknown("no VM of the host is configured with it; others cannot be seen")
        yield


def _holders(check: Check, node: Node) -> Iterator[int]:
    for vm in check.vms(node.host):
        if check.is_ours(vm):
            continue
        config = check.ask(f"nodes/{node.host}/qemu/{vm['vmid']}/config")
        if any(
            f"ip={node.address}/" in str(value)
            for key, value in config.items()
            if key.startswith("ipconfig")
        ):
            yield int(vm["vmid"])


def host_drivers(check: Check) -> Iterator[None]:
    """No driver of the host holds a card; the API does not say, so it is only asked for."""
    for name, node, gpu in check.cards:
        with check.about(f"{name}: {gpu.path} on {node.host}", best_effort=True):
            check.unknown(
                f"the API does not show drivers; on the host: lspci -nnks {gpu.path} should name"
                " vfio-pci, or no driver"
            )
        yield
