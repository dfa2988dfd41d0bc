"""Every block of a VM, written, read back and compared: nothing may differ."""

from __future__ import annotations

import pytest

from rack.plugins.contract import Plain, PluginError
from rack.plugins.proxmoxve.codec import decode, encode, parse, unparse
from rack.plugins.proxmoxve.devices import HOSTPCI, STARTUP
from rack.plugins.proxmoxve.disks import gibibytes
from rack.plugins.proxmoxve.power import seconds_of
from tests.plugins.proxmoxve.driver import Engine
from tests.plugins.proxmoxve.fakepve import FakePve
from tests.plugins.proxmoxve.inputs import VM, changed

BLOCKS: dict[str, Plain] = {
    "agent": {"agent": {"enabled": False, "trim": True, "type": "isa"}},
    "amd-sev": {"amdSev": {"type": "snp", "allowSmt": False, "noDebug": True}},
    "audio": {"audioDevice": {"device": "ich9-intel-hda"}},
    "boot order": {"bootOrders": ["net0", "scsi0"]},
    "cdrom": {"cdrom": {"fileId": "local:iso/a.iso", "interface": "ide3"}},
    "empty cdrom": {"cdrom": {}},
    "cpu": {
        "cpu": {
            "type": "x86-64-v2-AES",
            "cores": 4,
            "sockets": 2,
            "flags": ["+aes", "-pcid"],
            "limit": 2.5,
            "units": 200,
            "numa": True,
            "affinity": "0-3",
            "hotplugged": 2,
        }
    },
    "description": {"description": "of, = and\nlines"},
    "disk options": {
        "disks": [
            {
                "interface": "scsi0",
                "size": 100,
                "ssd": True,
                "discard": "on",
                "cache": "writeback",
                "aio": "threads",
                "backup": False,
                "queues": 4,
                "serial": "abc",
                "replicate": False,
                "speed": {"read": 100, "iopsWriteBurstable": 7},
            },
            {"interface": "virtio1", "size": 1, "iothread": True},
            {"interface": "sata2", "size": 3},
        ]
    },
    "hotplug": {"hotplug": "usb,network"},
    "hugepages": {"memory": {"dedicated": 1024, "floating": 512, "hugepages": "2", "shared": 64}},
    "initialization": {
        "initialization": {
            "interface": "scsi5",
            "dns": {"domain": "home.arpa", "servers": ["10.0.0.1", "10.0.0.2"]},
            "ipConfigs": [
                {"ipv6": {"address": "fd00::2/64", "gateway": "fd00::1"}},
                {},
                {"ipv4": {"address": "dhcp"}, "ipv6": {"address": "auto"}},
            ],
            "userAccount": {"username": "me", "keys": ["ssh-ed25519 AAAA me@home, =", "ssh-rsa B"]},
            "type": "nocloud",
            "userDataFileId": "local:snippets/user.yaml",
            "networkDataFileId": "local:snippets/network.yaml",
        }
    },
    "machine": {"machine": "q35,viommu=intel"},
    "mdev": {"hostpcis": [{"device": "hostpci0", "id": "0000:01:00.0", "mdev": "nvidia-63"}]},
    "network": {
        "networkDevices": [
            {
                "model": "e1000",
                "macAddress": "BC:24:11:AA:BB:CC",
                "vlanId": 20,
                "mtu": 1400,
                "queues": 2,
                "rateLimit": 12.5,
                "firewall": True,
                "disconnected": True,
                "trunks": "10;20",
            },
            {"bridge": "vmbr1"},
        ]
    },
    "numa": {
        "numas": [
            {"device": "numa1", "cpus": "2-3", "memory": 1024, "policy": "bind"},
            {"device": "numa0", "cpus": "0-1", "memory": 1024, "hostnodes": "0"},
        ]
    },
    "rng": {"rngs": [{"source": "/dev/urandom"}]},
    "serial": {"serialDevices": [{}, {"device": "/dev/ttyS1"}]},
    "smbios": {"smbios": {"manufacturer": "ACME, Inc. = best", "serial": "1"}},
    "startup": {"startup": {"order": 0, "upDelay": 30}},
    "tags": {"tags": ["b", "a"]},
    "tpm": {"tpmState": {"version": "v2.0"}},
    "usb": {"usbs": [{"host": "1-2", "usb3": True}, {"mapping": "key"}]},
    "vga": {"vga": {"type": "none"}},
    "vga memory": {"vga": {"type": "qxl", "memory": 64, "clipboard": "vnc"}},
    "virtiofs": {"virtiofs": [{"mapping": "models", "cache": "never", "exposeAcl": True}]},
    "watchdog": {"watchdog": {"enabled": True, "action": "reset"}},
    "bare": {"disks": [], "networkDevices": [], "initialization": None, "efiDisk": None},
}


