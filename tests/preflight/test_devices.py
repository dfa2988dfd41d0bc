"""The cards of the hosts as entries of a stack file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from gpu_passthrough import cards
from gpu_passthrough.cli import app
from gpu_passthrough.config import Gpu
from gpu_passthrough.document import parse
from tests.preflight.ground import stack_file
from tests.rack.proxmoxserver import Served


def devices(file: Path) -> Any:
    return CliRunner().invoke(app, ["devices", str(file)])


def test_what_is_printed_can_be_pasted(served: Served, tmp_path: Path) -> None:
    done = devices(stack_file(served, tmp_path))
    assert done.exit_code == 0, done.output
    entries = parse(done.stdout, "printed").value["gpus"]
    found = [Gpu.model_validate(one) for one in entries]
    assert all(cards.find(one.card) for one in found)
    assert [(one.card, one.path, one.id, one.subsystem_id, one.iommu_group) for one in found] == [
        ("GeForce RTX 3090", "0000:01:00", "10de:2204", "10de:1467", 14),
        ("GeForce RTX 4070 Ti SUPER", "0000:02:00", "10de:2705", "10de:1816", 15),
    ]
    assert "# in this IOMMU group: 0000:01:00.0, 0000:01:00.1" in done.stdout


def test_a_stack_file_that_lacks_them_is_enough(served: Served, tmp_path: Path) -> None:
    file = stack_file(served, tmp_path, nodes={"k8s-worker-1": {"gpus": [{"card": "RTX 3090"}]}})
    refused = CliRunner().invoke(app, ["preflight", str(file)])
    assert refused.exit_code == 2
    assert "python -m gpu_passthrough devices" in refused.stderr
    assert devices(file).exit_code == 0


def test_a_host_without_a_card(served: Served, tmp_path: Path) -> None:
    with served.rack.lock() as world:
        found = world.hosts["pve"]
        found.functions = [one for one in found.functions if one.vendor != "0x10de"]
    done = devices(stack_file(served, tmp_path))
    assert (done.exit_code, yaml.safe_load(done.stdout)) == (0, None)
    assert "# no NVIDIA card" in done.stdout


def test_a_card_that_the_catalogue_does_not_know(served: Served, tmp_path: Path) -> None:
    with served.rack.lock() as world:
        found = world.hosts["pve"]
        found.functions = [
            one.model_copy(update={"device": "0xffff"}) if one.address == "0000:01:00.0" else one
            for one in found.functions
        ]
        found.iommu = False
    done = devices(stack_file(served, tmp_path))
    assert "card: UNKNOWN" in done.stdout
    assert "the IOMMU is off" in done.stdout


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"proxmox": {"endpoint": "http://192.168.20.10:8006"}}, 2, "proxmox.endpoint"),
        ({"proxmox": {"endpoint": "https://127.0.0.1:1"}}, 3, "refused"),
    ],
)
def test_no_way_to_the_host(
    served: Served, tmp_path: Path, change: dict[str, Any], code: int, says: str
) -> None:
    done = devices(stack_file(served, tmp_path, **change))
    assert (done.exit_code, says in done.stderr) == (code, True)


def test_a_stack_that_builds_no_vms(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.test.yaml"
    file.write_text("config: {}\n")
    done = devices(file)
    assert (done.exit_code, "builds no VMs" in done.stderr) == (2, True)
