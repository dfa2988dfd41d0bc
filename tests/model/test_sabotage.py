"""What is broken on purpose shows in the world, and is mended."""

from __future__ import annotations

import json

import pytest

from rack.world.datacenter import Datacenter
from rack.world.errors import Refused
from rack.world.guest_gpus import GuestGpu
from rack.world.mapping import PciMapping
from rack.world.qemu import Vm
from rack.world.sabotage import SABOTAGES, FaultError, clear, inject
from rack.world.silicon import identify
from tests.model.proxmoxworld import NOW, new_world

SLOT = "0000:01:00"
EXAMPLES = {
    "lose-mapping": ["card"],
    "move-card": ["pve", SLOT, "0000:07:00"],
    "iommu-off": ["pve"],
    "node-reboot": ["nobody"],
    "node-dead": ["nobody"],
    "api-server-dead": [],
    "step-fails": ["qmstart", "*"],
    "step-hangs": ["download", "*"],
    "step-slow": ["qmcreate", "111", "3"],
    "task-status-599": ["2"],
    "storage-full": ["pve", "local"],
}
NEED_A_MACHINE = {"node-reboot", "node-dead"}


@pytest.fixture
def world() -> Datacenter:
    made = new_world()
    made.mappings["card"] = PciMapping(map=[f"node=pve,path={SLOT},id=10de:2204,iommugroup=14"])
    return made


def test_every_fault_has_an_example() -> None:
    assert set(EXAMPLES) == set(SABOTAGES)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in NEED_A_MACHINE])
def test_each_is_kept_over_a_restart_and_mended(world: Datacenter, name: str) -> None:
    before = json.loads(world.faults.model_dump_json())
    inject(world, name, EXAMPLES[name], NOW)
    again = Datacenter.model_validate_json(world.model_dump_json())
    assert again.faults == world.faults
    assert world.faults.injected == {name: " ".join(EXAMPLES[name])}
    clear(world, name)
    assert json.loads(world.faults.model_dump_json()) == before


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("nonsense", [], "there is no fault nonsense; there are lose-mapping"),
        ("lose-mapping", [], "takes MAPPING, not nothing"),
        ("lose-mapping", ["other"], "no PCI mapping other; there are card"),
        ("move-card", ["pve", "0000:09:00", "0000:07:00"], "has nothing at 0000:09:00"),
        ("move-card", ["pve", SLOT, "0000:02:00"], "no free PCI address"),
        ("iommu-off", ["elsewhere"], "elsewhere"),
        ("node-dead", ["nobody"], "no machine nobody runs"),
        ("step-fails", ["nonsense", "*"], "there is no task nonsense"),
        ("step-slow", ["qmstart", "*", "soon"], "soon"),
        ("storage-full", ["pve", "other"], "other"),
        ("api-server-dead", ["now"], "takes nothing, not now"),
    ],
)
def test_what_cannot_be_done_is_said(
    world: Datacenter, name: str, values: list[str], says: str
) -> None:
    with pytest.raises(FaultError, match=says):
        inject(world, name, values, NOW)
    assert world.faults.injected == {}


def test_a_lost_mapping_is_gone(world: Datacenter) -> None:
    inject(world, "lose-mapping", ["card"], NOW)
    assert "card" not in world.mappings


def test_a_card_moves_at_the_hosts_next_boot(world: Datacenter) -> None:
    host = world.hosts["pve"]
    functions = len(host.at(SLOT))
    inject(world, "move-card", EXAMPLES["move-card"], NOW)
    assert len(host.at(SLOT)) == functions
    world.power_cycle("pve", NOW)
    assert (len(host.at(SLOT)), len(host.at("0000:07:00"))) == (0, functions)
    entry = world.mappings["card"].entries("pve")[0]
    with pytest.raises(Refused, match="not found"):
        world.mappings["card"].assert_valid("card", entry, host)


def test_the_iommu_goes_at_the_hosts_next_boot_and_comes_back(world: Datacenter) -> None:
    host = world.hosts["pve"]
    inject(world, "iommu-off", ["pve"], NOW)
    assert host.iommu
    world.power_cycle("pve", NOW)
    assert not host.iommu
    clear(world, "all")
    assert host.iommu


def test_a_card_that_moves_keeps_its_uuid(world: Datacenter) -> None:
    """It is burnt in: pods that held the card find it again."""

    def uuid() -> str:
        function = next(f for f in host.functions if f.is_nvidia_gpu and f.device == "0x2204")
        silicon = identify(function.vendor, function.device)
        facts = GuestGpu("pve", function, "0000:00:10.0", silicon, True).facts
        assert facts
        return facts.uuid

    host = world.hosts["pve"]
    before = uuid()
    for old, new in ((SLOT, "0000:07:00"), ("0000:07:00", "0000:08:00")):
        host.move(old, new)
        assert uuid() == before


def test_a_host_starts_its_vms_again_in_their_order(world: Datacenter) -> None:
    """qm.conf(5): onboot and startup; where pve-guests is masked nothing starts."""
    for vmid, options in (
        (1, {}),
        (2, {"onboot": "1"}),
        (3, {"onboot": "1", "startup": "order=1"}),
    ):
        world.vms[vmid] = Vm(vmid=vmid, node="pve", config=options)
    world.power_cycle("pve", NOW, guests=False)
    assert not world.tasks
    world.power_cycle("pve", NOW)
    assert [(one.kind, one.id, one.user) for one in world.tasks] == [
        ("qmstart", "3", "root@pam"),
        ("qmstart", "2", "root@pam"),
    ]


def test_a_full_storage_takes_nothing_and_has_room_again(world: Datacenter) -> None:
    storage = world.hosts["pve"].storages["local"]
    inject(world, "storage-full", ["pve", "local"], NOW)
    with pytest.raises(Refused, match="No space left"):
        storage.check_space(2 << 30)
    clear(world, "storage-full")
    storage.check_space(2 << 30)


def test_a_step_fails_once(world: Datacenter) -> None:
    inject(world, "step-fails", ["qmstart", "11*"], NOW)
    world.faults.strike("qmstart", "121")
    with pytest.raises(Refused, match="told to fail"):
        world.faults.strike("qmstart", "111")
    world.faults.strike("qmstart", "111")


def test_a_step_takes_longer_until_it_is_mended(world: Datacenter) -> None:
    inject(world, "step-slow", ["qmcreate", "111", "3"], NOW)
    assert (world.faults.delay("qmcreate", "111"), world.faults.delay("qmcreate", "112")) == (3, 0)
    clear(world, "step-slow")
    assert world.faults.delay("qmcreate", "111") == 0
