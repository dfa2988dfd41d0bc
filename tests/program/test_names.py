"""Names: two resources of one program never have the same one."""

from __future__ import annotations

from collections import Counter

from tests.program.recorder import run_program
from tests.program.stacks import stack


def test_a_host_may_be_called_like_an_image() -> None:
    nodes = {
        "k8s-worker-1": {"host": "pve"},
        "k8s-cp-1": {"host": "nvidia-pve"},
        "k8s-worker-2": {"host": "on-pve"},
    }
    found = run_program(lambda: stack(nodes=nodes))
    assert max(Counter(one.urn for one in found.resources).values()) == 1
    assert len(found.of("File")) == 3
