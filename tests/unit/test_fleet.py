"""A fleet of a thousand GPUs is read and judged in under a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpu_passthrough.load import load_stack_file
from gpu_passthrough.problems import ConfigurationError

from .stacks import app, changed, gpu, node

NODES = 1000
LIMIT = 1.0
"""Seconds of processor time, so that a busy machine changes nothing; the fastest run counts."""
CARDS = ("RTX 3090", "RTX 4070 Ti Super", "RTX 3080")


def fleet() -> dict[str, object]:
    nodes = {"cp": node(20, "controlplane", vmId=100, address="10.0.0.20")}
    for number in range(NODES):
        card = CARDS[number % len(CARDS)]
        address = f"10.0.{1 + number // 250}.{1 + number % 250}"
        host = f"pve-{number // 4}"
        bus = gpu(card, path=f"0000:{number % 4:02x}:00", iommuGroup=number % 4)
        nodes[f"w{number}"] = node(1, "worker", bus, vmId=1000 + number, address=address, host=host)
    apps = {f"app-{number}": app(replicas=20, vramMib=10000 + number) for number in range(50)}
    network = {"cidr": "10.0.0.0/16", "gateway": "10.0.0.1", "dns": ["10.0.0.1"]}
    values = changed({"proxmox": {"network": network}})
    values["cluster"]["endpoint"] = "https://10.0.0.20:6443"
    return {**values, "nodes": nodes, "apps": apps}


def fastest(work: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    values = {f"gpu-passthrough:{key}": value for key, value in fleet().items()}
    path = tmp_path / "Pulumi.fleet.yaml"
    path.write_text(yaml.safe_dump({"config": values}))
    return path


def test_a_fleet_is_judged_in_under_a_second(
    file: Path, record_property: Callable[[str, object], None]
) -> None:
    assert len(load_stack_file(file).gpu_nodes) == NODES
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    bare = fastest(lambda: yaml.load(file.read_text(), Loader=loader))
    ours = fastest(lambda: load_stack_file(file))
    record_property("seconds", round(ours, 3))
    record_property("ratio to a bare YAML parse", round(ours / bare, 2))
    print(f"{NODES} GPUs: {ours:.3f} s, {ours / bare:.2f} times a bare YAML parse ({bare:.3f} s)")
    assert ours < LIMIT


def test_a_fleet_that_is_wrong_everywhere_is_judged_in_time(file: Path) -> None:
    file.write_text(file.read_text().replace("vmId: 1", "vmIdd: 1"))

    def judge() -> None:
        with pytest.raises(ConfigurationError) as caught:
            load_stack_file(file)
        assert len(caught.value.problems) > NODES

    assert fastest(judge) < 10 * LIMIT
