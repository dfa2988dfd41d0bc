"""Steps that a run began and did not end, in the state of a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_passthrough.recover.unfinished import backend, refusal, unfinished

CREATING = {
    "type": "creating",
    "resource": {
        "urn": "urn:pulumi:dev::gpu-passthrough::a$proxmoxve:index/vmLegacy:VmLegacy::w1-vm",
        "type": "proxmoxve:index/vmLegacy:VmLegacy",
    },
}


def state(folder: Path, latest: Any) -> str:
    file = folder / ".pulumi" / "stacks" / "gpu-passthrough" / "dev.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"version": 3, "checkpoint": {"stack": "dev", "latest": latest}}))
    return f"file://{folder}"


def test_a_step_is_named_with_the_way_out(tmp_path: Path) -> None:
    steps = unfinished(
        state(tmp_path, {"pending_operations": [CREATING]}), "gpu-passthrough", "dev"
    )
    assert steps == ["creating VmLegacy w1-vm"]
    text = refusal(steps, "dev")
    assert "in the middle of a step:\n  - creating VmLegacy w1-vm\n" in text
    assert "make recover STACK=dev" in text


@pytest.mark.parametrize("latest", [None, {}, {"pending_operations": None}, {"resources": []}])
def test_nothing_unfinished(tmp_path: Path, latest: Any) -> None:
    steps = unfinished(state(tmp_path, latest), "gpu-passthrough", "dev")
    assert steps == []
    assert refusal(steps, "dev") == ""


@pytest.mark.parametrize(
    "url", ["https://api.pulumi.com", "s3://states", "", "file:///nonexistent"]
)
def test_a_state_that_cannot_be_read_refuses_nothing(url: str) -> None:
    assert unfinished(url, "gpu-passthrough", "dev") == []


def test_a_state_that_is_no_state_refuses_nothing(tmp_path: Path) -> None:
    url = state(tmp_path, {"pending_operations": [{}]})
    assert unfinished(url, "gpu-passthrough", "dev") == []


def test_the_back_end_is_that_of_the_environment_or_of_the_login(tmp_path: Path) -> None:
    (tmp_path / "credentials.json").write_text('{"current": "file:///of-the-login"}')
    login = {"PULUMI_HOME": str(tmp_path)}
    assert backend(login) == "file:///of-the-login"
    assert backend({**login, "PULUMI_BACKEND_URL": "file:///here"}) == "file:///here"
    assert backend({"PULUMI_HOME": str(tmp_path / "none")}) == ""
