"""Physical worlds that fit a configuration: everything that it cannot know is as it should be."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_passthrough.cards import Card, find
from gpu_passthrough.config import Machine as Member
from gpu_passthrough.config import Stack
from rack.world.datacenter import Datacenter, from_inventory
from rack.world.factory import accept, image
from rack.world.machine import Machine, Nocloud, NocloudInterface
from rack.world.pci import PciFunction
from rack.world.qemu import Vm
from rack.world.silicon import catalogue
from rack.world.vm import VmHardware

NOW = 1_800_000_000.0
TOKEN = "builder@pve!ci"
PLENTY_GIB = 1 << 30
FIRST_VM = 900
"""Numbers of the VMs of machines that exist already."""


def device_of(card: Card) -> str | None:
    """A PCI device number of a card that the rack has data of."""
    return next((one for one in card.pci_ids if one in catalogue()), None)


def card_functions(path: str, id_: str, subsystem: str, group: int) -> list[dict[str, object]]:
    """The GPU and the audio function of one card, as an inventory has them."""
    names = [f"0x{text}" for text in (*id_.split(":"), *subsystem.split(":"))]
    keys = ("vendor", "device", "subsystem_vendor", "subsystem_device")
    common = {**dict(zip(keys, names, strict=True)), "iommu_group": group}
    return [
        {**common, "address": f"{path}.0", "device_class": "0x030000"},
        {**common, "address": f"{path}.1", "device_class": "0x040300", "device": "0x22bb"},
    ]


def datacenter(stack: Stack) -> Datacenter:
    """Hosts with exactly the cards that the stack says, and room for everything else."""
    assert stack.proxmox is not None
    site = stack.proxmox
    storages = {site.disk_datastore: {"type": "lvmthin", "content": ["images"]}}
    storages[site.image_datastore] = {"type": "dir", "content": ["import", "images"]}
    hosts = {
        name: {
            "memory_mib": 1 << 40,
            "cpus": 4096,
            "bridges": [site.network.bridge],
            "storages": {n: {**s, "capacity_gib": PLENTY_GIB} for n, s in storages.items()},
            "functions": list(_functions(stack, name)),
        }
        for name in sorted({node.host for node in stack.nodes.values()})
    }
    world = from_inventory({"hosts": hosts}, NOW)
    world.access.add_token(TOKEN, "secret", "Administrator")
    return world


def _functions(stack: Stack, host: str) -> Iterator[dict[str, object]]:
    cards = {gpu.path: gpu for n in stack.nodes.values() if n.host == host for gpu in n.gpus}
    for gpu in cards.values():
        yield from card_functions(gpu.path, gpu.id, gpu.subsystem_id, gpu.iommu_group)


def machines(stack: Stack, extensions: tuple[str, ...]) -> Datacenter:
    """Machines that exist: booted from the right images, in maintenance mode, at their addresses.

    `extensions` are those of the machines that have cards.
    """
    assert stack.cluster is not None
    world = Datacenter(hosts={})
    for number, member in enumerate(stack.members.values()):
        vm = Vm(vmid=FIRST_VM + number, node="somewhere", booted="disk")
        vm.pid = 1
        vm.systems["disk"] = _booted(world, vm.vmid, member, stack, extensions)
        world.vms[vm.vmid] = vm
    return world


def _booted(
    world: Datacenter, vmid: int, member: Member, stack: Stack, extensions: tuple[str, ...]
) -> Machine:
    names = extensions if member.gpus else ()
    listed = "".join(f"\n            - {name}" for name in names)
    part = f"\n    systemExtensions:\n        officialExtensions:{listed}" if names else " {}"
    schematic = accept(f"customization:{part}\n")
    world.schematics[schematic.id] = schematic
    version = stack.cluster.talos_version if stack.cluster else ""
    path = f"/image/{schematic.id}/{version}/nocloud-amd64.qcow2"
    mac = f"BC:24:11:00:{vmid // 256:02X}:{vmid % 256:02X}"
    card = NocloudInterface(mac_address=mac, address=f"{member.address}/24")
    hardware = VmHardware(
        vmid=vmid, name="talos", cpus=4, memory_mib=16384, bios="ovmf", machine="q35",
        cpu_type="host", mac_addresses=(mac,),
    )  # fmt: skip
    made = Machine()
    nocloud = Nocloud(hostname="talos", interfaces=(card,))
    made.power_on(image(world.schematics, path), nocloud, passed(member), hardware, NOW)
    return made


def passed(member: Member) -> list[PciFunction]:
    """The functions that a machine with these cards has."""
    found = []
    for number, gpu in enumerate(member.gpus):
        card = find(gpu.card)
        device = device_of(card) if card else None
        path = f"0000:{number + 1:02x}:00"
        for one in card_functions(path, f"10de:{device}", "10de:1467", number):
            found.append(PciFunction.model_validate(one))
    return found
