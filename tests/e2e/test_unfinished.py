"""`pulumi up` by hand after an interruption: it says what to do, and makes nothing worse."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.interruption import Step, run_until, state_and_rack_agree
from tests.e2e.site import running_site

pytestmark = [pytest.mark.e2e]

VM = Step("proxmoxve:index/vmLegacy:VmLegacy")
UP = "up --yes --skip-preview"


def test_an_up_by_hand_names_the_steps_and_the_way_out(programs: None, tmp_path: Path) -> None:
    with running_site(tmp_path) as site:
        site.fault("step-slow", "qmcreate", "*", "3")
        step, code = run_until(site, "up", [VM], signal.SIGKILL, "engine")
        assert (step, code) == (VM, -signal.SIGKILL)
        site.mend()

        locked = site.pulumi(UP)
        assert locked.code != 0
        assert "pulumi cancel" in locked.text
        assert site.pulumi("cancel --yes").code == 0

        refused = site.pulumi(UP)
        assert refused.code != 0
        assert "was interrupted in the middle of" in refused.text
        assert "creating VmLegacy k8s-" in refused.text
        assert "make recover STACK=dev" in refused.text
        assert "Traceback" not in refused.text

        preview = site.pulumi("preview")
        assert preview.code == 0, preview.text

        recovered = site.shell("python -m gpu_passthrough recover dev")
        assert recovered.code == 0, recovered.text
        state_and_rack_agree(site)
        up = site.pulumi(UP)
        assert up.code == 0, up.text
        state_and_rack_agree(site)
