"""Tables: which property of a VM block is which key of its PVE option.

Keys and their meaning when absent are qemu-server's (`qm.conf`); which of them are written, and
the defaults, are the official provider's.
"""

from __future__ import annotations

from typing import Final

from rack.plugins.proxmoxve.codec import Field, Fields

SCALARS: Final[Fields] = (
    Field("acpi", "acpi", "boolean", True),
    Field("bios", "bios", absent="seabios"),
    Field("description", "description"),
    Field("hookScriptFileId", "hookscript"),
    Field("hotplug", "hotplug"),
    Field("keyboardLayout", "keyboard", absent="en-us"),
    Field("kvmArguments", "args"),
    Field("machine", "machine"),
    Field("name", "name"),
    Field("onBoot", "onboot", "boolean", False),
    Field("protection", "protection", "boolean", False),
    Field("scsiHardware", "scsihw", absent="lsi"),
    Field("tabletDevice", "tablet", "boolean", True),
)

CPU: Final[Fields] = (
    Field("architecture", "arch"),
    Field("cores", "cores", "integer", 1),
    Field("hotplugged", "vcpus", "integer", 0, 0),
    Field("limit", "cpulimit", "number", 0, 0),
    Field("numa", "numa", "boolean", False),
    Field("sockets", "sockets", "integer", 1),
    Field("units", "cpuunits", "integer", unset=0),
    Field("affinity", "affinity"),
)
CPU_MODEL: Final[Fields] = (
    Field("type", "cputype", absent="qemu64"),
    Field("flags", "flags", "list"),
)
MEMORY: Final[Fields] = (
    Field("dedicated", "memory", "integer", 512),
    # 0 is written: it says that there is no balloon device.
    Field("floating", "balloon", "integer", 0),
    Field("hugepages", "hugepages"),
    Field("keepHugepages", "keephugepages", "boolean", False, False),
)
OPERATING_SYSTEM: Final[Fields] = (Field("type", "ostype", absent="other"),)

AGENT: Final[Fields] = (
    Field("enabled", "enabled", "boolean", False),
    Field("trim", "fstrim_cloned_disks", "boolean", False),
    Field("type", "type", absent="virtio"),
)
AMD_SEV: Final[Fields] = (
    Field("type", "type", absent="std"),
    Field("allowSmt", "allow-smt", "boolean", False),
    Field("kernelHashes", "kernel-hashes", "boolean", False),
    Field("noDebug", "no-debug", "boolean", False),
    Field("noKeySharing", "no-key-sharing", "boolean", False),
)
AUDIO: Final[Fields] = (Field("device", "device"), Field("driver", "driver", absent="spice"))
DISK: Final[Fields] = (
    Field("aio", "aio", absent="io_uring"),
    Field("backup", "backup", "boolean", True),
    Field("iothread", "iothread", "boolean", False),
    Field("queues", "queues", "integer", 0, 0),
    Field("serial", "serial"),
    Field("ssd", "ssd", "boolean", False),
    Field("discard", "discard", absent="ignore"),
    Field("cache", "cache", absent="none"),
    Field("replicate", "replicate", "boolean", True),
)
DISK_SPEED: Final[Fields] = (
    Field("iopsRead", "iops_rd", "integer", 0, 0),
    Field("iopsWrite", "iops_wr", "integer", 0, 0),
    Field("iopsReadBurstable", "iops_rd_max", "integer", 0, 0),
    Field("iopsWriteBurstable", "iops_wr_max", "integer", 0, 0),
    Field("readBurstable", "mbps_rd_max", "integer", 0, 0),
    Field("writeBurstable", "mbps_wr_max", "integer", 0, 0),
    Field("read", "mbps_rd", "integer", 0, 0),
    Field("write", "mbps_wr", "integer", 0, 0),
)
EFI_DISK: Final[Fields] = (
    Field("fileFormat", "format"),
    Field("type", "efitype", absent="2m"),
    Field("preEnrolledKeys", "pre-enrolled-keys", "boolean", False),
)
HOSTPCI: Final[Fields] = (
    Field("id", "host"),
    Field("mapping", "mapping"),
    Field("mdev", "mdev"),
    Field("pcie", "pcie", "boolean", False),
    # The official provider writes rombar=0 when the program leaves `rombar` out.
    Field("rombar", "rombar", "boolean", True),
    Field("romFile", "romfile"),
    Field("xvga", "x-vga", "boolean", False),
)
NETWORK: Final[Fields] = (
    Field("bridge", "bridge"),
    Field("firewall", "firewall", "boolean", False),
    Field("disconnected", "link_down", "boolean", False, False),
    Field("queues", "queues", "integer", 0, 0),
    Field("rateLimit", "rate", "number", 0, 0),
    Field("vlanId", "tag", "integer", 0, 0),
    Field("mtu", "mtu", "integer", 0, 0),
    Field("trunks", "trunks"),
)
NUMA: Final[Fields] = (
    Field("cpus", "cpus"),
    Field("hostnodes", "hostnodes"),
    Field("memory", "memory", "integer"),
    Field("policy", "policy", absent="preferred"),
)
RNG: Final[Fields] = (
    Field("source", "source"),
    Field("maxBytes", "max_bytes", "integer", 1024),
    Field("period", "period", "integer", 1000),
)
SMBIOS_TEXTS: Final[Fields] = tuple(
    Field(name, name) for name in ("family", "manufacturer", "product", "serial", "sku", "version")
)
STARTUP: Final[Fields] = (
    Field("order", "order", "integer", -1, -1),
    Field("upDelay", "up", "integer", -1, -1),
    Field("downDelay", "down", "integer", -1, -1),
)
TPM: Final[Fields] = (Field("version", "version", absent="v2.0"),)
USB: Final[Fields] = (
    Field("host", "host"),
    Field("mapping", "mapping"),
    Field("usb3", "usb3", "boolean", False),
)
VGA: Final[Fields] = (
    Field("clipboard", "clipboard"),
    Field("memory", "memory", "integer", 16),
    Field("type", "type", absent="std"),
)
VIRTIOFS: Final[Fields] = (
    Field("mapping", "dirid"),
    Field("cache", "cache", absent="auto"),
    Field("directIo", "direct-io", "boolean", False),
    Field("exposeAcl", "expose-acl", "boolean", False),
    Field("exposeXattr", "expose-xattr", "boolean", False),
)
WATCHDOG: Final[Fields] = (
    Field("model", "model", absent="i6300esb"),
    Field("action", "action", absent="none"),
)

HOT_OPTIONS: Final = frozenset(
    {"description", "hookscript", "hotplug", "name", "onboot", "protection", "startup", "tags"}
)
"""Options that take effect on a running VM."""
