"""The document's site: what a run says without its secrets, without its host, and to a stand-in."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.site import CHECKOUT, PROGRAM, Done, Site

pytestmark = pytest.mark.e2e

STAND_INS = CHECKOUT / "rack" / "plugins" / "bin"
DUMMY = "dummy@pve!gpu-passthrough=00000000-0000-0000-0000-000000000000"
NOBODY = "http://127.0.0.1:1"
"""Where nothing answers."""


class Homelab(Site):
    """The homelab stack with a state of its own, and no rack at all."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, shift=0)
        self.stack_file.unlink()
        self.stack_file = folder / "Pulumi.homelab.yaml"
        self.write_stack((CHECKOUT / "Pulumi.homelab.yaml").read_text())

    def homelab(self, arguments: str, *, token: str = "", stand_ins: bool = False) -> Done:
        """Run Pulumi on the stack, with the stand-ins in reach only where asked."""
        environment = {k: v for k, v in self.environment.items() if not k.startswith("RACK_")}
        environment |= {"PROXMOX_VE_API_TOKEN": token} if token else {}
        environment["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
        if stand_ins:
            environment["PATH"] = os.pathsep.join([str(STAND_INS), environment["PATH"]])
        done = subprocess.run(
            ["pulumi", "--non-interactive", "--stack", "homelab", *arguments.split()],
            cwd=self.folder, env=environment, capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    def state(self) -> set[str]:
        """Types of the resources in the state."""
        done = self.homelab("stack export")
        assert done.code == 0, done.text
        found = json.loads(done.out)["deployment"].get("resources") or []
        return {one["type"] for one in found}


@pytest.fixture
def site(tmp_path: Path) -> Homelab:
    made = Homelab(tmp_path)
    done = made.homelab("stack init")
    assert done.code == 0, done.text
    return made


def test_its_parts_are_those_of_the_checkout() -> None:
    assert all((CHECKOUT / name).exists() for name in PROGRAM)


def test_without_secrets_a_preview_is_one_error_that_says_how_to_set_them(site: Homelab) -> None:
    done = site.homelab("preview")
    assert done.code != 0
    assert "There is no API token for https://192.168.20.10:8006." in done.text
    assert (
        "pulumi config set --stack homelab --secret --path 'gpu-passthrough:proxmox.apiToken'"
        in done.text
    )
    assert "Traceback" not in done.text
    assert site.state() == set()


def test_with_dummy_secrets_and_no_host_a_preview_shows_the_whole_chain(site: Homelab) -> None:
    before = site.stack_file.read_text()
    done = site.homelab("preview --json", token=DUMMY, stand_ins=True)
    assert done.code == 0, done.text
    steps = json.loads(done.out)["steps"]
    assert {step["op"] for step in steps} == {"create"}
    types = {step["newState"]["type"] for step in steps}
    layers = (
        "ProxmoxGpuVm",
        "TalosNvidiaNode",
        "GpuOperatorRelease",
        "NvidiaRuntimeClass",
        "GpuApp",
    )
    assert {f"gpu-passthrough:index:{layer}" for layer in layers} <= types
    assert DUMMY not in done.text
    assert site.state() == set()
    assert site.stack_file.read_text().startswith(before[:-1])


def test_a_stand_in_makes_nothing_for_a_place_that_is_no_rack(site: Homelab) -> None:
    text = site.stack_file.read_text().replace("https://192.168.20.10:8006", "https://127.0.0.1:1")
    site.write_stack(text.replace("name: homelab", f"name: homelab\n    imageFactory: {NOBODY}"))
    done = site.homelab("up --yes --skip-preview", token=DUMMY, stand_ins=True)
    assert done.code != 0
    assert "Traceback" not in done.text
    made = {kind for kind in site.state() if kind.startswith(("proxmoxve:", "talos:"))}
    assert made == set(), done.text


@pytest.mark.parametrize("target", ["up", "preview", "destroy", "env"])
@pytest.mark.parametrize(("stack", "offered"), [("dev", True), ("homelab", False), ("x", False)])
def test_the_environment_of_another_stack_leaves_the_stand_ins_out(
    target: str, stack: str, offered: bool
) -> None:
    """What the commands would run; nothing is run."""
    told = subprocess.run(
        ["make", "--dry-run", target, f"STACK={stack}"],
        cwd=CHECKOUT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert ("-m rack env" in told) is offered
