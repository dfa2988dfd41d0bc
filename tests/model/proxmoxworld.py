"""A world for the tests of Proxmox VE's rules: one host with two cards, a storage of each kind."""

from __future__ import annotations

from typing import Any

from rack.world.access import ROOT, AclEntry
from rack.world.datacenter import Datacenter, from_inventory
from rack.world.errors import Refused
from rack.world.factory import ImageContent
from rack.world.storage import FetchedImage
from rack.world.tasks import Task
from rack.world.vmrequests import VmRequests

NOW = 1_800_000_000.0
TOKEN = "builder@pve!ci"
GIB = 1 << 30
IMAGE_URL = "http://factory/image.qcow2"
IMAGE = "local:import/talos.qcow2"


def function(address: str, kind: str, id_: str, subsystem: str, group: int, driver: str) -> Any:
    vendor, device = id_.split(":")
    names = dict(zip(("subsystem_vendor", "subsystem_device"), subsystem.split(":"), strict=False))
    return {
        "address": address,
        "device_class": kind,
        "vendor": f"0x{vendor}",
        "device": f"0x{device}",
        **{name: f"0x{text}" for name, text in names.items() if text},
        "iommu_group": group,
        "driver": driver,
    }


INVENTORY = {
    "hosts": {
        "pve": {
            "memory_mib": 65536,
            "cpus": 16,
            "bridges": ["vmbr0"],
            "nameservers": ["10.0.0.53"],
            "storages": {
                "local": {"type": "dir", "content": ["import", "iso"], "capacity_gib": 20},
                "fast": {"type": "lvmthin", "content": ["images"], "capacity_gib": 100},
            },
            "functions": [
                function("0000:00:01.1", "0x060400", "1022:1483", "", 14, "pcieport"),
                function("0000:01:00.0", "0x030000", "10de:2204", "10de:1467", 14, "nouveau"),
                function("0000:01:00.1", "0x040300", "10de:1aef", "10de:1467", 14, "snd"),
                function("0000:02:00.0", "0x030000", "10de:2705", "1462:5135", 15, "nouveau"),
                function("0000:02:00.1", "0x040300", "10de:22bb", "1462:5135", 15, "snd"),
                function("0000:04:00.0", "0x020000", "8086:15f3", "8086:0000", 16, "igc"),
                function("0000:06:00.0", "0x0c0330", "1b73:1100", "", 16, "xhci_hcd"),
            ],
        }
    }
}
CARD = "node=pve,path=0000:01:00,id=10de:2204,subsystem-id=10de:1467,iommugroup=14"
OTHER_CARD = "node=pve,path=0000:02:00,id=10de:2705,subsystem-id=1462:5135,iommugroup=15"


def image(url: str = IMAGE_URL) -> FetchedImage:
    if url != IMAGE_URL:
        raise Refused(f"download failed: no such host: {url}")
    content = ImageContent(
        talos_version="v1.13.9",
        platform="nocloud",
        schematic_id="376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba",
        extensions=(),
        arch="amd64",
        format="qcow2",
    )
    return FetchedImage(
        filename="image.qcow2",
        size=90 << 20,
        virtual_size=1290 << 20,
        format="qcow2",
        checksums={"sha256": "a" * 64},
        content=content,
    )


def new_world() -> Datacenter:
    """A host with nothing on it, a token that may do everything."""
    world = from_inventory(INVENTORY, NOW)
    world.access.add_token(TOKEN, "secret", "Administrator")
    world.fetch_through(image)
    return world


class Site:
    """A world and somebody who works on it; `now` is where the tests move the clock."""

    def __init__(self, who: str = TOKEN) -> None:
        self.world = new_world()
        self.who = who
        self.now = NOW

    @property
    def vms(self) -> VmRequests:
        return VmRequests(self.world, "pve", self.who, self.now)

    def task(self, upid: str) -> Task:
        found = self.world.task(upid)
        assert found is not None
        return found

    def ok(self, upid: str) -> Task:
        task = self.task(upid)
        assert task.exit_status == "OK", task.exit_status
        return task

    def failure(self, upid: str) -> str:
        task = self.task(upid)
        assert task.failed, task.exit_status
        return task.exit_status

    def download(self, content: str = "import", filename: str = "talos.qcow2", **more: str) -> str:
        return self.world.submit(
            "download",
            "pve",
            filename,
            self.who,
            self.now,
            storage="local",
            content=content,
            filename=filename,
            **{"url": IMAGE_URL, **more},
        )

    def create(self, vmid: int = 100, **options: str) -> str:
        return self.vms.create(vmid, options)

    def gpu_vm(self, vmid: int = 100, hostpci0: str = "mapping=gpu0,pcie=1", **more: str) -> None:
        options = {"machine": "q35", "memory": "4096", "hostpci0": hostpci0, **more}
        self.ok(self.create(vmid, **options))

    def start(self, vmid: int = 100) -> str:
        return self.vms.start(vmid)

    def grant(self, who: str, path: str, role: str, *, propagate: bool = True) -> None:
        entry = AclEntry(path=path, who=who, role=role, propagate=propagate)
        self.world.access.acl.append(entry)


__all__ = ["CARD", "GIB", "IMAGE", "NOW", "OTHER_CARD", "ROOT", "TOKEN", "Site", "new_world"]
