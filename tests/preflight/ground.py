"""The document's stack on a served host, its report, and the command on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from gpu_passthrough.checks.report import Report
from gpu_passthrough.cli import app
from gpu_passthrough.config import Stack
from gpu_passthrough.judging import judge
from gpu_passthrough.preflight.run import preflight
from tests.rack.proxmoxserver import Served
from tests.unit.stacks import changed

CARD = "0000:01:00"


def stack_of(served: Served, **change: Any) -> Stack:
    """The document's stack on the served host."""
    site = {"endpoint": f"https://127.0.0.1:{served.port}", **change.pop("proxmox", {})}
    values = changed({"proxmox": site, **change})
    for name, subsystem in (("k8s-worker-1", "10de:1467"), ("k8s-worker-2", "10de:1816")):
        if name in values["nodes"]:
            values["nodes"][name]["gpus"][0]["subsystemId"] = subsystem
    return judge(values)


def run(served: Served, **change: Any) -> Report:
    stack = stack_of(served, **change)
    assert stack.proxmox is not None
    return preflight("test", stack, stack.proxmox)


def failed(report: Report) -> set[str]:
    return {one.id for one in report.failures}


def stack_file(served: Served, folder: Path, **change: Any) -> Path:
    """The document's stack on the served host, as a file; what is changed need not be right."""
    stack = stack_of(served).model_dump(mode="json", by_alias=True, exclude_none=True)
    for section, values in change.items():
        stack[section] = {**stack[section], **values}
    config = {f"gpu-passthrough:{key}": value for key, value in stack.items()}
    file = folder / "Pulumi.test.yaml"
    file.write_text(json.dumps({"config": config}))
    return file


def command(served: Served, folder: Path, *arguments: str) -> Any:
    """Run the command on a stack file for the served host."""
    return CliRunner().invoke(app, ["preflight", str(stack_file(served, folder)), *arguments])
