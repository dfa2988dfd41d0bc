"""The commands: table, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from gpu_passthrough.cli import app as commands

from .stacks import app, changed

RUN = CliRunner()


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    return tmp_path / "Pulumi.test.yaml"


def write(file: Path, values: dict[str, object]) -> str:
    config = {f"gpu-passthrough:{key}": value for key, value in values.items()}
    file.write_text(yaml.safe_dump({"config": config}))
    return str(file)


@pytest.mark.parametrize("name", ["dev", "homelab"])
def test_check_by_name(name: str) -> None:
    result = RUN.invoke(commands, ["check", name])
    assert result.exit_code == 0
    assert "not vendor-tested" in " ".join(result.output.split())


def test_check_for_machines(stack: Path) -> None:
    result = RUN.invoke(commands, ["check", write(stack, changed()), "--json"])
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert (found["ok"], found["verdict"]) == (True, "works, not vendor-tested")


def test_check_refuses(stack: Path) -> None:
    file = write(stack, changed({"gpuOperator": {"version": "v26.3.0"}}))
    result = RUN.invoke(commands, ["check", file])
    assert result.exit_code == 2
    assert "Nearest that works: GPU Operator v26.3.1" in result.output
    machine = RUN.invoke(commands, ["check", file, "--json"])
    (problem,) = json.loads(machine.stdout)["problems"]
    assert machine.exit_code == 2
    assert (problem["rule"], problem["path"]) == ("operator-talos", "gpuOperator.version")
    assert problem["line"] > 0


def test_check_of_nothing(tmp_path: Path) -> None:
    result = RUN.invoke(commands, ["check", str(tmp_path / "Pulumi.none.yaml")])
    assert result.exit_code == 2
    assert "does not exist" in result.output


def test_plan(stack: Path) -> None:
    values = changed({"apps": {"large": app(vramMib=20000)}})
    result = RUN.invoke(commands, ["plan", write(stack, values), "--json"])
    rows = {row["app"]: row for row in json.loads(result.stdout)["plan"]}
    assert rows["large"]["node"] == "k8s-worker-1"
    assert rows["immich-machine-learning"]["card"] == "GeForce RTX 4070 Ti SUPER"
    table = RUN.invoke(commands, ["plan", str(stack)])
    assert "large" in table.output


def test_plan_shows_what_is_free(stack: Path) -> None:
    result = RUN.invoke(commands, ["plan", write(stack, changed())])
    assert "(free)" in result.output
    assert result.exit_code == 0


def test_plan_refuses_what_does_not_fit(stack: Path) -> None:
    values = changed({"apps": {"huge": app(vramMib=90000)}})
    result = RUN.invoke(commands, ["plan", write(stack, values)])
    assert result.exit_code == 2
    assert "90000 MiB asked" in result.output


def test_overview_of_a_cluster_that_cannot_be_read(tmp_path: Path) -> None:
    result = RUN.invoke(commands, ["overview", "--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "cannot be read" in result.output
