"""Creating a VM: what PVE refuses at once, what fails in the task, and what is there afterwards."""

from __future__ import annotations

import pytest

from rack.world.access import ROOT
from rack.world.errors import Refused
from tests.model.proxmoxworld import IMAGE, Site

DISK = "fast:0,import-from=local:import/talos.qcow2"


@pytest.fixture
def site() -> Site:
    made = Site()
    made.ok(made.download())
    return made


def refusal(site: Site, vmid: int = 100, **options: str) -> Refused:
    with pytest.raises(Refused) as refused:
        site.create(vmid, **options)
    return refused.value


def test_a_created_vm_is_there_and_stopped(site: Site) -> None:
    site.ok(site.create(101, name="node-1", scsi0=DISK, net0="virtio,bridge=vmbr0"))
    vm = site.world.vms[101]
    assert not vm.is_running
    assert vm.config["scsi0"] == "fast:vm-101-disk-0,size=1292M"
    assert vm.config["boot"] == "order=scsi0;net0"
    assert vm.config["net0"].startswith("virtio=BC:24:11:")
    assert site.world.hosts["pve"].volume("fast:vm-101-disk-0").image is not None  # type: ignore[union-attr]


def test_the_image_stays_where_it_was(site: Site) -> None:
    site.ok(site.create(101, scsi0=DISK))
    assert site.world.hosts["pve"].volume(IMAGE) is not None


def test_a_number_is_taken_once(site: Site) -> None:
    site.ok(site.create(101))
    error = refusal(site, 101)
    assert error.status == 500
    assert error.message == "unable to create VM 101 - VM 101 already exists on node 'pve'\n"
    site.ok(site.create(102))


@pytest.mark.parametrize(
    ("option", "status", "text"),
    [
        ("local:8", 400, "storage 'local' does not support vm images"),
        ("none-such:8", 500, "storage 'none-such' does not exist"),
        ("fast:8,import-from=local:import/talos.qcow2", 400, "requires special syntax"),
        ("fast:0,import-from=local:iso/talos.iso", 400, "has wrong type 'iso'"),
        ("fast:0,import-from=/tmp/talos.qcow2", 500, "Only root can pass arbitrary"),
        ("local:iso/talos.iso", 400, "explicit 'media=cdrom' is required"),
        ("local:import/talos.qcow2", 400, "content type needs to be 'images' or 'iso'"),
    ],
)
def test_a_disk_that_cannot_be_is_refused_at_once(
    site: Site, option: str, status: int, text: str
) -> None:
    error = refusal(site, scsi0=option)
    assert error.status == status
    assert text in f"{error.message}{error.errors}"
    assert site.world.vms == {}


def test_a_missing_image_fails_in_the_task_and_leaves_nothing(site: Site) -> None:
    upid = site.create(
        101,
        efidisk0="fast:1,efitype=4m",
        scsi0="fast:0,import-from=local:import/missing.qcow2",
    )
    assert site.failure(upid) == (
        "unable to create VM 101 - cannot import from 'local:import/missing.qcow2' - volume "
        "'local:import/missing.qcow2' does not exist"
    )
    assert site.world.vms == {}
    assert list(site.world.hosts["pve"].volumes_of(101)) == []


def test_a_full_storage_fails_in_the_task_and_leaves_nothing(site: Site) -> None:
    site.world.hosts["pve"].storages["fast"].capacity_gib = 0
    assert "not enough" in site.failure(site.create(101, scsi0=DISK))
    assert list(site.world.hosts["pve"].volumes_of(101)) == []


def test_a_raw_address_is_for_the_root_user_alone(site: Site) -> None:
    error = refusal(site, hostpci0="0000:01:00,pcie=1")
    assert error.message == "only root can set 'hostpci0' config for non-mapped devices\n"
    site.who = ROOT
    site.ok(site.create(101, hostpci0="0000:01:00,pcie=1"))
    site.world.access.add_token(f"{ROOT}!t1", "s", "Administrator")
    site.who = f"{ROOT}!t1"
    assert "only root" in refusal(site, 102, hostpci0="0000:01:00").message


def test_a_mapping_needs_the_privilege_to_use_it_but_need_not_be_there(site: Site) -> None:
    site.ok(site.create(101, hostpci0="mapping=gpu9,pcie=1"))
    site.grant("builder@pve", "/mapping/pci/secret", "NoAccess")
    error = refusal(site, 102, hostpci0="mapping=secret,pcie=1")
    assert error.message == "Permission check failed (/mapping/pci/secret, Mapping.Use)\n"


@pytest.mark.parametrize(
    ("path", "options", "privilege"),
    [
        ("/storage/fast", {"scsi0": "fast:8"}, "Datastore.AllocateSpace"),
        ("/sdn", {"net0": "virtio,bridge=vmbr0"}, "SDN.Use"),
        ("/vms/100", {"memory": "512"}, ""),
    ],
)
def test_a_missing_privilege_is_named(
    site: Site, path: str, options: dict[str, str], privilege: str
) -> None:
    site.grant("builder@pve", path, "NoAccess")
    error = refusal(site, 100, **options)
    assert error.status == 403
    assert privilege in error.message


def test_options_of_the_root_user_are_refused_for_others(site: Site) -> None:
    assert refusal(site, args="-cpu host").message == "only root can set 'args' config\n"


def test_startup_changes_the_host_and_takes_its_privilege(site: Site) -> None:
    site.world.access.add_token("small@pve!t1", "s", "GpuPassthrough")
    site.who = "small@pve!t1"
    site.ok(site.create(101, onboot="1"))
    assert refusal(site, 102, startup="order=1").message == (
        "Permission check failed (/, Sys.Modify)\n"
    )


def test_a_vm_has_one_cloud_init_drive(site: Site) -> None:
    site.ok(site.create(101, ide2="fast:cloudinit"))
    assert site.world.vms[101].config["ide2"] == "fast:vm-101-cloudinit,media=cdrom"
    upid = site.create(102, ide2="fast:cloudinit", scsi1="fast:cloudinit")
    assert "cloud-init drive is already attached at 'ide2'" in site.failure(upid)


def test_an_efi_disk_has_the_size_of_its_type(site: Site) -> None:
    site.ok(site.create(101, efidisk0="fast:1,efitype=4m,pre-enrolled-keys=0"))
    assert "size=4M" in site.world.vms[101].config["efidisk0"]


def test_addresses_differ_between_cards_and_vms(site: Site) -> None:
    site.ok(site.create(101, net0="virtio,bridge=vmbr0", net1="virtio,bridge=vmbr0"))
    site.ok(site.create(102, net0="virtio,bridge=vmbr0"))
    macs = [card["macaddr"] for vm in site.world.vms.values() for _, card in vm.networks()]
    assert len(set(macs)) == 3


@pytest.mark.parametrize(
    "text", ["virtio=BC:24:11:00:00:01,bridge=vmbr0", "model=virtio,macaddr=BC:24:11:00:00:01"]
)
def test_both_ways_to_write_a_network_card_mean_the_same(site: Site, text: str) -> None:
    site.ok(site.create(101, net0=text))
    assert site.world.vms[101].config["net0"].startswith("virtio=BC:24:11:00:00:01")
