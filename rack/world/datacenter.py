"""The whole physical world of a rack: hosts, VMs, mappings, users, tasks and faults.

Nothing here does I/O or reads a clock: `now` is given, in seconds of Unix time. Everything but the
way to fetch a URL is data and survives the daemon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, PrivateAttr

from rack.world.access import ROOT, Access
from rack.world.errors import Refused
from rack.world.faults import Faults
from rack.world.host import Host
from rack.world.machine import Machine
from rack.world.mapping import PciMapping
from rack.world.nodefacts import ClusterFacts, NodeFacts
from rack.world.qemu import Vm
from rack.world.schematic import Schematic
from rack.world.storage import Fetch, FetchedImage
from rack.world.tasks import SECONDS, Latency, Task, new_upid
from rack.world.vmwork import WORK

KEPT_TASKS: Final = 200
CLOCK_TICKS: Final = 100
"""Of a process's start time, per second."""


class Datacenter(BaseModel):
    """The aggregate. One thing at a time may change it; the daemon sees to that."""

    hosts: dict[str, Host]
    mappings: dict[str, PciMapping] = {}
    access: Access = Access()
    vms: dict[int, Vm] = {}
    tasks: list[Task] = []
    schematics: dict[str, Schematic] = {}
    """Schematics that the image factory knows, by id."""
    faults: Faults = Faults()
    latency: Latency = "instant"
    next_pid: int = 4242
    _fetch: Fetch | None = PrivateAttr(default=None)

    def fetch_through(self, fetch: Fetch) -> None:
        """Say how hosts of this rack reach URLs."""
        self._fetch = fetch

    def fetch(self, url: str) -> FetchedImage:
        """What a host finds behind a URL.

        Raises:
            Refused: nothing; only the rack's own image factory can be reached.
        """
        if self._fetch is None:
            raise Refused(f"download failed: the simulated rack has no network to reach {url}\n")
        return self._fetch(url)

    def set_latency(self, latency: Latency) -> None:
        """Say how long things take from now on."""
        self.latency = latency
        for vm in self.vms.values():
            for machine in vm.systems.values():
                machine.latency = latency

    def host(self, name: str) -> Host:
        """A host by its name.

        Raises:
            Refused: there is none.
        """
        if name not in self.hosts:
            raise Refused(
                f"hostname lookup '{name}' failed - failed to get address info for: {name}: "
                "Name or service not known\n"
            )
        return self.hosts[name]

    def vm(self, vmid: int, node: str | None = None) -> Vm:
        """A VM by its number, on a host where that is given.

        Raises:
            Refused: it is not there.
        """
        vm = self.vms.get(vmid)
        if vm is None or node not in (None, vm.node):
            where = node or next(iter(self.hosts))
            raise Refused(
                f"Configuration file 'nodes/{where}/qemu-server/{vmid}.conf' does not exist\n"
            )
        return vm

    def vms_of(self, node: str) -> list[Vm]:
        """The VMs of a host, by number."""
        return [vm for _, vm in sorted(self.vms.items()) if vm.node == node]

    @property
    def machines(self) -> Iterator[tuple[Vm, Machine]]:
        """Running VMs that an operating system was started on."""
        for _, vm in sorted(self.vms.items()):
            if vm.is_running and vm.machine is not None:
                yield vm, vm.machine

    @property
    def nodes(self) -> list[NodeFacts]:
        """What is known of every machine that has a configuration and runs."""
        return [facts for _, machine in self.machines if (facts := machine.facts()) is not None]

    @property
    def cluster(self) -> ClusterFacts | None:
        """The bootstrapped cluster whose control plane runs; None where there is none."""
        found = (machine.cluster for _, machine in self.machines if machine.cluster is not None)
        return next(found, None)

    def pid(self) -> int:
        """A number for a new process."""
        self.next_pid += 7
        return self.next_pid

    def submit(self, kind: str, node: str, name: str, who: str, now: float, **work: Any) -> str:
        """Start a task and return its UPID; without latency it has ended when this returns."""
        pid = self.pid()
        pstart = int((now - self.hosts[node].booted_at) * CLOCK_TICKS) & 0xFFFFFFFF
        seconds = SECONDS[kind] if self.latency == "realistic" else 0.0
        task = Task(
            upid=new_upid(node, pid, pstart, now, kind, name, who),
            node=node,
            pid=pid,
            pstart=pstart,
            kind=kind,
            id=name,
            user=who,
            start=now,
            finish=now + seconds + self.faults.delay(kind, name),
            work=work,
        )
        self.tasks = [*self.tasks[-KEPT_TASKS:], task]
        self.advance(now)
        return task.upid

    def advance(self, now: float) -> bool:
        """Do what is due until `now`, in the order of time; tell whether anything was."""
        due = sorted(self._open_tasks(now), key=lambda task: task.finish)
        for task in due:
            self._work(task)
        moved = [machine.advance(now) for _, machine in self.machines]
        return bool(due) or any(moved)

    def _open_tasks(self, now: float) -> list[Task]:
        return [task for task in self.tasks if not task.exit_status and task.finish <= now]

    def _work(self, task: Task) -> None:
        try:
            self.faults.strike(task.kind, task.id)
            WORK[task.kind](self, task)
        except Refused as refusal:
            task.end(refusal.message)
        else:
            task.end()

    @property
    def next_event(self) -> float | None:
        """When something is due next, in Unix time; None where nothing is."""
        times = [task.finish for task in self.tasks if not task.exit_status]
        times += [due for _, machine in self.machines if (due := machine.next_event) is not None]
        return min(times, default=None)

    def task(self, upid: str) -> Task | None:
        """A task by its UPID."""
        return next((task for task in reversed(self.tasks) if task.upid == upid), None)

    def power_cycle(self, node: str, now: float, *, guests: bool = True) -> None:
        """Cut a host's power and boot it: devices are back with the host's drivers.

        Then the VMs with onboot start, as qm.conf(5) has it; not where pve-guests is masked.
        """
        for vm in self.vms_of(node):
            vm.switch_off()
        host = self.host(node)
        host.boot(now)
        if node in self.faults.iommu_off:
            host.iommu = False
        for key in [key for key in self.faults.moves if key.startswith(f"{node} ")]:
            host.move(key.partition(" ")[2], self.faults.moves.pop(key))
        for vm in sorted(self.vms_of(node), key=_starts):
            if guests and vm.config.get("onboot") == "1":
                self.submit("qmstart", node, str(vm.vmid), ROOT, now)


def _starts(vm: Vm) -> tuple[bool, int, int]:
    """Those with an order come first, in that order; then by number."""
    order = re.search(r"(?:^|order=)(\d+)", vm.config.get("startup", ""))
    return (order is None, int(order[1]) if order else 0, vm.vmid)


def from_inventory(inventory: Mapping[str, Any], now: float) -> Datacenter:
    """Build a new world from a parsed inventory file.

    Raises:
        pydantic.ValidationError: the inventory is not written as the models want it.
    """
    hosts = {}
    for name, fields in inventory["hosts"].items():
        storages = {
            storage: {"name": storage, **rest} for storage, rest in fields["storages"].items()
        }
        written = {**fields, "name": name, "storages": storages, "booted_at": now}
        hosts[name] = Host.model_validate(written)
    return Datacenter(hosts=hosts)
