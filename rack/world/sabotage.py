"""What can be broken on purpose: one entry each, with what it does and how it is undone.

Everything happens in the physical world or to a running program; nothing here knows who looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rack.world.datacenter import Datacenter
from rack.world.errors import Layer, Refused
from rack.world.faults import Fault
from rack.world.machine import Machine
from rack.world.pci import normalise
from rack.world.qemu import Vm
from rack.world.vmwork import WORK

NEVER_S: Final = 365 * 86400.0
"""How long a step takes that hangs."""
BROKEN_TEXT: Final = "simulated rack: this step was told to fail"


class FaultError(ValueError):
    """A fault cannot be injected so; the message says why."""


Arguments = Mapping[str, str]
Work = Callable[[Datacenter, Arguments, float], None]


@dataclass(frozen=True)
class Sabotage:
    """One thing that can be broken."""

    text: str
    """What happens, in a line."""
    layer: Layer | str
    """Where it shows first."""
    parameters: tuple[str, ...]
    inject: Work
    clear: Callable[[Datacenter], None] | None = None
    """Undoes it; None where what happened has happened."""


def _lose_mapping(world: Datacenter, given: Arguments, now: float) -> None:
    name = given["mapping"]
    if world.mappings.pop(name, None) is None:
        raise FaultError(f"there is no PCI mapping {name}; there are {_names(world.mappings)}")


def _move_card(world: Datacenter, given: Arguments, now: float) -> None:
    slot, new = given["address"].removesuffix(".0"), given["new-address"].removesuffix(".0")
    host = world.host(given["host"])
    if not host.at(slot):
        raise FaultError(f"host {host.name} has nothing at {slot}")
    if host.at(new) or normalise(new) is None:
        raise FaultError(f"{new} is no free PCI address, such as 0000:07:00")
    world.faults.moves[f"{host.name} {slot}"] = new


def _iommu_off(world: Datacenter, given: Arguments, now: float) -> None:
    name = world.host(given["host"]).name
    if name not in world.faults.iommu_off:
        world.faults.iommu_off.append(name)


def _iommu_on(world: Datacenter) -> None:
    world.faults.iommu_off.clear()
    for host in world.hosts.values():
        host.iommu = True


def _reboot(world: Datacenter, given: Arguments, now: float) -> None:
    _machine(world, given["node"])[1].reboot(now)


def _kill_node(world: Datacenter, given: Arguments, now: float) -> None:
    _machine(world, given["node"])[0].switch_off()


def _machine(world: Datacenter, name: str) -> tuple[Vm, Machine]:
    for vm, machine in world.machines:
        if name in (vm.name, str(vm.vmid)):
            return vm, machine
    names = _names(vm.name for vm, _ in world.machines)
    raise FaultError(f"no machine {name} runs; {names} do")


def _kill_api_server(world: Datacenter, given: Arguments, now: float) -> None:
    world.faults.dead_programs.append("kube-apiserver")


def _revive_api_server(world: Datacenter) -> None:
    world.faults.dead_programs.clear()


def _step(message: str, seconds: float, times: int | None) -> Work:
    def inject(world: Datacenter, given: Arguments, now: float) -> None:
        if given["step"] not in WORK:
            raise FaultError(f"there is no task {given['step']}; there are {_names(WORK)}")
        delay = float(given["seconds"]) if "seconds" in given else seconds
        fault = Fault(
            step=given["step"], target=given["target"], message=message, seconds=delay, times=times
        )
        world.faults.faults.append(fault)

    return inject


def _clear_steps(world: Datacenter) -> None:
    """Later tasks work again, and one that hung goes on."""
    world.faults.faults.clear()
    for task in world.tasks:
        if not task.exit_status and task.finish >= task.start + NEVER_S:
            task.finish -= NEVER_S


def _status_599(world: Datacenter, given: Arguments, now: float) -> None:
    world.faults.status_599 = int(given["times"])


def _clear_599(world: Datacenter) -> None:
    world.faults.status_599 = 0


def _fill_storage(world: Datacenter, given: Arguments, now: float) -> None:
    storage = world.host(given["host"]).storage(given["storage"])
    key = f"{given['host']} {storage.name}"
    world.faults.full.setdefault(key, storage.capacity_gib)
    storage.capacity_gib = max(storage.used >> 30, 0)


def _empty_storage(world: Datacenter) -> None:
    for key, capacity in world.faults.full.items():
        host, _, name = key.partition(" ")
        world.host(host).storage(name).capacity_gib = capacity
    world.faults.full.clear()


def _clear_moves(world: Datacenter) -> None:
    world.faults.moves.clear()


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


SABOTAGES: Final[dict[str, Sabotage]] = {
    "lose-mapping": Sabotage(
        "Somebody removes a PCI mapping.", "proxmox", ("mapping",), _lose_mapping
    ),
    "move-card": Sabotage(
        "A card has another address from the host's next boot on (power-cycle).",
        "proxmox",
        ("host", "address", "new-address"),
        _move_card,
        _clear_moves,
    ),
    "iommu-off": Sabotage(
        "A firmware update switches the IOMMU off; it shows at the host's next boot.",
        "proxmox",
        ("host",),
        _iommu_off,
        _iommu_on,
    ),
    "node-reboot": Sabotage("A machine restarts.", "talos", ("node",), _reboot),
    "node-dead": Sabotage("A VM loses its power and stays off.", "proxmox", ("node",), _kill_node),
    "api-server-dead": Sabotage(
        "The API server ends and does not come back.",
        "kubernetes",
        (),
        _kill_api_server,
        _revive_api_server,
    ),
    "step-fails": Sabotage(
        "The next task of a kind fails: qmcreate, qmstart, qmstop, download, …",
        "proxmox",
        ("step", "target"),
        _step(BROKEN_TEXT, 0.0, 1),
        _clear_steps,
    ),
    "step-hangs": Sabotage(
        "Tasks of a kind do not end.",
        "proxmox",
        ("step", "target"),
        _step("", NEVER_S, None),
        _clear_steps,
    ),
    "step-slow": Sabotage(
        "Tasks of a kind take longer.",
        "proxmox",
        ("step", "target", "seconds"),
        _step("", 0.0, None),
        _clear_steps,
    ),
    "task-status-599": Sabotage(
        "The API's proxy answers 599 when it is asked for a task, so many times.",
        "proxmox",
        ("times",),
        _status_599,
        _clear_599,
    ),
    "storage-full": Sabotage(
        "A storage is full.", "proxmox", ("host", "storage"), _fill_storage, _empty_storage
    ),
}
"""By name."""


def inject(world: Datacenter, name: str, values: list[str], now: float) -> None:
    """Break something.

    Raises:
        FaultError: there is no such fault, or it cannot be done to that.
    """
    entry = SABOTAGES.get(name)
    if entry is None:
        raise FaultError(f"there is no fault {name}; there are {', '.join(SABOTAGES)}")
    if len(values) != len(entry.parameters):
        wanted = " ".join(one.upper() for one in entry.parameters) or "nothing"
        raise FaultError(f"{name} takes {wanted}, not {' '.join(values) or 'nothing'}")
    try:
        entry.inject(world, dict(zip(entry.parameters, values, strict=True)), now)
    except Refused as refusal:
        raise FaultError(refusal.message.strip()) from None
    except ValueError as error:
        raise FaultError(str(error)) from None
    world.faults.injected[name] = " ".join(values)


def clear(world: Datacenter, name: str) -> None:
    """Undo a fault, or all of them.

    Raises:
        FaultError: there is no such fault.
    """
    if name != "all" and name not in SABOTAGES:
        raise FaultError(f"there is no fault {name}; there are all, {', '.join(SABOTAGES)}")
    for one in list(SABOTAGES) if name == "all" else [name]:
        undo = SABOTAGES[one].clear
        if undo is not None:
            undo(world)
        world.faults.injected.pop(one, None)