@pytest.mark.parametrize("block", BLOCKS)
def test_round_trip(engine: Engine, fake: FakePve, block: str) -> None:
    inputs = {name: value for name, value in changed(**BLOCKS[block]).items() if value is not None}
    resource_id, state = engine.create(VM, inputs)
    assert engine.diff(VM, state, inputs) == {}
    again, imported, _ = engine.read(VM, resource_id, state)
    assert (again, imported) == (resource_id, state)


@pytest.mark.parametrize("block", BLOCKS)
def test_taking_a_block_away_and_back(engine: Engine, fake: FakePve, block: str) -> None:
    """From any block to the plain VM and back, in place, ends where the inputs say."""
    inputs = {name: value for name, value in changed(**BLOCKS[block]).items() if value is not None}
    resource_id, state = engine.create(VM, inputs)
    for wanted in (changed(), inputs):
        kinds = engine.diff(VM, state, wanted)
        if any(kind.endswith("REPLACE") for kind in kinds.values()):
            return
        state = engine.update(VM, resource_id, state, wanted)
        assert engine.diff(VM, state, wanted) == {}


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({"clone": {"vmId": 100}}, "`clone` is not part of the simulated rack"),
        ({"disks": [{"interface": "scsi0", "fileId": "local:iso/a.img"}]}, "Use `importFrom`"),
        ({"disks": [{"interface": "virtio0", "queues": 2}]}, "only supported for SCSI disks"),
        ({"hostpcis": [{"device": "hostpci1"}]}, "PCI device hostpci1: either device ID or"),
    ],
)
def test_what_cannot_be_made_is_refused_before_anything_is(
    engine: Engine, fake: FakePve, inputs: Plain, reason: str
) -> None:
    with pytest.raises(PluginError, match=reason):
        engine.create(VM, changed(**inputs))
    assert fake.vms == {}


def test_property_strings() -> None:
    assert parse("0000:01:00,pcie=1", "host") == {"host": "0000:01:00", "pcie": "1"}
    assert parse("mapping=gpu0,x-vga=0", "host") == {"mapping": "gpu0", "x-vga": "0"}
    assert unparse({"a": "1", "b": None, "c": "x=y"}) == "a=1,c=x=y"
    assert decode(HOSTPCI, {"mapping": "gpu0"}) == {
        "mapping": "gpu0",
        "pcie": False,
        "rombar": True,
        "xvga": False,
    }
    assert encode(HOSTPCI, {"mapping": "gpu0", "pcie": True}) == {
        "mapping": "gpu0",
        "pcie": "1",
        "rombar": "0",
        "x-vga": "0",
    }
    assert encode(STARTUP, {"order": 0, "upDelay": -1}) == {"order": "0"}


@pytest.mark.parametrize(
    ("text", "size"), [("20G", 20), ("1T", 1024), ("4M", 1), ("1025M", 2), ("", 0), ("x", 0)]
)
def test_sizes(text: str, size: int) -> None:
    assert gibibytes(text) == size


@pytest.mark.parametrize(("text", "seconds"), [("15m", 900), ("1h30m", 5400), ("1.5s", 1.5)])
def test_durations(text: str, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)
