"""The verdict before and after, and what a plan makes of a preview; no engine runs here."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_passthrough.config import Stack
from gpu_passthrough.load import load_stack_file
from gpu_passthrough.problems import ConfigurationError
from pullrequest import engine
from pullrequest.events import Preview
from pullrequest.model import LONGEST_LIST, Verdict
from pullrequest.plan import stack_at, told, verdict
from tests.pullrequest.checkout import clone, git
from tests.pullrequest.recording import VERDICT, preview


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clone(tmp_path_factory.mktemp("pull") / "request")


def write(folder: Path, file: str, old: str, new: str) -> None:
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))


@pytest.fixture(autouse=True)
def _clean(folder: Path) -> None:
    git(folder, "switch", "-q", "-f", "-C", "change", "main")


def test_a_pin_in_the_shared_defaults_changes_the_verdict_of_each_stack(folder: Path) -> None:
    write(folder, "stacks/defaults.yaml", "version: v24.9.2", "version: v26.3.1")
    for name in ("dev", "homelab"):
        before = stack_at(folder, "main", name)
        found = verdict(load_stack_file(folder / f"Pulumi.{name}.yaml"), before)
        assert (found.before, found.after) == ("works, not vendor-tested", "vendor-tested")


def test_a_base_that_could_not_work_was_refused(folder: Path) -> None:
    write(folder, "Pulumi.dev.yaml", "vmId: 111", "vmId: 112")
    git(folder, "commit", "-q", "-a", "-m", "broken")
    before = stack_at(folder, "HEAD", "dev")
    assert isinstance(before, ConfigurationError)
    after = load_stack_file(folder / "Pulumi.homelab.yaml")
    assert verdict(after, before).before == "refused"


def test_a_new_stack_has_no_verdict_before(folder: Path) -> None:
    assert stack_at(folder, "main", "new") is None
    assert verdict(load_stack_file(folder / "Pulumi.dev.yaml"), None).before is None


def test_a_stack_that_cannot_be_judged_says_so_once(folder: Path) -> None:
    stack = load_stack_file(folder / "Pulumi.dev.yaml").model_copy(update={"cluster": None})
    assert "not judged" not in verdict(stack, None).text.partition(",")[0]
    assert verdict(stack, None).after == "not judged"


def test_a_base_without_shared_defaults_is_judged_without_them(folder: Path) -> None:
    git(folder, "rm", "-q", "stacks/defaults.yaml")
    git(folder, "commit", "-q", "-m", "no defaults")
    assert isinstance(stack_at(folder, "HEAD", "dev"), ConfigurationError)
    assert isinstance(stack_at(folder, "main", "dev"), Stack)


def test_a_plan_is_refused_for_the_gravest_reason() -> None:
    refused = Verdict(before=None, after="refused", text="")
    assert told("dev", preview("policy"), refused, [], []).refusal == "it breaks no-plain-secret"
    assert told("dev", preview("nothing"), refused, [], []).refusal == "the combination cannot work"
    assert told("dev", preview("nothing"), VERDICT, [], []).refusal is None


def test_an_error_is_no_plan_though_the_engine_finished() -> None:
    found = Preview(finished=True, errors=["something"])
    assert told("dev", found, VERDICT, [], []).outcome == "failed"
    assert told("dev", Preview(finished=True), VERDICT, [], []).outcome == "planned"


def test_more_changes_than_a_plan_holds_are_counted() -> None:
    found = preview("gone")
    found.steps = [one for one in found.steps if one.custom] * LONGEST_LIST
    plan = told("dev", found, VERDICT, [], [])
    assert len(plan.changes) == LONGEST_LIST
    assert plan.left_out == len(found.steps) - LONGEST_LIST


def site(folder: Path, tmp_path: Path, stack: str = "homelab") -> engine.Site:
    return engine.site(tmp_path, folder, stack, {"gpuOperator": {"repository": "http://x"}})


def test_a_copy_has_its_own_stack_file_and_the_rest_is_the_checkouts(
    folder: Path, tmp_path: Path
) -> None:
    before = (folder / "Pulumi.homelab.yaml").read_text()
    made = site(folder, tmp_path)
    assert load_stack_file(tmp_path / "Pulumi.homelab.yaml").gpu_operator.repository == "http://x"
    assert (tmp_path / "__main__.py").resolve() == folder / "__main__.py"
    assert not (tmp_path / ".git").exists()
    assert (folder / "Pulumi.homelab.yaml").read_text() == before
    assert not made.has_secrets


def test_a_variable_set_to_nothing_is_a_missing_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "")
    monkeypatch.delenv("PULUMI_ACCESS_TOKEN", raising=False)
    monkeypatch.setenv("PROXMOX_VE_API_TOKEN", "")
    made = site(folder, tmp_path)
    assert "PULUMI_BACKEND_URL" not in made.environment
    assert made.environment["PROXMOX_VE_API_TOKEN"] == engine.TOKEN
    assert not engine.has_state(made)


def test_a_token_that_is_there_stays(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXMOX_VE_API_TOKEN", "a@pve!b=c")
    assert site(folder, tmp_path).environment["PROXMOX_VE_API_TOKEN"] == "a@pve!b=c"


def test_a_relative_back_end_is_the_checkouts(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file://./state")
    assert site(folder, tmp_path).environment["PULUMI_BACKEND_URL"] == f"file://{folder}/state"


def test_without_pulumi_the_way_to_it_is_said(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = site(folder, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    made.environment["PATH"] = str(tmp_path)
    with pytest.raises(engine.EngineError, match="make tools"):
        made.pulumi("version")
