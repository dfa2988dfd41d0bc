"""The workflows keep to what makes them safe, whoever opens the pull request."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).parents[2]
FILES = sorted((CHECKOUT / ".github/workflows").glob("*.yml"))
PINNED = re.compile(r"uses: [\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
SAME_REPOSITORY = "github.event.pull_request.head.repo.full_name == github.repository"


def load(name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((CHECKOUT / ".github/workflows" / name).read_text())
    return found


def events(workflow: dict[Any, Any]) -> dict[str, Any]:
    """What starts it: YAML 1.1 reads the key `on` as true."""
    found = workflow.get("on", workflow.get(True))
    return found if isinstance(found, dict) else dict.fromkeys([found])


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.name))
def test_every_action_is_pinned_by_commit_with_its_version(file: Path) -> None:
    uses = [line.strip(" -") for line in file.read_text().splitlines() if "uses:" in line]
    assert uses
    assert [line for line in uses if not PINNED.match(line)] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.name))
def test_nothing_runs_foreign_code_with_rights(file: Path) -> None:
    workflow = load(file.name)
    assert "pull_request_target" not in events(workflow)
    assert workflow["permissions"] in ({}, {"contents": "read"})
    assert "concurrency" in workflow
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 90
    for step in steps(workflow):
        if "actions/checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.name))
def test_no_expression_is_pasted_into_a_shell(file: Path) -> None:
    assert [step["run"] for step in steps(load(file.name)) if "${{" in step.get("run", "")] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.name))
def test_a_step_is_one_command(file: Path) -> None:
    runs = [step["run"] for step in steps(load(file.name)) if "run" in step]
    assert [run for run in runs if "\n" in run.strip()] == []


def test_the_pull_requests_own_code_may_only_read() -> None:
    workflow = load("pull-request.yml")
    assert set(events(workflow)) == {"pull_request"}
    assert not any("permissions" in job for job in workflow["jobs"].values())
    assert workflow["concurrency"]["cancel-in-progress"] is True
    assert "github.event.pull_request.number" in workflow["concurrency"]["group"]


def test_a_fork_gets_no_secret() -> None:
    text = (CHECKOUT / ".github/workflows/pull-request.yml").read_text()
    lines = [line for line in text.splitlines() if "secrets." in line]
    assert lines
    assert [line for line in lines if f"{SAME_REPOSITORY} && secrets." not in line] == []
    assert [line for line in lines if "|| ''" not in line] == []
    for name in ("main.yml", "pull-request-comment.yml"):
        assert "secrets." not in (CHECKOUT / ".github/workflows" / name).read_text()


def test_the_commenting_job_runs_the_default_branch_only() -> None:
    workflow = load("pull-request-comment.yml")
    assert set(events(workflow)) == {"workflow_run"}
    assert events(workflow)["workflow_run"]["workflows"] == [load("pull-request.yml")["name"]]
    (job,) = workflow["jobs"].values()
    assert job["permissions"] == {
        "actions": "read",
        "contents": "read",
        "pull-requests": "write",
    }
    (checkout,) = [one for one in job["steps"] if "actions/checkout" in one.get("uses", "")]
    assert checkout["with"]["ref"] == "${{ github.event.repository.default_branch }}"
    assert "head" not in str(checkout)


def test_plans_come_from_a_folder_outside_the_checkout() -> None:
    (job,) = load("pull-request-comment.yml")["jobs"].values()
    (download,) = [one for one in job["steps"] if "download-artifact" in one.get("uses", "")]
    assert download["with"]["path"].startswith("${{ runner.temp }}/")


def test_each_touched_stack_gets_its_plan_whatever_becomes_of_the_others() -> None:
    plan = load("pull-request.yml")["jobs"]["plan"]
    assert plan["strategy"]["fail-fast"] is False
    assert plan["strategy"]["matrix"]["stack"] == "${{ fromJSON(needs.stacks.outputs.stacks) }}"
    upload = next(one for one in plan["steps"] if "upload-artifact" in one.get("uses", ""))
    assert upload["if"] == "always()"
