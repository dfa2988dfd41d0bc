"""From the inputs of a VmLegacy to the options of PVE's VM configuration."""

from __future__ import annotations

import base64
import uuid
from typing import Final

from rack.plugins.contract import Plain, PluginError, Schema
from rack.plugins.proxmoxve import cloudinit
from rack.plugins.proxmoxve import devices as table
from rack.plugins.proxmoxve.codec import Fields, encode, unparse

SCHEMA: Final = Schema.load("proxmoxve")
BLOCKS_WITH_DEFAULTS: Final = {
    "agent": "VmLegacyAgent",
    "cpu": "VmLegacyCpu",
    "memory": "VmLegacyMemory",
    "operatingSystem": "VmLegacyOperatingSystem",
    "watchdog": "VmLegacyWatchdog",
}
"""Blocks that count as present with their defaults when the program leaves them out."""

BOOTABLE: Final = ("ide0", "sata0", "scsi0", "virtio0")


def block_of(vm: Plain, name: str) -> Plain:
    """Return a block of the VM, with its defaults when the program leaves it out."""
    present: Plain = vm.get(name) or {}
    if name in BLOCKS_WITH_DEFAULTS:
        return SCHEMA.with_defaults(SCHEMA.types[BLOCKS_WITH_DEFAULTS[name]], present)
    return present


def options(vm: Plain, vm_id: int) -> dict[str, str]:
    """Return every option of the VM's configuration but its disks."""
    return {
        **encode(table.SCALARS, vm),
        **_processor(block_of(vm, "cpu")),
        **_memory(block_of(vm, "memory"), vm_id),
        **encode(table.OPERATING_SYSTEM, block_of(vm, "operatingSystem")),
        "agent": unparse(encode(table.AGENT, block_of(vm, "agent"))),
        **_single_devices(vm),
        **_numbered_devices(vm),
        **_host_devices(vm),
        **_order_and_tags(vm),
        **_cdrom(vm),
        **cloudinit.options(vm.get("initialization")),
    }


def _processor(cpu: Plain) -> dict[str, str]:
    return {**encode(table.CPU, cpu), "cpu": unparse(encode(table.CPU_MODEL, cpu))}


def _memory(memory: Plain, vm_id: int) -> dict[str, str]:
    written = encode(table.MEMORY, memory)
    if memory.get("shared"):
        written["ivshmem"] = f"size={memory['shared']},name=vm-{vm_id}-ivshmem"
    return written


def _single_devices(vm: Plain) -> dict[str, str]:
    """Options of the devices that a VM has once."""
    fields: dict[str, tuple[str, Fields]] = {
        "amdSev": ("amd-sev", table.AMD_SEV),
        "startup": ("startup", table.STARTUP),
        "vga": ("vga", table.VGA),
    }
    written = {
        option: unparse(encode(columns, vm[name]))
        for name, (option, columns) in fields.items()
        if vm.get(name)
    }
    if (audio := vm.get("audioDevice")) and audio["enabled"]:
        written["audio0"] = unparse(encode(table.AUDIO, audio))
    if (watchdog := block_of(vm, "watchdog"))["enabled"]:
        written["watchdog"] = unparse(encode(table.WATCHDOG, watchdog))
    if smbios := vm.get("smbios"):
        written["smbios1"] = _smbios(smbios)
    if tpm := vm.get("tpmState"):
        # PVE allocates a volume for `storage:size`; the size of this one is fixed.
        written["tpmstate0"] = unparse(
            {"file": f"{tpm['datastoreId']}:1", **encode(table.TPM, tpm)}
        )
    if efi := vm.get("efiDisk"):
        pairs = {"file": f"{efi['datastoreId']}:1", **encode(table.EFI_DISK, efi)}
        written["efidisk0"] = unparse({**pairs, "format": efi.get("fileFormat") or "raw"})
    return {option: text for option, text in written.items() if text}


def _smbios(smbios: Plain) -> str:
    texts = encode(table.SMBIOS_TEXTS, smbios)
    pairs = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    return unparse({"base64": "1", **pairs, "uuid": smbios.get("uuid") or str(uuid.uuid4())})


def _numbered_devices(vm: Plain) -> dict[str, str]:
    """Options of the devices that are numbered by their place in a list."""
    lists: dict[str, tuple[str, Fields]] = {
        "rngs": ("rng", table.RNG),
        "usbs": ("usb", table.USB),
        "virtiofs": ("virtiofs", table.VIRTIOFS),
    }
    written = {
        f"{option}{index}": unparse(encode(columns, device))
        for name, (option, columns) in lists.items()
        for index, device in enumerate(vm.get(name) or [])
    }
    for index, serial in enumerate(vm.get("serialDevices") or []):
        written[f"serial{index}"] = serial["device"]
    for index, network in enumerate(vm.get("networkDevices") or []):
        if network["enabled"]:
            written[f"net{index}"] = _network(network)
    return written


def _network(network: Plain) -> str:
    model = {"model": network["model"], **encode(table.NETWORK, network)}
    return unparse({**model, "macaddr": network.get("macAddress") or None})


def _host_devices(vm: Plain) -> dict[str, str]:
    """Options of the devices that carry their own option's name."""
    written = {}
    for device in vm.get("hostpcis") or []:
        if not device.get("id") and not device.get("mapping"):
            raise PluginError(
                f"failed to encode PCI device {device['device']}: either device ID or resource "
                "mapping must be set"
            )
        written[device["device"]] = unparse(encode(table.HOSTPCI, device))
    for node in vm.get("numas") or []:
        written[node["device"]] = unparse(encode(table.NUMA, node))
    return written


def _order_and_tags(vm: Plain) -> dict[str, str]:
    written = {}
    if order := vm.get("bootOrders"):
        written["boot"] = f"order={';'.join(order)}"
    if tags := sorted(tag.strip() for tag in vm.get("tags") or [] if tag.strip()):
        written["tags"] = ";".join(tags)
    return written


def _cdrom(vm: Plain) -> dict[str, str]:
    cdrom = vm.get("cdrom")
    if not cdrom:
        return {}
    return {cdrom["interface"]: f"file={cdrom.get('fileId') or 'cdrom'},media=cdrom"}


def default_boot_order(vm: Plain) -> list[str]:
    """Return what a new VM boots from when the program does not say."""
    interfaces = {disk["interface"] for disk in vm.get("disks") or []}
    order = [vm["cdrom"]["interface"]] if vm.get("cdrom") else []
    order += [name for name in BOOTABLE if name in interfaces]
    return order + (["net0"] if vm.get("networkDevices") else [])
