"""Changing, growing and removing VMs."""

from __future__ import annotations

import pytest

from rack.world.errors import Refused
from tests.model.proxmoxworld import IMAGE, Site


@pytest.fixture
def site() -> Site:
    made = Site()
    made.ok(made.download())
    disk = f"fast:0,import-from={IMAGE}"
    net = "virtio,bridge=vmbr0"
    made.ok(made.create(100, name="one", cpu="host", memory="2048", scsi0=disk, net0=net))
    return made


def configure(site: Site, *, delete: str = "", digest: str = "", **options: str) -> None:
    site.vms.configure(100, options, delete, digest)


def refusal(site: Site, **changes: str) -> str:
    with pytest.raises(Refused) as refused:
        configure(site, **changes)
    return f"{refused.value.message}{refused.value.errors}"


def test_a_stopped_vm_takes_changes_at_once(site: Site) -> None:
    configure(site, cores="8")
    assert site.world.vms[100].config["cores"] == "8"
    assert site.world.vms[100].pending == {}


def test_a_running_vm_keeps_what_it_cannot_change_for_the_next_start(site: Site) -> None:
    site.ok(site.start())
    configure(site, cores="8", name="two")
    vm = site.world.vms[100]
    assert vm.config["name"] == "two"
    assert "cores" not in vm.config
    assert vm.effective()["cores"] == "8"
    site.ok(site.vms.reboot(100))
    assert vm.config["cores"] == "8"
    assert vm.pending == {}


def test_a_deletion_waits_as_well(site: Site) -> None:
    configure(site, cores="8")
    site.ok(site.start())
    configure(site, delete="cores")
    vm = site.world.vms[100]
    assert vm.config["cores"] == "8"
    assert "cores" not in vm.effective()
    site.ok(site.vms.stop(100))
    site.ok(site.start())
    assert "cores" not in vm.config


def test_a_disk_taken_out_is_kept_as_unused_and_then_removed(site: Site) -> None:
    host = site.world.hosts["pve"]
    configure(site, delete="scsi0")
    assert site.world.vms[100].config["unused0"] == "fast:vm-100-disk-0"
    configure(site, delete="unused0")
    assert host.volume("fast:vm-100-disk-0") is None


def test_settings_of_a_disk_change_without_touching_its_volume(site: Site) -> None:
    before = site.world.vms[100].config["scsi0"]
    configure(site, scsi0=f"{before},ssd=1")
    assert site.world.vms[100].config["scsi0"] == "fast:vm-100-disk-0,size=1292M,ssd=1"
    assert "unused0" not in site.world.vms[100].config


def test_what_is_refused_changes_nothing(site: Site) -> None:
    before = dict(site.world.vms[100].config)
    assert "does not exist" in refusal(site, name="two", scsi1="none-such:4")
    assert "unknown option 'colour'" in refusal(site, delete="colour")
    assert "at the same time" in refusal(site, cores="2", delete="cores")
    assert "no options specified" in refusal(site)
    assert "checksum mismatch" in refusal(site, cores="2", digest="0" * 40)
    assert "balloon value too large" in refusal(site, balloon="4096")
    assert site.world.vms[100].config == before


def test_the_right_digest_is_taken(site: Site) -> None:
    configure(site, cores="2", digest=site.world.vms[100].digest)


@pytest.mark.parametrize(("size", "becomes"), [("40G", "40G"), ("+4M", "1296M")])
def test_a_disk_grows(site: Site, size: str, becomes: str) -> None:
    site.ok(site.vms.resize(100, "scsi0", size))
    assert site.world.vms[100].config["scsi0"].endswith(f"size={becomes}")


@pytest.mark.parametrize(
    ("disk", "size", "text"),
    [
        ("scsi0", "1G", "shrinking disks is not supported"),
        ("scsi1", "40G", "disk 'scsi1' does not exist"),
    ],
)
def test_a_disk_neither_shrinks_nor_appears(site: Site, disk: str, size: str, text: str) -> None:
    assert site.failure(site.vms.resize(100, disk, size)) == text


def test_a_running_vm_is_not_removed_and_a_stopped_one_goes_with_its_disks(site: Site) -> None:
    site.ok(site.start())
    with pytest.raises(Refused, match="VM 100 is running - destroy failed"):
        site.vms.destroy(100, unreferenced=False)
    site.ok(site.vms.stop(100))
    site.ok(site.vms.destroy(100, unreferenced=False))
    assert site.world.vms == {}
    assert site.world.hosts["pve"].storages["fast"].volumes == {}
    assert site.world.hosts["pve"].volume(IMAGE) is not None


def test_protection_keeps_a_vm(site: Site) -> None:
    configure(site, protection="1")
    with pytest.raises(Refused, match="can't remove VM 100 - protection mode enabled"):
        site.vms.destroy(100, unreferenced=False)
    configure(site, protection="0")
    site.ok(site.vms.destroy(100, unreferenced=False))


def test_a_vm_that_is_not_there(site: Site) -> None:
    with pytest.raises(Refused) as refused:
        site.vms.start(999)
    assert refused.value.message == (
        "Configuration file 'nodes/pve/qemu-server/999.conf' does not exist\n"
    )


def test_stopping_a_stopped_vm_is_no_error_but_rebooting_it_is(site: Site) -> None:
    site.ok(site.vms.stop(100))
    site.ok(site.vms.shutdown(100, force=False))
    with pytest.raises(Refused, match="VM 100 not running"):
        site.vms.reboot(100)


def test_a_vm_without_a_system_does_not_hear_the_power_button(site: Site) -> None:
    site.ok(site.create(101))
    site.ok(site.start(101))
    assert site.failure(site.vms.shutdown(101, force=False)) == (
        "VM quit/powerdown failed - got timeout"
    )
    site.ok(site.vms.shutdown(101, force=True))
    configure(site, cpu="kvm64")
    site.ok(site.start(100))
    assert "got timeout" in site.failure(site.vms.shutdown(100, force=False))
    assert not site.world.vms[101].is_running
