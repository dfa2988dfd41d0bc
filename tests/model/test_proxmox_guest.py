"""What the guest gets from its VM: network, hardware, cards, and a disk that remembers."""

from __future__ import annotations

import pytest

from rack.world.machine import Machine
from rack.world.mapping import PciMapping
from tests.model.proxmoxworld import CARD, IMAGE, Site

DISK = f"fast:0,import-from={IMAGE}"
NODE = {
    "name": "k8s-worker-1.lan",
    "cpu": "host",
    "machine": "q35",
    "bios": "ovmf",
    "cores": "4",
    "memory": "16384",
    "efidisk0": "fast:1,efitype=4m,pre-enrolled-keys=0",
    "scsi0": DISK,
    "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0",
    "ide2": "fast:cloudinit",
    "ipconfig0": "ip=10.0.0.21/24,gw=10.0.0.1",
    "nameserver": "10.0.0.2 10.0.0.3",
    "hostpci0": "mapping=gpu0,pcie=1",
}


@pytest.fixture
def site() -> Site:
    made = Site()
    made.world.mappings["gpu0"] = PciMapping(map=[CARD])
    made.ok(made.download())
    return made


def machine_of(site: Site, vmid: int = 100, **changes: str | None) -> Machine:
    options = {name: text for name, text in {**NODE, **changes}.items() if text is not None}
    site.ok(site.vms.create(vmid, options))
    site.ok(site.start(vmid))
    machine = site.world.vms[vmid].machine
    assert machine is not None
    return machine


def test_the_cloud_init_drive_tells_name_address_and_resolvers(site: Site) -> None:
    machine = machine_of(site)
    assert machine.nocloud.hostname == "k8s-worker-1"
    (interface,) = machine.nocloud.interfaces
    assert interface.mac_address == "BC:24:11:00:00:01"
    assert (interface.address, interface.gateway) == ("10.0.0.21/24", "10.0.0.1")
    assert machine.nocloud.nameservers == ("10.0.0.2", "10.0.0.3")
    assert machine.addresses == ["10.0.0.21"]


def test_without_resolvers_the_guest_gets_the_hosts(site: Site) -> None:
    assert machine_of(site, nameserver=None).nocloud.nameservers == ("10.0.0.53",)


def test_without_the_drive_the_guest_learns_nothing(site: Site) -> None:
    assert machine_of(site, ide2=None).nocloud.hostname == ""


@pytest.mark.parametrize("text", ["ip=dhcp", None])
def test_without_a_static_address_none_is_known(site: Site, text: str | None) -> None:
    assert machine_of(site, ipconfig0=text).addresses == []


def test_the_guest_finds_its_hardware_and_both_functions_of_its_card(site: Site) -> None:
    machine = machine_of(site)
    assert machine.hardware is not None
    assert (machine.hardware.cpus, machine.hardware.memory_mib) == (4, 16384)
    assert (machine.hardware.bios, machine.hardware.machine) == ("ovmf", "q35")
    assert not machine.hardware.secure_boot_keys
    assert [f.address for f in machine.functions] == ["0000:01:00.0", "0000:01:00.1"]


def test_pre_enrolled_keys_are_on_the_efi_disk(site: Site) -> None:
    machine = machine_of(site, efidisk0="fast:1,efitype=4m,pre-enrolled-keys=1")
    assert machine.hardware is not None
    assert machine.hardware.secure_boot_keys


def test_a_restart_is_the_same_machine_and_a_new_disk_another(site: Site) -> None:
    machine = machine_of(site)
    site.ok(site.vms.reboot(100))
    assert site.world.vms[100].machine is machine
    site.ok(site.vms.stop(100))
    site.vms.configure(100, {"scsi0": DISK}, "", "")
    site.ok(site.start())
    other = site.world.vms[100].machine
    assert other is not None
    assert other is not machine
    assert "unused0" in site.world.vms[100].config


def test_firmware_skips_an_empty_disk(site: Site) -> None:
    assert machine_of(site, scsi1="fast:8", boot="order=scsi1;scsi0").stage == "maintenance"


def test_a_disk_keeps_its_system_while_another_boots(site: Site) -> None:
    machine = machine_of(site, scsi1="fast:8")
    for order, found in (("scsi1", None), ("scsi0", machine)):
        site.ok(site.vms.stop(100))
        site.vms.configure(100, {"boot": f"order={order}"}, "", "")
        site.ok(site.start())
        assert site.world.vms[100].machine is found


def test_a_new_disk_of_an_old_name_holds_no_old_system(site: Site) -> None:
    machine = machine_of(site)
    site.ok(site.vms.stop(100))
    site.vms.configure(100, {}, "scsi0", "")
    site.vms.configure(100, {}, "unused0", "")
    site.now += 1
    site.vms.configure(100, {"scsi0": DISK}, "", "")
    site.ok(site.start())
    assert "vm-100-disk-1" in site.world.vms[100].config["scsi0"]
    assert site.world.vms[100].machine is not machine
    assert len(site.world.vms[100].systems) == 1
