"""A site of its own for the end-to-end tests: the program, a rack and a state in a folder.

Nothing of it meets a rack that a person runs from the same checkout: ports are shifted,
folders are temporary.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import requests

from rack.settings import Ports

CHECKOUT = Path(__file__).parents[2]
PROGRAM = ("Pulumi.yaml", "__main__.py", "components", "gpu_passthrough", "stacks", "policy")
PORTS = (8006, 8480, 6443)
LONGEST = 300
"""Seconds after which a command counts as hung."""


@contextmanager
def running_site(folder: Path) -> Iterator[Site]:
    """A site with a rack of its own, which ends with it, and an empty stack."""
    made = Site(folder, free_shift())
    started = made.rack("up")
    assert started.code == 0, started.text
    try:
        created = made.pulumi("stack init")
        assert created.code == 0, created.text
        yield made
    finally:
        made.rack("stop")


def free_shift() -> int:
    """How far to shift the ports so that none meets a rack that runs already.

    All stay below 32768: from there on, connections of any program take ports for themselves.
    """
    # Each worker looks from a place of its own, because two may look at the same moment.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 1000 + 2000 * (worker % 4)
    for shift in range(first, first + 2000, 250):
        if all(_is_free(port) for port in Ports().shifted(shift).model_dump().values()):
            return shift
    raise AssertionError("every place for a rack of the tests is taken; stop some")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Everything that it printed."""
        return self.out + self.err


class Site:
    """The program of this checkout with a rack, a state and a stack file of its own."""

    def __init__(self, folder: Path, shift: int, latency: str = "instant") -> None:
        self.folder = folder
        self.shift = shift
        self.latency = latency
        self.stack_file = folder / "Pulumi.dev.yaml"
        for name in PROGRAM:
            if (CHECKOUT / name).exists():
                (folder / name).symlink_to(CHECKOUT / name)
        self.write_stack(self.document())

    def document(self) -> str:
        """The dev stack's file, with this rack's ports."""
        text = (CHECKOUT / "Pulumi.dev.yaml").read_text()
        text = re.sub(r"^encryptionsalt:.*\n", "", text, flags=re.MULTILINE)
        for port in PORTS:
            text = text.replace(f":{port}", f":{port + self.shift}")
        return text

    def write_stack(self, text: str) -> None:
        """Replace the stack file."""
        self.stack_file.write_text(text)

    @cached_property
    def environment(self) -> dict[str, str]:
        """What `make env` would export, for this folder."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PULUMI_", "RACK_"))}
        state = self.folder / "state"
        state.mkdir(exist_ok=True)
        passphrase = self.folder / "passphrase"
        passphrase.write_text("only for this test run")
        environment = {
            **kept,
            "RACK_HOME": str(self.folder / "rack"),
            "RACK_PORT_SHIFT": str(self.shift),
            "RACK_LATENCY": self.latency,
            "PULUMI_BACKEND_URL": f"file://{state}",
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(passphrase),
            "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PYTHONPATH": str(CHECKOUT),
        }
        folders = (CHECKOUT / ".venv/bin", CHECKOUT / ".tools/bin")
        environment["PATH"] = os.pathsep.join([*map(str, folders), kept["PATH"]])
        return environment

    def run(self, *command: str, timeout: int = LONGEST) -> Done:
        """Run a program in the site's folder; a hung one fails the test."""
        return self.shell(subprocess.list2cmdline(command), timeout)

    def shell(self, line: str, timeout: int = LONGEST) -> Done:
        """Run a line as a person types it, with the rack's environment on top."""
        process = subprocess.Popen(
            ["bash", "-c", f'eval "$(python -m rack env)"\n{line}'],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(f"still running after {timeout} s: {line}\n{out}{err}") from None
        return Done(process.returncode, out, err)

    def rack(self, command: str) -> Done:
        """Run a command of the rack."""
        return self.shell(f"python -m rack {command}")

    def fault(self, name: str, *arguments: str) -> None:
        """Break the rack on purpose."""
        done = self.rack(f"fault inject {name} {shlex.join(arguments)}")
        assert done.code == 0, done.text

    def mend(self) -> None:
        """Clear every fault."""
        done = self.rack("fault clear all")
        assert done.code == 0, done.text

    def pulumi(self, arguments: str, timeout: int = LONGEST) -> Done:
        """Run Pulumi on the dev stack."""
        return self.shell(f"pulumi --non-interactive --stack dev {arguments}", timeout)

    def kubectl(self, arguments: str) -> Done:
        """Run kubectl with the exported kubeconfig."""
        return self.shell(f"kubectl {arguments}")

    def get(self, what: str) -> Any:
        """An object of the cluster, as JSON."""
        done = self.kubectl(f"get {what} -o json")
        assert done.code == 0, done.text
        return json.loads(done.out)

    def resources(self) -> list[dict[str, Any]]:
        """Every resource in the stack's state, the stack itself left out."""
        done = self.pulumi("stack export")
        assert done.code == 0, done.text
        found = json.loads(done.out)["deployment"].get("resources") or []
        return [one for one in found if one["type"] != "pulumi:pulumi:Stack"]

    def proxmox(self, path: str, method: str = "GET", **options: str | int) -> Any:
        """What the rack's Proxmox API answers."""
        token = (self.folder / "rack" / "proxmox-token").read_text().strip()
        answer = requests.request(
            method,
            f"https://127.0.0.1:{8006 + self.shift}/api2/json{path}",
            headers={"Authorization": f"PVEAPIToken={token}"},
            data=options or None,
            verify=str(self.folder / "rack" / "proxmox.pem"),
            timeout=10,
        )
        answer.raise_for_status()
        return answer.json()["data"]
