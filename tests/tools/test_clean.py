"""Cleaning never removes the only record of resources that exist."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import clean
from tools.sources import ToolError

STACK = {"urn": "urn:pulumi:x::p::pulumi:pulumi:Stack::p-x", "type": "pulumi:pulumi:Stack"}
MACHINE = {"urn": "urn:pulumi:x::p::a:b:C::vm", "type": "a:b:C", "parent": STACK["urn"]}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(clean, "CHECKOUT", tmp_path)
    monkeypatch.setattr(clean, "STATE", tmp_path / ".state")
    (tmp_path / "Pulumi.dev.yaml").write_text("config:\n  a: b\nencryptionsalt: v1:x\n")
    return tmp_path


def state(checkout: Path, stack: str, *resources: dict[str, str]) -> None:
    folder = checkout / ".state/pulumi/.pulumi/stacks/gpu-passthrough"
    folder.mkdir(parents=True, exist_ok=True)
    content = {"checkpoint": {"latest": {"resources": [STACK, *resources]}}}
    (folder / f"{stack}.json").write_text(json.dumps(content))


def test_state_of_a_stack_with_resources_is_kept(checkout: Path) -> None:
    state(checkout, "homelab", MACHINE)
    with pytest.raises(ToolError, match="make destroy STACK=homelab"):
        clean.clean()
    assert (checkout / ".state").exists()
    assert "encryptionsalt" in (checkout / "Pulumi.dev.yaml").read_text()


@pytest.mark.parametrize(("stack", "resources"), [("dev", [MACHINE]), ("homelab", [])])
def test_what_nobody_needs_goes(
    checkout: Path, stack: str, resources: list[dict[str, str]]
) -> None:
    state(checkout, stack, *resources)
    clean.clean()
    assert not (checkout / ".state").exists()
    assert (checkout / "Pulumi.dev.yaml").read_text() == "config:\n  a: b\n"
