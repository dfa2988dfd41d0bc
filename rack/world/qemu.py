"""A virtual machine as Proxmox VE keeps it (qemu-server)."""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import Any, Final

from pydantic import BaseModel

from rack.world.errors import Refused
from rack.world.machine import Machine, Nocloud
from rack.world.propertystring import is_true
from rack.world.vm import VmHardware
from rack.world.vmoptions import (
    AGENT,
    BOOT,
    CPU,
    DRIVE,
    HOSTPCI,
    IP_CONFIG,
    MACHINE,
    MEMORY,
    NETWORK,
    NIC_MODELS,
    family,
    index,
    is_drive,
    option,
)

DEFAULT_MEMORY_MIB: Final = 512
_MAC_PREFIX: Final = "BC:24:11"
"""Proxmox' own range, from which PVE picks addresses."""


class Vm(BaseModel):
    """One VM: its configuration as PVE keeps it, and what runs."""

    vmid: int
    node: str
    config: dict[str, str] = {}
    """Options in effect, as texts."""
    pending: dict[str, str] = {}
    """Options that the next start puts into effect."""
    pending_delete: list[str] = []
    lock: str = ""
    """What works on it, for example `create`; empty when nothing does."""
    pid: int = 0
    """Process of the running VM; 0 while it is stopped."""
    started_at: float = 0.0
    """Unix time."""
    passed: list[str] = []
    """Addresses of the PCI functions that the running VM holds."""
    systems: dict[str, Machine] = {}
    """Operating systems on the VM's disks, by the disk's identity."""
    booted: str = ""
    """Identity of the disk that the VM started from last; empty where none was bootable."""

    @property
    def is_running(self) -> bool:
        """The VM's process is there."""
        return self.pid != 0

    @property
    def machine(self) -> Machine | None:
        """The operating system that the VM started last."""
        return self.systems.get(self.booted)

    @property
    def name(self) -> str:
        """Its name; without one, PVE makes one up."""
        return self.config.get("name", f"VM {self.vmid}")

    @property
    def memory_mib(self) -> int:
        """Memory in MiB."""
        text = self.config.get("memory", str(DEFAULT_MEMORY_MIB))
        return int(MEMORY.parse(text)["current"])

    @property
    def cpus(self) -> int:
        """Virtual processors."""
        return int(self.config.get("sockets", 1)) * int(self.config.get("cores", 1))

    @property
    def is_q35(self) -> bool:
        """The machine type has PCI Express."""
        return "q35" in MACHINE.parse(self.config.get("machine", "pc")).get("type", "pc")

    def switch_off(self) -> None:
        """End the VM's process; the functions it held stay with vfio, as on a real host."""
        if self.machine is not None and self.is_running:
            self.machine.power_off()
        self.pid, self.passed = 0, []

    def effective(self) -> dict[str, str]:
        """The configuration as the next start will see it."""
        kept = {k: v for k, v in self.config.items() if k not in self.pending_delete}
        return {**kept, **self.pending}

    def drives(self) -> dict[str, dict[str, str]]:
        """Option → its property string, split, of all disks and optical drives."""
        return {name: DRIVE.parse(text) for name, text in self.config.items() if is_drive(name)}

    def hostpci(self) -> list[tuple[str, dict[str, str]]]:
        """The passthrough options in the order of their numbers."""
        names = sorted((n for n in self.config if family(n) == "hostpci"), key=index)
        return [(name, HOSTPCI.parse(self.config[name])) for name in names]

    def networks(self) -> list[tuple[int, dict[str, str]]]:
        """The network cards with their numbers."""
        names = sorted((n for n in self.config if family(n) == "net"), key=index)
        return [(index(name), parse_network(self.config[name])) for name in names]

    def boot_order(self) -> list[str]:
        """Devices that firmware tries, first one first."""
        order = BOOT.parse(self.config.get("boot", "")).get("order", "")
        return [name for name in order.split(";") if name] or default_boot_order(self.config)

    def wants_agent(self) -> bool:
        """The configuration says that a guest agent runs."""
        return is_true(AGENT.parse(self.config.get("agent", "0")).get("enabled"))

    def hardware(self, disk_bytes: int) -> VmHardware:
        """The hardware of the VM with a boot disk of that size."""
        efi = DRIVE.parse(self.config.get("efidisk0", ""))
        return VmHardware(
            vmid=self.vmid,
            name=self.name,
            node=self.node,
            cpus=self.cpus,
            memory_mib=self.memory_mib,
            bios="ovmf" if self.config.get("bios") == "ovmf" else "seabios",
            machine=MACHINE.parse(self.config.get("machine", "pc")).get("type", "pc"),
            cpu_type=CPU.parse(self.config.get("cpu", "kvm64")).get("cputype", "kvm64"),
            secure_boot_keys=is_true(efi.get("pre-enrolled-keys")),
            mac_addresses=tuple(card["macaddr"].upper() for _, card in self.networks()),
            disk_gib=disk_bytes / (1 << 30),
        )

    def cloud_init_drive(self) -> str:
        """The option that holds the cloud-init drive; empty where there is none."""
        named = (n for n, d in self.drives().items() if "cloudinit" in d.get("file", ""))
        return next(named, "")

    def nocloud(self, host_nameservers: list[str]) -> Nocloud | None:
        """What the cloud-init drive says; without a drive the guest learns nothing."""
        if not self.cloud_init_drive() or self.config.get("citype", "nocloud") != "nocloud":
            return None
        own = re.split(r"[ ,;]+", self.config.get("nameserver", "").strip())
        interfaces = [
            {"mac_address": card["macaddr"].upper(), **_address(self.config[f"ipconfig{number}"])}
            for number, card in self.networks()
            if f"ipconfig{number}" in self.config
        ]
        return Nocloud.model_validate(
            {
                "hostname": self.config.get("name", f"VM{self.vmid}").split(".")[0],
                "interfaces": interfaces,
                "nameservers": [server for server in own if server] or host_nameservers,
            }
        )

    def fields(self, config: dict[str, str]) -> dict[str, Any]:
        """Options as the API writes them: whole numbers and booleans as JSON numbers."""
        written: dict[str, Any] = {name: _json(name, text) for name, text in config.items()}
        if self.lock:
            written["lock"] = self.lock
        return {**written, "digest": self.digest}

    @property
    def digest(self) -> str:
        """SHA-1 of the configuration: changes with any of it."""
        text = repr((sorted(self.config.items()), sorted(self.pending.items())))
        return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _json(name: str, text: str) -> str | int | float:
    known = option(name)
    kind = known.rule.kind if known and known.format is None else "string"
    if kind == "boolean":
        return int(is_true(text))
    if kind == "integer":
        return int(text)
    return (
        float(text) if kind == "number" and "." in text else int(text) if kind == "number" else text
    )


