"""Starting a VM: what PVE refuses in the task, and what a start takes from the host."""

from __future__ import annotations

import pytest

from rack.world.access import ROOT
from rack.world.host import VFIO
from rack.world.mapping import PciMapping
from tests.model.proxmoxworld import CARD, IMAGE, OTHER_CARD, Site


@pytest.fixture
def site() -> Site:
    made = Site()
    made.world.mappings["gpu0"] = PciMapping(map=[CARD])
    made.world.mappings["gpu1"] = PciMapping(map=[OTHER_CARD])
    return made


def test_a_start_takes_the_whole_group_from_the_host_and_passes_every_function(site: Site) -> None:
    host = site.world.hosts["pve"]
    site.gpu_vm()
    assert host.taken == {}
    site.ok(site.start())
    assert site.world.vms[100].passed == ["0000:01:00.0", "0000:01:00.1"]
    assert host.taken == {"0000:01:00.0": VFIO, "0000:01:00.1": VFIO}


def test_one_function_passes_alone_but_its_group_is_taken(site: Site) -> None:
    one = CARD.replace("01:00,", "01:00.0,")
    site.world.mappings["gpu0"] = PciMapping(map=[one])
    site.gpu_vm()
    site.ok(site.start())
    assert site.world.vms[100].passed == ["0000:01:00.0"]
    assert set(site.world.hosts["pve"].taken) == {"0000:01:00.0", "0000:01:00.1"}


def test_a_group_with_the_network_card_takes_it_from_the_host(site: Site) -> None:
    usb = "node=pve,path=0000:06:00,id=1b73:1100,iommugroup=16"
    site.world.mappings["usb"] = PciMapping(map=[usb])
    site.gpu_vm(hostpci0="mapping=usb")
    site.ok(site.start())
    assert site.world.hosts["pve"].losses == ["network card 0000:04:00.0 (igc)"]
    site.world.power_cycle("pve", site.now)
    assert site.world.hosts["pve"].losses == []
    assert not site.world.vms[100].is_running


def test_a_device_is_for_one_running_vm(site: Site) -> None:
    site.gpu_vm(100)
    site.gpu_vm(101)
    site.gpu_vm(102, hostpci0="mapping=gpu1,pcie=1")
    site.ok(site.start(100))
    assert site.failure(site.start(101)) == (
        "PCI device '0000:01:00.0' already in use by VMID '100'"
    )
    assert not site.world.vms[101].is_running
    site.ok(site.start(102))
    site.ok(site.vms.stop(100))
    site.ok(site.start(101))


def test_two_functions_of_a_group_cannot_go_to_two_vms(site: Site) -> None:
    site.who = ROOT
    site.ok(site.create(100, hostpci0="0000:01:00.0"))
    site.ok(site.create(101, hostpci0="0000:01:00.1"))
    site.ok(site.start(100))
    task = site.task(site.start(101))
    assert task.exit_status == "start failed: QEMU exited with code 1"
    assert any("/dev/vfio/14: Device or resource busy" in line for line in task.log)


@pytest.mark.parametrize(
    ("machine", "starts"), [("q35", True), ("pc-q35-9.0", True), ("pc", False)]
)
def test_pci_express_needs_q35(site: Site, machine: str, starts: bool) -> None:
    site.gpu_vm(machine=machine)
    task = site.task(site.start())
    assert site.world.vms[100].is_running is starts
    if not starts:
        assert task.exit_status.startswith("q35 machine model is not enabled at ")


def test_without_pcie_the_old_machine_will_do(site: Site) -> None:
    site.gpu_vm(machine="pc", hostpci0="mapping=gpu0")
    site.ok(site.start())


def test_without_iommu_a_mapping_is_invalid_and_a_raw_device_refused(site: Site) -> None:
    site.world.hosts["pve"].iommu = False
    site.gpu_vm(100)
    assert site.failure(site.start(100)) == (
        "PCI device mapping invalid (hardware probably changed): unexpected property "
        "'iommugroup' configured for device '0000:01:00.0'"
    )
    site.who = ROOT
    site.ok(site.create(101, hostpci0="0000:01:00"))
    assert site.failure(site.start(101)) == ("cannot prepare PCI pass-through, IOMMU not present")


