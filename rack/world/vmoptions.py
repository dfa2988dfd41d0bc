"""Options of a VM's configuration as Proxmox VE defines them (qemu-server, `qm.conf`).

One row an option: its type, its format, the privilege that setting it takes, whether a running VM
takes a change of it. Options that only root may set have no privilege.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from rack.world.propertystring import Format, Key, keys

BOOLEAN: Final = Key("boolean")
INTEGER: Final = Key("integer")
NUMBER: Final = Key("number")
PCI_ADDRESS: Final = r"(?:[a-f0-9]{4,}:)?[a-f0-9]{2}:[a-f0-9]{2}(?:\.[a-f0-9])?"
CONFIG_ID: Final = r"[A-Za-z][A-Za-z0-9_-]+"
HEX_ID: Final = Key(pattern="0x[0-9a-fA-F]{4}")
SIZE: Final = Key(pattern=r"\d+(\.\d+)?[KMGT]?")
NIC_MODELS: Final = (
    "e1000", "e1000-82540em", "e1000-82544gc", "e1000-82545em", "e1000e", "i82551", "i82557b",
    "i82559er", "ne2k_isa", "ne2k_pci", "pcnet", "rtl8139", "virtio", "vmxnet3",
)  # fmt: skip
MAC_ADDRESS: Final = Key(pattern=r"[0-9a-fA-F][02468aceACE](:[0-9a-fA-F]{2}){5}")

HOSTPCI: Final = Format(
    keys(
        host=Key(pattern=f"{PCI_ADDRESS}(;{PCI_ADDRESS})*"),
        mapping=Key(pattern=CONFIG_ID),
        rombar=BOOLEAN,
        romfile=Key(pattern="[^,;]+"),
        pcie=BOOLEAN,
        x_vga=BOOLEAN,
        legacy_igd=BOOLEAN,
        mdev=Key(pattern=r"[^/\.:]+"),
        vendor_id=HEX_ID,
        device_id=HEX_ID,
        sub_vendor_id=HEX_ID,
        sub_device_id=HEX_ID,
        driver=Key(choices=("vfio", "keep")),
    ),
    default="host",
)
_SPEED: Final = [
    f"{unit}{kind}{end}"
    for unit in ("bps", "iops", "mbps")
    for kind in ("", "_rd", "_wr")
    for end in ("", "_max", "_max_length")
]
DRIVE: Final = Format(
    {
        **keys(("file", "import-from", "model", "wwn", "product", "vendor", "serial", *_SPEED)),
        **keys(
            media=Key(choices=("cdrom", "disk")),
            format=Key(choices=("raw", "qcow2", "vmdk", "subvol")),
            cache=Key(choices=("none", "writethrough", "writeback", "unsafe", "directsync")),
            aio=Key(choices=("native", "threads", "io_uring")),
            discard=Key(choices=("ignore", "on")),
            rerror=Key(choices=("ignore", "report", "stop")),
            werror=Key(choices=("enospc", "ignore", "report", "stop")),
            size=SIZE,
            queues=Key("integer", minimum=2),
            efitype=Key(choices=("2m", "4m")),
            pre_enrolled_keys=BOOLEAN,
            ms_cert=Key(choices=("2011", "2023", "2023w", "2023k")),
            version=Key(choices=("v1.2", "v2.0")),
        ),
        **dict.fromkeys(
            ("backup", "detect_zeroes", "iothread", "replicate", "ro", "scsiblock", "shared"),
            BOOLEAN,
        ),
        **dict.fromkeys(("snapshot", "ssd"), BOOLEAN),
    },
    default="file",
    aliases={"volume": "file"},
)
NETWORK: Final = Format(
    {
        **keys(
            model=Key(choices=NIC_MODELS, required=True),
            macaddr=MAC_ADDRESS,
            bridge=Key(pattern=r"[-_.\w\d]+"),
            queues=Key("integer", minimum=0, maximum=64),
            rate=Key("number", minimum=0),
            tag=Key("integer", minimum=1, maximum=4094),
            trunks=Key(),
            firewall=BOOLEAN,
            mtu=Key("integer", minimum=1, maximum=65520),
        ),
        "link_down": BOOLEAN,
    },
    default="model",
)
IP_CONFIG: Final = Format(
    keys(
        ip=Key(pattern=r"dhcp|(\d{1,3}\.){3}\d{1,3}/\d{1,2}"),
        gw=Key(pattern=r"(\d{1,3}\.){3}\d{1,3}"),
        ip6=Key(pattern=r"auto|dhcp|[0-9a-fA-F:.]+/\d{1,3}"),
        gw6=Key(pattern="[0-9a-fA-F:.]+"),
    )
)
AGENT: Final = Format(
    {
        "enabled": BOOLEAN,
        "fstrim_cloned_disks": BOOLEAN,
        "freeze-fs": BOOLEAN,
        "type": Key(choices=("virtio", "isa")),
    },
    default="enabled",
    aliases={"freeze-fs-on-backup": "freeze-fs", "guest-fsfreeze": "freeze-fs"},
)
CPU: Final = Format(
    keys(
        ("cputype", "flags", "guest-phys-bits", "level", "phys-bits", "reported-model"),
        hidden=BOOLEAN,
        hv_vendor_id=Key(),
    ),
    default="cputype",
)
MACHINE: Final = Format(
    keys(
        ("enable-s3", "enable-s4", "aw-bits"),
        type=Key(pattern=r"pc|q35|pc-(i440fx|q35)-\d+(\.\d+)+(\+pve\d+)?|virt(-\d+(\.\d+)+)?"),
        viommu=Key(choices=("intel", "virtio")),
    ),
    default="type",
)
MEMORY: Final = Format({"current": Key("integer", minimum=16, required=True)}, default="current")
BOOT: Final = Format(keys(legacy=Key(pattern="[acdn]{1,4}"), order=Key()), default="legacy")
VGA: Final = Format(
    keys(("type", "clipboard"), memory=Key("integer", minimum=4, maximum=512)), default="type"
)
SMBIOS: Final = Format(
    keys(("family", "manufacturer", "product", "serial", "sku", "uuid", "version"), base64=BOOLEAN)
)


@dataclass(frozen=True)
class Option:
    """One option of a VM's configuration."""

    rule: Key = field(default_factory=Key)
    privilege: str = ""
    """Below VM., for example Config.CPU; empty for what only root@pam may set."""
    hot: bool = False
    """A running VM takes a change at once; others wait for the next start."""
    format: Format | None = None