def _address(text: str) -> dict[str, str]:
    pairs = IP_CONFIG.parse(text)
    if pairs.get("ip", "dhcp") == "dhcp":
        return {}
    return {"address": pairs["ip"], **({"gateway": pairs["gw"]} if "gw" in pairs else {})}


def parse_network(text: str) -> dict[str, str]:
    """Split a network card's option; `virtio=MAC` says model and address at once."""
    for part in text.split(","):
        model, equals, mac = part.partition("=")
        if equals and model in NIC_MODELS:
            text = text.replace(part, f"model={model},macaddr={mac}")
    return NETWORK.parse(text)


def write_network(card: dict[str, str]) -> str:
    """Write a network card's option as PVE prints it."""
    rest = {key: value for key, value in card.items() if key not in ("model", "macaddr")}
    return ",".join(
        [f"{card['model']}={card['macaddr']}", *(f"{key}={rest[key]}" for key in sorted(rest))]
    )


def new_mac_address(seed: str) -> str:
    """An address in Proxmox' range; PVE picks it at random, the rack from `seed`."""
    digits = hashlib.sha256(seed.encode()).hexdigest().upper()
    return ":".join([_MAC_PREFIX, digits[:2], digits[2:4], digits[4:6]])


def new_uuid(seed: str) -> str:
    """A UUID that is always the same for a seed."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, seed))


def default_boot_order(config: dict[str, str]) -> list[str]:
    """What PVE boots from when nobody says: the first disk, an optical drive, the network."""
    drives = sorted((n for n in config if is_drive(n)), key=lambda n: (family(n), index(n)))
    usable = [n for n in drives if family(n) not in ("efidisk", "tpmstate")]
    optical = [n for n in usable if DRIVE.parse(config[n]).get("media") == "cdrom"]
    disks = [n for n in usable if n not in optical]
    bootable_optical = [n for n in optical if "cloudinit" not in config[n]]
    return [*disks[:1], *bootable_optical[:1], *(n for n in ("net0",) if n in config)]


def require_unlocked(vm: Vm) -> None:
    """Refuse while something else works on the VM."""
    if vm.lock:
        raise Refused(f"VM is locked ({vm.lock})\n")
