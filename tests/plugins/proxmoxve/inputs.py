"""What a program asks of the plugin: a worker with a card, its mapping and its image."""

from __future__ import annotations

from typing import Any

from rack.plugins.contract import Plain

VM = "proxmoxve:index/vmLegacy:VmLegacy"
PCI = "proxmoxve:hardware/mapping/pci:Pci"
FILE = "proxmoxve:download/file:File"
TOKEN = "root@pam!t=00000000-0000-4000-8000-00000000c0de"

GPU_VM: Plain = {
    "nodeName": "pve",
    "vmId": 111,
    "name": "k8s-worker-1",
    "machine": "q35",
    "bios": "ovmf",
    "cpu": {"type": "host", "cores": 8},
    "memory": {"dedicated": 16384, "floating": 0},
    "efiDisk": {"datastoreId": "local-lvm", "type": "4m", "preEnrolledKeys": False},
    "disks": [
        {
            "interface": "scsi0",
            "datastoreId": "local-lvm",
            "importFrom": "local:import/talos.qcow2",
            "size": 100,
            "iothread": True,
        }
    ],
    "hostpcis": [{"device": "hostpci0", "mapping": "gpu0", "pcie": True, "rombar": True}],
    "networkDevices": [{"bridge": "vmbr0"}],
    "operatingSystem": {"type": "l26"},
    "initialization": {
        "datastoreId": "local-lvm",
        "dns": {"servers": ["127.0.0.254"]},
        "ipConfigs": [{"ipv4": {"address": "127.0.0.2/24", "gateway": "127.0.0.254"}}],
    },
    "serialDevices": [{}],
    "tags": ["worker", "gpu"],
    "stopOnDestroy": True,
}
MAPPING: Plain = {
    "name": "gpu0",
    "maps": [
        {
            "id": "10de:2204",
            "node": "pve",
            "path": "0000:01:00",
            "iommuGroup": 14,
            "subsystemId": "10de:1467",
        }
    ],
}
IMAGE: Plain = {
    "nodeName": "pve",
    "datastoreId": "local",
    "contentType": "import",
    "url": "http://127.0.0.1:8480/image/abc/v1.13.9/nocloud-amd64.qcow2",
    "fileName": "talos.qcow2",
}


def changed(**values: Any) -> Plain:
    """Return the VM with some inputs changed."""
    return {**GPU_VM, **values}


def ip(address: str) -> Plain:
    """Return an address as the guest agent reports it."""
    return {"ip-address": address, "ip-address-type": "ipv6" if ":" in address else "ipv4"}
