"""The scripts of the workflow from end to end, with the real engine and nothing to reach."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pullrequest.model import Plan
from tests.pullrequest.checkout import PASSPHRASE, STAND_INS, clone, environment, git, run

pytestmark = [pytest.mark.e2e]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clone(tmp_path_factory.mktemp("pull") / "request")


@pytest.fixture(autouse=True)
def _clean(folder: Path) -> None:
    git(folder, "switch", "-q", "-C", "change", "main")


def change(folder: Path, file: str, old: str, new: str) -> None:
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    git(folder, "commit", "-q", "-a", "-m", "change")


def plan(folder: Path, stack: str, *flags: str, **more: str) -> tuple[Plan, int, str]:
    """A plan where the plugins are on PATH already, unless a flag says where else."""
    output = folder.parent / "plans"
    if not flags:
        more["PATH"] = f"{environment(folder)['PATH']}:{folder / STAND_INS}"
    done = run(folder, "plan", stack, "--base", "main", "--output", str(output), *flags, **more)
    assert "Traceback" not in done.stderr, done.stderr
    text = (output / f"plan-{stack}.json").read_text()
    return Plan.model_validate_json(text), done.returncode, done.stdout


def clean(folder: Path) -> bool:
    """Whether the checkout is as it was: no state, no salt in a stack file."""
    done = subprocess.run(
        ["git", "status", "--porcelain"], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout == "" and not (folder / ".state").exists()


def test_a_fork_gets_a_plan_against_an_empty_state(folder: Path) -> None:
    found, code, text = plan(folder, "dev")
    assert (found.outcome, code) == ("planned", 0), text
    assert {one.op for one in found.changes} == {"create"}
    assert len(found.changes) == 22
    assert any("none for the stack" in one for one in found.unseen)
    assert any("chart repository" in one for one in found.unseen)
    assert [one for one in found.violations if one.level == "mandatory"] == []
    assert clean(folder)


def test_stand_ins_serve_where_the_plugins_cannot_be_had_and_that_is_said(folder: Path) -> None:
    found, code, text = plan(folder, "homelab", "--stand-ins", str(STAND_INS))
    assert (found.outcome, code) == ("planned", 0), text
    assert any("stand-ins checked" in one for one in found.unseen)
    assert clean(folder)


def test_without_any_plugin_there_is_no_plan_and_the_reason_is_pulumis(folder: Path) -> None:
    found, code, _ = plan(folder, "homelab", "--base", "main")
    assert (found.outcome, code) == ("failed", 1)
    assert "no resource plugin" in found.problems[0]


def test_the_touched_stacks_are_those_of_the_change(folder: Path) -> None:
    change(folder, "Pulumi.homelab.yaml", "diskGib: 100", "diskGib: 120")
    assert json.loads(run(folder, "stacks", "--base", "main").stdout) == ["homelab"]


def test_what_cannot_work_is_refused_before_the_engine_is_asked(folder: Path) -> None:
    change(folder, "Pulumi.homelab.yaml", "vmId: 111", "vmId: 112")
    found, code, text = plan(folder, "homelab", PULUMI_BACKEND_URL="none://at-all")
    assert (found.outcome, code) == ("refused", 2)
    assert "112" in found.problems[0]
    assert "→ refused" in text


def test_a_broken_policy_refuses_and_no_secret_is_shown_or_needed(folder: Path) -> None:
    env = "{storageClass: longhorn}\n      env: {API_TOKEN: hunter2}\n"
    env += "      secretEnv: {PASSWORD: {secure: v1:abc:def}}"
    change(folder, "Pulumi.homelab.yaml", "{storageClass: longhorn}", env)
    (folder / "Pulumi.homelab.yaml").open("a").write("encryptionsalt: v1:abc:v1:def:ghi\n")
    git(folder, "commit", "-q", "-a", "-m", "salt")
    found, code, text = plan(folder, "homelab")
    assert (found.outcome, code) == ("refused", 2), text
    assert [one.policy for one in found.violations if one.level == "mandatory"] == [
        "no-plain-secret"
    ]
    assert "hunter2" not in text
    assert "hunter2" not in found.model_dump_json()
    assert "immich-machine-learning-env" in [one.name for one in found.changes]
    assert any(one.startswith("Secrets: they are stand-ins") for one in found.unseen)


def test_a_pack_that_does_not_start_is_never_passed_over(folder: Path) -> None:
    change(folder, "policy/__main__.py", "import rules", "import no_such_rules")
    found, code, _ = plan(folder, "dev")
    assert (found.outcome, code) == ("failed", 1)
    assert "policy" in found.problems[0]


def test_a_state_of_its_own_is_used_and_left_as_it_was(folder: Path, tmp_path: Path) -> None:
    url = f"file://{tmp_path}"
    mine = {"PULUMI_BACKEND_URL": url, "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE}
    done = subprocess.run(
        ["pulumi", "stack", "init", "dev", "--non-interactive"],
        cwd=folder,
        env={**environment(folder), **mine},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    git(folder, "commit", "-q", "-a", "-m", "salt")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.json")}
    found, code, text = plan(folder, "dev", **mine)
    assert code == 0, text
    assert any("nothing of this stack yet" in one for one in found.unseen)
    assert not any("fork" in one for one in found.unseen)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.json")} == before
    wrong = {**mine, "PULUMI_CONFIG_PASSPHRASE": "another"}
    found, code, _ = plan(folder, "dev", **wrong)
    assert (found.outcome, code) == ("failed", 1)
    assert "passphrase" in found.problems[0]


def test_a_back_end_that_cannot_be_read_is_not_an_empty_one(folder: Path) -> None:
    found, code, _ = plan(folder, "dev", PULUMI_BACKEND_URL="file:///no/such/folder")
    assert (found.outcome, code) == ("failed", 1)
    assert "back end cannot be read" in found.problems[0]


def test_a_base_that_is_missing_is_one_line(folder: Path) -> None:
    done = run(folder, "plan", "dev", "--base", "nowhere")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "nowhere" in done.stderr