def test_a_card_that_moved_is_not_replaced_by_its_neighbour(site: Site) -> None:
    host = site.world.hosts["pve"]
    site.gpu_vm()
    moved = {"0000:01": "0000:02", "0000:02": "0000:01"}
    host.functions = [
        f.model_copy(update={"address": moved.get(f.address[:7], f.address[:7]) + f.address[7:]})
        for f in host.functions
    ]
    assert site.failure(site.start()) == (
        "PCI device mapping invalid (hardware probably changed): 'id' does not match for "
        "'gpu0' (10de:2705 != 10de:2204)"
    )


def test_a_mapping_that_is_gone_keeps_the_vm_from_starting_only(site: Site) -> None:
    site.gpu_vm()
    mapping = site.world.mappings.pop("gpu0")
    assert site.failure(site.start()) == "PCI device mapping not found for 'gpu0'"
    site.world.mappings["gpu0"] = mapping
    site.ok(site.start())


def test_a_mapping_of_several_devices_gives_a_free_one(site: Site) -> None:
    site.world.mappings["any"] = PciMapping(map=[CARD, OTHER_CARD])
    for vmid in (100, 101, 102):
        site.gpu_vm(vmid, hostpci0="mapping=any,pcie=1")
    site.ok(site.start(100))
    site.ok(site.start(101))
    assert site.world.vms[101].passed == ["0000:02:00.0", "0000:02:00.1"]
    assert site.failure(site.start(102)) == "could not find a free device for 'hostpci0'"


def test_a_device_is_listed_once_per_vm(site: Site) -> None:
    site.gpu_vm(hostpci1="mapping=gpu0,pcie=1")
    assert site.failure(site.start()) == "device '0000:01:00.0' assigned more than once"


def test_two_cards_in_one_vm(site: Site) -> None:
    site.gpu_vm(hostpci1="mapping=gpu1,pcie=1")
    site.ok(site.start())
    assert len(site.world.vms[100].passed) == 4


@pytest.mark.parametrize(("memory", "starts"), [("49152", True), ("49153", False)])
def test_passthrough_pins_memory_so_it_has_to_fit_beside_the_others(
    site: Site, memory: str, starts: bool
) -> None:
    site.gpu_vm(100, memory="16384")
    site.ok(site.start(100))
    site.gpu_vm(101, hostpci0="mapping=gpu1,pcie=1", memory=memory)
    task = site.task(site.start(101))
    assert site.world.vms[101].is_running is starts
    assert any("Cannot allocate memory" in line for line in task.log) is not starts


def test_without_passthrough_memory_may_be_promised_twice(site: Site) -> None:
    for vmid in (100, 101):
        site.ok(site.create(vmid, memory="40000"))
        site.ok(site.start(vmid))
    site.ok(site.create(102, memory="70000"))
    assert site.failure(site.start(102)) == "start failed: QEMU exited with code 1"


def test_what_is_missing_on_the_host_is_named(site: Site) -> None:
    site.ok(site.create(100, net0="virtio,bridge=vmbr7"))
    assert site.failure(site.start(100)) == "bridge 'vmbr7' does not exist"
    site.ok(site.create(101, scsi0="fast:8"))
    site.world.hosts["pve"].free("fast:vm-101-disk-0")
    assert site.failure(site.start(101)) == "volume 'fast:vm-101-disk-0' does not exist"
    site.ok(site.create(102, cores="17"))
    assert site.failure(site.start(102)) == "MAX 16 vcpus allowed per VM on this node"


def test_a_running_vm_is_not_started_again(site: Site) -> None:
    site.ok(site.create())
    site.ok(site.start())
    assert site.failure(site.start()) == "VM 100 already running"


def test_a_start_boots_the_system_of_the_disk_and_a_stop_ends_it(site: Site) -> None:
    site.ok(site.download())
    site.ok(site.create(cpu="host", scsi0=f"fast:0,import-from={IMAGE}", ide2="fast:cloudinit"))
    site.ok(site.start())
    assert [machine.stage for _, machine in site.world.machines] == ["maintenance"]
    site.ok(site.vms.stop(100))
    assert list(site.world.machines) == []
    machine = site.world.vms[100].machine
    assert machine is not None
    assert machine.stage == "off"


def test_an_empty_disk_boots_nothing(site: Site) -> None:
    site.ok(site.create(scsi0="fast:8"))
    site.ok(site.start())
    assert site.world.vms[100].is_running
    assert site.world.vms[100].machine is None
