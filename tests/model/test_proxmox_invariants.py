"""Whatever is done in whatever order: what must never be, is not."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from rack.world.datacenter import Datacenter
from rack.world.errors import Refused
from rack.world.mapping import PciMapping
from tests.model.proxmoxworld import CARD, IMAGE, OTHER_CARD, Site

VMIDS = st.sampled_from([100, 101, 102])
OPERATIONS = st.one_of(
    st.tuples(st.just("create"), VMIDS, st.sampled_from(["gpu0", "gpu1", "any", "gone"])),
    st.tuples(st.just("start"), VMIDS, st.just("")),
    st.tuples(st.just("stop"), VMIDS, st.just("")),
    st.tuples(st.just("reboot"), VMIDS, st.just("")),
    st.tuples(st.just("destroy"), VMIDS, st.just("")),
    st.tuples(st.just("unplug"), VMIDS, st.just("scsi0")),
    st.tuples(st.just("wait"), VMIDS, st.sampled_from(["1", "10"])),
    st.tuples(st.just("break"), VMIDS, st.sampled_from(["iommu", "disk", "power"])),
)


def act(site: Site, operation: str, vmid: int, detail: str) -> None:
    host = site.world.hosts["pve"]
    match operation:
        case "create":
            disk = f"fast:0,import-from={IMAGE}"
            site.create(vmid, machine="q35", scsi0=disk, hostpci0=f"mapping={detail},pcie=1")
        case "start":
            site.start(vmid)
        case "stop":
            site.vms.stop(vmid)
        case "reboot":
            site.vms.reboot(vmid)
        case "destroy":
            site.vms.destroy(vmid, unreferenced=True)
        case "unplug":
            site.vms.configure(vmid, {}, detail, "")
        case "wait":
            site.now += float(detail)
            site.world.advance(site.now)
        case "break":
            break_host(site, detail)
            assert host.name == "pve"


def break_host(site: Site, what: str) -> None:
    host = site.world.hosts["pve"]
    if what == "iommu":
        host.iommu = not host.iommu
    elif what == "power":
        site.world.power_cycle("pve", site.now)
    else:
        host.storages["fast"].capacity_gib = 1


def check(world: Datacenter) -> None:
    host = world.hosts["pve"]
    held = [address for vm in world.vms.values() for address in vm.passed]
    assert len(held) == len(set(held)), "a function is held twice"
    assert all(vm.is_running for vm in world.vms.values() if vm.passed)
    assert set(held) <= set(host.taken), "a guest holds what the host still drives"
    being_made = {vm.vmid for vm in world.vms.values() if vm.lock}
    for storage in host.storages.values():
        for volume in storage.volumes.values():
            if volume.vmid is not None and volume.vmid not in being_made:
                assert volume.vmid in world.vms, f"{volume.id} belongs to nobody"
    for vm in world.vms.values():
        if vm.machine is not None and not vm.is_running:
            assert vm.machine.stage == "off"
    text = world.model_dump_json()
    assert Datacenter.model_validate_json(text).model_dump_json() == text


@settings(max_examples=60, deadline=None)
@given(st.lists(OPERATIONS, max_size=14), st.booleans())
def test_no_sequence_of_requests_breaks_the_world(
    operations: list[tuple[str, int, str]], slow: bool
) -> None:
    site = Site()
    maps = {"gpu0": [CARD], "gpu1": [OTHER_CARD], "any": [CARD, OTHER_CARD]}
    site.world.mappings = {name: PciMapping(map=entries) for name, entries in maps.items()}
    site.ok(site.download())
    site.world.latency = "realistic" if slow else "instant"
    for operation, vmid, detail in operations:
        with suppress(Refused):
            act(site, operation, vmid, detail)
        check(site.world)
    site.world.advance(site.now + 1000)
    check(site.world)
    assert all(task.exit_status for task in site.world.tasks)