def _rows(privilege: str, *, hot: bool = False, **rules: Key | Format) -> dict[str, Option]:
    return {
        name.replace("_", "-"): Option(privilege=f"VM.{privilege}", hot=hot, format=rule)
        if isinstance(rule, Format)
        else Option(rule, f"VM.{privilege}", hot)
        for name, rule in rules.items()
    }


TEXT: Final = Key()
_POSITIVE: Final = Key("integer", minimum=1)
_COUNT: Final = Key("integer", minimum=0)
_DNS_NAME: Final = Key(
    pattern=r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)*"
    r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
)
OS_TYPES: Final = (
    "other", "wxp", "w2k", "w2k3", "w2k8", "wvista", "win7", "win8", "win10", "win11", "l24",
    "l26", "solaris",
)  # fmt: skip
SCSI_TYPES: Final = (
    "lsi", "lsi53c810", "virtio-scsi-pci", "virtio-scsi-single", "megasas", "pvscsi"
)  # fmt: skip

OPTIONS: Final[dict[str, Option]] = {
    **_rows(
        "Config.CPU",
        cores=_POSITIVE,
        cpu=CPU,
        cpulimit=Key("number", minimum=0, maximum=128),
        cpuunits=Key("integer", minimum=1, maximum=262144),
        numa=BOOLEAN,
        sockets=_POSITIVE,
        vcpus=_POSITIVE,
    ),
    **_rows(
        "Config.Memory",
        memory=MEMORY,
        balloon=_COUNT,
        shares=Key("integer", minimum=0),
        allow_ksm=BOOLEAN,
    ),
    **_rows(
        "Config.HWType",
        acpi=BOOLEAN,
        kvm=BOOLEAN,
        machine=MACHINE,
        scsihw=Key(choices=SCSI_TYPES),
        smbios1=SMBIOS,
        tablet=BOOLEAN,
        vga=VGA,
        watchdog=TEXT,
        audio0=TEXT,
        rng0=TEXT,
    ),
    **_rows("Config.HWType", hot=True, hotplug=TEXT),
    **_rows(
        "Config.Options",
        agent=AGENT,
        bios=Key(choices=("seabios", "ovmf")),
        freeze=BOOLEAN,
        keyboard=TEXT,
        localtime=BOOLEAN,
        ostype=Key(choices=OS_TYPES),
        reboot=BOOLEAN,
        startdate=TEXT,
        tdf=BOOLEAN,
        template=BOOLEAN,
    ),
    **_rows(
        "Config.Options",
        hot=True,
        autostart=BOOLEAN,
        description=Key(longest=8192),
        name=_DNS_NAME,
        onboot=BOOLEAN,
        protection=BOOLEAN,
        startup=TEXT,
        tags=Key(pattern=r"[a-z0-9_][a-z0-9_\-+.]*([;, ][a-z0-9_][a-z0-9_\-+.]*)*"),
    ),
    **_rows("Config.Disk", boot=BOOT, bootdisk=TEXT, vmstatestorage=TEXT),
    **_rows(
        "Config.Cloudinit",
        cicustom=TEXT,
        cipassword=TEXT,
        citype=Key(choices=("configdrive2", "nocloud", "opennebula")),
        ciuser=TEXT,
        ciupgrade=BOOLEAN,
        nameserver=TEXT,
        searchdomain=TEXT,
        sshkeys=TEXT,
    ),
    **dict.fromkeys(
        ("affinity", "args", "arch", "hookscript", "hugepages", "ivshmem", "lock", "vmgenid"),
        Option(),
    ),
    **dict.fromkeys(("amd-sev", "intel-tdx", "meta", "spice_enhancements"), Option()),
    "keephugepages": Option(BOOLEAN),
}

