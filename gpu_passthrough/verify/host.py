"""The Proxmox VE host under a stack that stands: its VMs and their cards.

A preflight asks whether a stack can be made. Of its checks, those stay that can break later; what
is new is each VM itself, with the last words of the host about it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gpu_passthrough.checks.finding import Finding
from gpu_passthrough.checks.report import Report
from gpu_passthrough.config import Node, Stack
from gpu_passthrough.preflight import registry
from gpu_passthrough.preflight.devices import HOSTPCI
from gpu_passthrough.preflight.findings import Check
from gpu_passthrough.preflight.registry import Entry
from gpu_passthrough.preflight.run import preflight

LAYERS: Final = ("api", "host", "vm")
"""What can be asked here."""
DOWNLOAD: Final = "download"
"""Kind of the task that brings a boot image; it belongs to no VM."""
RUNNING: Final = "RUNNING"
"""Status of a task in a list that has not ended."""
ENDED_WELL: Final = ("OK", "WARNINGS")


def vms(check: Check) -> Iterator[None]:
    """Each VM of the stack is there, runs, and has as many cards as the stack says."""
    listed = {int(one["vmid"]): one for one in check.ask("cluster/resources?type=vm")}
    for name, node in check.machines.items():
        with check.about(f"{name}: VM {node.vm_id}", part=name):
            found = listed.get(node.vm_id)
            if found is None:
                _absent(check, node)
            elif found.get("status") != "running":
                _stopped(check, node, str(found.get("status")))
            else:
                _running(check, node)
        yield


def _absent(check: Check, node: Node) -> None:
    check.fail(
        "cluster/resources?type=vm",
        f"there is no such VM{_last_words(check, node)}",
        "Nothing above it exists.",
        "`pulumi up` makes it; after an interrupted run `make recover` first. A task that failed"
        " says what is in the way.",
        answer="no entry",
    )


def _stopped(check: Check, node: Node, status: str) -> None:
    check.fail(
        f"nodes/{node.host}/tasks?vmid={node.vm_id}",
        f"it is {status}{_last_words(check, node)}",
        "Its node is gone, and every pod on it.",
        f"On host {node.host}: qm start {node.vm_id}. A start that is refused says why: the IOMMU,"
        " the mapping, or another VM that has the card.",
    )


def _running(check: Check, node: Node) -> None:
    path = f"nodes/{node.host}/qemu/{node.vm_id}/config"
    devices = [key for key in check.ask(path) if HOSTPCI.fullmatch(key)]
    if len(devices) < len(node.gpus):
        check.fail(
            path,
            f"it runs with {len(devices)} of {len(node.gpus)} cards",
            "The node offers fewer GPUs than the stack says.",
            f"`pulumi up --refresh`, then stop and start the VM: qm shutdown {node.vm_id}; qm start"
            f" {node.vm_id}. A restart from inside keeps the old devices.",
        )
    else:
        wanted = len(node.gpus)
        check.passed(f"runs with {wanted} of {wanted} cards" if wanted else "runs")


def _last_words(check: Check, node: Node) -> str:
    """The host's last task on the VM, or the download that its disk waits for, if it went wrong."""
    tasks = check.ask(f"nodes/{node.host}/tasks?vmid={node.vm_id}&source=all")
    tasks = tasks or check.ask(f"nodes/{node.host}/tasks?typefilter={DOWNLOAD}&source=all")
    return _said(tasks[0]) if tasks else ""


def _said(task: Mapping[str, Any]) -> str:
    """What a task says that has not ended well."""
    kind, status = task["type"], str(task.get("status") or RUNNING).strip()
    if status == RUNNING:
        age = max(time.time() - float(task["starttime"]), 0.0)
        return f"; the host's task {kind} has been running for {age:.0f} s"
    if status.startswith(ENDED_WELL):
        return ""
    return f"; the host's last task {kind} failed: {status}"


CHECKS: Final[dict[str, Entry]] = {
    **{
        id_: registry.CHECKS[id_]
        for id_ in ("host", "iommu", "device", "mapping", "storage", "space")
    },
    "vm": Entry("The VM runs with its cards", "vm", vms),
}
"""By id, in the order in which they are asked."""


def ask(name: str, stack: Stack, say: Callable[[str], None], folder: Path = Path()) -> Report:
    """Ask the host; empty where the stack has none.

    Whoever verifies a cluster may have no way to the host: what cannot be told there fails nothing.
    """
    if stack.proxmox is None:
        return Report("host", name, [])
    report = preflight(name, stack, stack.proxmox, say, folder=folder, checks=CHECKS)
    return replace(report, findings=[_lenient(one) for one in report.findings])


def _lenient(found: Finding) -> Finding:
    """No way to the host, or not the whole: that proves nothing about the stack."""
    if found.status == "could-not-tell" or found.layer == "api":
        return replace(found, status="could-not-tell", best_effort=True)
    return found
