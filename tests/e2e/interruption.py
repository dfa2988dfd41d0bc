"""Ends a running `pulumi` in the middle of a chosen step, and says what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.e2e.site import Site

LONGEST = 240
"""Seconds after which a step that does not come counts as missing."""
INTO_THE_STEP = 0.05
"""Seconds between the begin of a step and the signal: the request is under way then."""

VICTIMS = {
    "engine": "pulumi up|pulumi destroy",
    "program": "pulumi-language-python-exec",
    "proxmox plugin": "pulumi-resource-proxmoxve",
    "talos plugin": "pulumi-resource-talos",
}


@dataclass(frozen=True)
class Step:
    """An operation on a type of resource, at which the run is interrupted."""

    type: str
    op: str = "create"

    def matches(self, event: dict[str, Any]) -> bool:
        """The engine is about to do it."""
        metadata = (event.get("resourcePreEvent") or {}).get("metadata") or {}
        return self.type in metadata.get("type", "") and metadata.get("op") == self.op


def run_until(
    site: Site, command: str, steps: Sequence[Step], number: signal.Signals, victim: str
) -> tuple[Step | None, int]:
    """Run Pulumi up to the first of these steps, end the victim there, and wait for the engine.

    Returns the step and the engine's exit code. Steps run side by side, so that an earlier run
    may have done some of them before its end: no step where it has done all.
    """
    log = site.folder / "events.jsonl"
    log.unlink(missing_ok=True)
    line = (
        f"exec pulumi --non-interactive --stack dev {command} --yes --skip-preview"
        f" --event-log {log}"
    )
    said = site.folder / "engine.out"
    with said.open("w") as output:
        process = subprocess.Popen(
            ["bash", "-c", f'eval "$(python -m rack env)"\n{line}'],
            cwd=site.folder,
            env={**site.environment, "PULUMI_DEBUG_COMMANDS": "true"},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        came = _await(log, steps, process)
        if came is not None:
            time.sleep(INTO_THE_STEP)
            _end(site, process, victim, number)
        process.wait(timeout=LONGEST)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        _end_orphans(process.pid)
    assert came is not None or process.returncode == 0, said.read_text()
    return came, process.returncode


def _await(log: Path, steps: Sequence[Step], process: subprocess.Popen[bytes]) -> Step | None:
    for event in _events(log, time.monotonic() + LONGEST):
        for step in steps:
            if step.matches(event):
                return step
        if not event and process.poll() is not None:
            return None
    raise AssertionError(f"none of {steps} came within {LONGEST} s")


def _events(log: Path, deadline: float) -> Iterator[dict[str, Any]]:
    """Events as the engine writes them; an empty one whenever there is nothing new."""
    position = 0
    while time.monotonic() < deadline:
        lines = log.read_text()[position:].splitlines(keepends=True) if log.exists() else []
        for line in lines:
            if line.endswith("\n"):
                position += len(line)
                yield json.loads(line)
        yield {}
        time.sleep(0.02)


def _end(site: Site, process: subprocess.Popen[bytes], victim: str, number: signal.Signals) -> None:
    if victim == "engine":
        process.send_signal(number)
    elif victim == "rack":
        status = json.loads(site.rack("status --json").out)
        os.kill(int(status["pid"]), number)
        # A host that stays away holds the run for the plugins' ten minutes: it comes back.
        assert site.rack("up").code == 0
    else:
        for pid in _of_session(process.pid, VICTIMS[victim]):
            os.kill(pid, number)


def _of_session(session: int, name: str) -> list[int]:
    """Processes of the run whose command has a name in it."""
    listing = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,sess=,command="],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = [line.split(None, 2) for line in listing.splitlines()]
    return [int(pid) for pid, sess, command in rows if int(sess) == session and name in command]


def _end_orphans(session: int) -> None:
    """Plugins outlive a killed engine for a while; the next step is not theirs."""
    for pid in _of_session(session, ""):
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            continue


def state_and_rack_agree(site: Site) -> None:
    """Nothing exists twice or unknown to the state, and the state knows nothing that is not."""
    exported = json.loads(site.pulumi("stack export").out)["deployment"]
    assert not exported.get("pending_operations"), exported["pending_operations"]
    resources = exported.get("resources") or []
    held = {kind: _ids(resources, kind) for kind in KINDS}
    there = {
        "VmLegacy": sorted(str(one["vmid"]) for one in site.proxmox("/nodes/pve/qemu")),
        "Pci": sorted(one["id"] for one in site.proxmox("/cluster/mapping/pci")),
        "File": sorted(one["volid"] for one in site.proxmox("/nodes/pve/storage/local/content")),
    }
    assert held == there


KINDS = ("VmLegacy", "Pci", "File")


def _ids(resources: list[dict[str, Any]], kind: str) -> list[str]:
    return sorted(
        one["id"] for one in resources if one["type"].endswith(f":{kind}") and one.get("custom")
    )


def rack_answers(site: Site) -> bool:
    """The rack's API is there."""
    try:
        site.proxmox("/version")
    except requests.RequestException:
        return False
    return True