NUMBERED: Final[dict[str, tuple[int, Option]]] = {
    "hostpci": (16, Option(privilege="VM.Config.HWType", format=HOSTPCI)),
    "net": (32, Option(privilege="VM.Config.Network", hot=True, format=NETWORK)),
    "ipconfig": (32, Option(privilege="VM.Config.Cloudinit", format=IP_CONFIG)),
    "ide": (4, Option(privilege="VM.Config.Disk", format=DRIVE)),
    "sata": (6, Option(privilege="VM.Config.Disk", format=DRIVE)),
    "scsi": (31, Option(privilege="VM.Config.Disk", format=DRIVE)),
    "virtio": (16, Option(privilege="VM.Config.Disk", format=DRIVE)),
    "efidisk": (1, Option(privilege="VM.Config.Disk", format=DRIVE)),
    "tpmstate": (1, Option(privilege="VM.Config.Disk", format=DRIVE)),
    "unused": (256, Option(privilege="VM.Config.Disk", format=DRIVE)),
    "serial": (4, Option(Key(pattern=r"(/dev/.+|socket)"), "VM.Config.HWType")),
    "usb": (14, Option(privilege="VM.Config.HWType")),
    "numa": (8, Option(privilege="VM.Config.CPU")),
    "virtiofs": (10, Option(privilege="VM.Config.Disk")),
    "parallel": (3, Option()),
}
"""Families of options: how many there are, and what each is."""

_NAME: Final = re.compile(r"([a-z]+)(\d+)")
DRIVES: Final = ("ide", "sata", "scsi", "virtio", "efidisk", "tpmstate")


@cache
def option(name: str) -> Option | None:
    """The option of a name; None when PVE has none."""
    if name in OPTIONS:
        return OPTIONS[name]
    found = _NAME.fullmatch(name)
    if not found:
        return None
    count, entry = NUMBERED.get(found[1], (0, Option()))
    return entry if int(found[2]) < count and found[2] == str(int(found[2])) else None


def family(name: str) -> str:
    """`hostpci` for `hostpci0`; the name itself for an option that is there once."""
    found = _NAME.fullmatch(name)
    return found[1] if found and name not in OPTIONS else name


def index(name: str) -> int:
    """The number at the end of an option's name."""
    return int(name[len(family(name)) :] or 0)


def is_drive(name: str) -> bool:
    """Whether an option holds a disk or an optical drive."""
    return name not in OPTIONS and family(name) in DRIVES
