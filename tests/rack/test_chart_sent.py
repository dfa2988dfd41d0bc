"""The values with which charts are compared are those that the program can send."""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from typing import Any

import pytest

from components.gpu_operator_release import GpuOperatorReleaseArgs, values
from gpu_passthrough.config import GpuOperator, Taint
from rack.charts import repository, sent
from tests.contract.stacks import OPTIONS, recorded

TALOS = ("v1.12.11", "v1.13.9")
TAINTS = (None, Taint(), Taint(key="example.org/gpu", effect="NoExecute"))
SHARINGS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"replicas": 4},
    {"replicas": 4, "rename": True},
)
SWITCHES = ("driver", "toolkit", "devicePlugin", "gfd", "dcgmExporter")
SWITCHED = [
    {name: {"enabled": on} for name, on in zip(SWITCHES, states, strict=True)}
    for states in product((True, False), repeat=len(SWITCHES))
]


def text(found: Any) -> str:
    """Values as a text; the device plugin's configuration by what it says."""
    read = json.loads(json.dumps(found))
    config = read["devicePlugin"].get("config")
    if config:
        config["data"] = {key: json.loads(one) for key, one in config["data"].items()}
        for one in config["data"].values():
            one["sharing"]["timeSlicing"]["resources"][0]["replicas"] = "any number"
    return json.dumps(read, sort_keys=True)


@cache
def compared(version: str) -> set[str]:
    return {text(case.values) for case in sent.sets(version)}


def made(version: str, talos: str, taint: Taint | None, **of: Any) -> str:
    """What the program makes of its options."""
    operator = GpuOperator.model_validate({"version": version, **of})
    return text(values(GpuOperatorReleaseArgs(operator=operator, talos_version=talos, taint=taint)))


@pytest.mark.parametrize("version", ["v24.9.2", "v25.3.2", "v25.10.0", "v26.7.0"])
def test_the_sets_are_the_combinations_of_the_programs_options(version: str) -> None:
    options = {
        made(version, talos, taint, sharing=sharing, **switches)
        for talos, taint, sharing in product(TALOS, TAINTS, SHARINGS)
        for switches in SWITCHED
    }
    assert compared(version) == options


@pytest.mark.parametrize("option", OPTIONS)
def test_what_a_stack_sends_is_a_set_and_values_that_are_changed(option: str) -> None:
    release = recorded(option).inputs("Release")
    more = OPTIONS[option].gpu_operator.values
    declared = sent.merged(repository.defaults()[release["version"]], more)
    changed = {case.name for case in sent.singles(release["version"], declared)}
    assert {".".join(path) for path, _ in sent.leaves(more)} <= changed
    own = {key: one for key, one in release["values"].items() if key not in more}
    assert text(own) in compared(release["version"])


def test_every_value_of_the_chart_is_changed_once() -> None:
    declared = repository.defaults()["v26.7.0"]
    cases = {case.name: case.values for case in sent.singles("v26.7.0", declared)}
    assert {".".join(path) for path, _ in sent.leaves(declared)} <= cases.keys()
    assert cases["cdi.enabled"]["cdi"] == {"enabled": False}
    assert cases["driver.enabled"]["driver"]["enabled"] is True
    assert cases["mig.strategy"]["mig"] == {"strategy": "single-other"}
    assert cases["dcgm.env"]["dcgm"]["env"] == [{"name": "EXAMPLE", "value": "other"}]
    assert cases["driver.startupProbe.periodSeconds"]["driver"]["startupProbe"] == {
        "periodSeconds": 11
    }
    # The rest is what the program sends.
    assert cases["mig.strategy"]["toolkit"] == {"enabled": False}


@pytest.mark.parametrize(("version", "sends"), [("v25.3.2", True), ("v25.10.0", False)])
def test_some_values_are_for_older_releases_only(version: str, sends: bool) -> None:
    assert all(("cdi" in case.values) == sends for case in sent.sets(version))
