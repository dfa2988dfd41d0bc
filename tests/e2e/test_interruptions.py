"""Runs that are interrupted at every step: nothing is lost, nothing exists twice.

One `up` and one `destroy` per victim and signal, ended again and again, each time a step later;
after each end the recovery settles what is left, and the next run goes on from there.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.interruption import Step, rack_answers, run_until, state_and_rack_agree
from tests.e2e.site import Site, free_shift

pytestmark = [pytest.mark.e2e, pytest.mark.endurance]

UP = (
    Step("talos:machine/secrets:Secrets"),
    Step("talos:imageFactory/schematic:Schematic"),
    Step("proxmoxve:hardware/mapping/pci:Pci"),
    Step("proxmoxve:download/file:File"),
    Step("proxmoxve:index/vmLegacy:VmLegacy"),
    Step("talos:machine/configurationApply:ConfigurationApply"),
    Step("talos:machine/bootstrap:Bootstrap"),
    Step("talos:cluster/kubeconfig:Kubeconfig"),
    Step("kubernetes:core/v1:Namespace"),
    Step("kubernetes:helm.sh/v3:Release"),
    Step("kubernetes:apps/v1:Deployment"),
)
DOWN = (
    Step("proxmoxve:index/vmLegacy:VmLegacy", "delete"),
    Step("proxmoxve:download/file:File", "delete"),
    Step("proxmoxve:hardware/mapping/pci:Pci", "delete"),
)
RUNS = (
    ("engine", signal.SIGKILL, UP + DOWN),
    ("engine", signal.SIGINT, UP + DOWN),
    ("program", signal.SIGKILL, UP[3:6]),
    ("proxmox plugin", signal.SIGKILL, (*UP[2:5], DOWN[0])),
    ("talos plugin", signal.SIGKILL, UP[5:8]),
    ("rack", signal.SIGKILL, (*UP[3:8], DOWN[0])),
    ("rack", signal.SIGINT, UP[4:6]),
)


@pytest.fixture
def own_site(tmp_path: Path) -> Iterator[Site]:
    """A site of this test alone."""
    site = Site(tmp_path, free_shift())
    assert site.rack("up").code == 0
    assert site.pulumi("stack init").code == 0
    yield site
    site.rack("stop")


@pytest.mark.parametrize(
    ("victim", "number", "steps"), RUNS, ids=[f"{who}-{what.name}" for who, what, _ in RUNS]
)
def test_nothing_is_lost_or_made_twice(
    own_site: Site, victim: str, number: signal.Signals, steps: tuple[Step, ...]
) -> None:
    results = []
    for command, op in (("up", "create"), ("destroy", "delete")):
        left = [step for step in steps if step.op == op]
        while left:
            step, code = run_until(own_site, command, left, number, victim)
            if step is None:
                break
            left = left[left.index(step) + 1 :]
            said = settle(own_site)
            state_and_rack_agree(own_site)
            results.append(f"{victim:15} {number.name:8} {op:7} {step.type:52} {code:4}  {said}")
    finish(own_site)
    sys.stdout.write("\n".join(["", *results, ""]))
    # A host that comes back lets the run go on: there the first step is the only one.
    assert len(results) >= (1 if victim == "rack" else len(steps) // 2), results


def settle(site: Site) -> str:
    """Bring the rack back where it was ended, and recover; what that said, in a line."""
    if not rack_answers(site):
        assert site.rack("up").code == 0
    done = site.shell("python -m gpu_passthrough recover Pulumi.dev.yaml")
    assert done.code == 0, done.text
    return " / ".join(done.out.splitlines())[:160]


def finish(site: Site) -> None:
    """The next up converges, a preview after it changes nothing, and destroy leaves nothing."""
    up = site.pulumi("up --yes --skip-preview")
    assert up.code == 0, up.text
    state_and_rack_agree(site)
    preview = site.pulumi("preview --json")
    changes = {k: v for k, v in json.loads(preview.out)["changeSummary"].items() if v}
    assert set(changes) == {"same"}, preview.out
    down = site.pulumi("destroy --yes --skip-preview")
    assert down.code == 0, down.text
    assert site.resources() == []
    state_and_rack_agree(site)
