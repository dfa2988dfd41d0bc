"""The rules see what the engine sends: mappings and sequences of Pulumi's own, partly unknown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, unknown_checking_proxy

sys.path.insert(0, str(Path(__file__).parents[2] / "policy"))

import rules

VM = {"machine": "q35", "memory": {"floating": 4096}, "hostpcis": [{"device": "hostpci0"}]}
POD = {
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "registry.example/app:latest",
                "env": [{"name": "API_TOKEN", "value": "plain"}],
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }
        ]
    }
}


def violated(kind: str, props: dict[str, Any]) -> set[str]:
    seen = unknown_checking_proxy(props)
    return {rule.name for rule in rules.RULES if list(rule.check(kind, seen))}


@pytest.mark.parametrize(
    ("kind", "props", "expected"),
    [
        (rules.VM, VM, {"no-ballooning-with-passthrough"}),
        (
            "kubernetes:core/v1:Pod",
            POD,
            {"gpu-limit-needs-runtime-class", "pinned-image", "no-plain-secret"},
        ),
    ],
)
def test_lists_of_the_engine_are_read(kind: str, props: dict[str, Any], expected: set[str]) -> None:
    assert violated(kind, props) == expected


def test_a_claimed_gpu_in_the_engines_list_is_a_claim() -> None:
    pod = {"spec": {**POD["spec"], "runtimeClassName": "nvidia"}}
    assert "runtime-class-needs-gpu-limit" not in violated("kubernetes:core/v1:Pod", pod)


def test_an_unknown_value_beside_what_a_rule_reads_does_not_stop_it() -> None:
    device = {"device": "hostpci0", "mapping": UNKNOWN_STRING_VALUE}
    vm = {**VM, "hostpcis": [device], "nodeName": UNKNOWN_STRING_VALUE}
    assert violated(rules.VM, vm) == {"no-ballooning-with-passthrough"}
