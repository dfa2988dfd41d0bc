"""Everything that the program may register is what official plugins and SDKs take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from gpu_passthrough.judging import judge
from gpu_passthrough.problems import ConfigurationError
from tests.contract import schema, sdk
from tests.contract.stacks import OPTIONS, recorded
from tests.program.recorder import Recorder, run_program
from tests.property.configurations import stacks

OURS = "gpu-passthrough:index:"


def problems(recorder: Recorder) -> Iterator[str]:
    """What is wrong with the resources of a run, its providers and its function calls."""
    for one in recorder.resources:
        if one.type.startswith(OURS):
            continue
        inputs = decoded(one.inputs) if "pulumi:providers:" in one.type else one.inputs
        yield from sdk.problems(one.type, inputs)
        name = one.type.rpartition(":")[2] if "providers" in one.type else one.type.split(":")[0]
        if name in ("proxmoxve", "talos"):
            facts = schema.package(name)
            table = facts["provider"] if "providers" in one.type else facts["resources"][one.type]
            yield from schema.problems(facts, table, inputs, one.name)
    for token, calls in recorder.calls.items():
        facts = schema.package(token.partition(":")[0])
        for call in calls:
            yield from schema.problems(facts, facts["functions"][token], call, token)


def decoded(inputs: dict[str, Any]) -> dict[str, Any]:
    """A provider's inputs travel as JSON texts."""
    plain = {"true": True, "false": False}
    return {key: plain.get(value, value) for key, value in inputs.items()}


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option(option: str) -> None:
    assert list(problems(recorded(option))) == []


def test_the_options_register_every_kind_of_resource_that_the_program_has() -> None:
    found = {one.type for option in OPTIONS for one in recorded(option).resources}
    assert {token for token in found if not token.startswith(OURS)} == set(sdk.ARGUMENTS)


@settings(max_examples=max(1, settings().max_examples // 10))
@given(stacks())
def test_generated_stacks(values: dict[str, Any]) -> None:
    try:
        stack = judge(values)
    except ConfigurationError:
        return
    assert list(problems(run_program(lambda: stack))) == []


@pytest.mark.parametrize(
    ("token", "change"),
    [
        ("proxmoxve:index/vmLegacy:VmLegacy", {"machineType": "q35"}),
        ("proxmoxve:index/vmLegacy:VmLegacy", {"cpu": {"cores": "4"}}),
        ("proxmoxve:index/vmLegacy:VmLegacy", {"nodeName": None}),
        ("proxmoxve:index/vmLegacy:VmLegacy", {"hostpcis": [{"mapping": "gpu0"}]}),
        ("proxmoxve:index/vmLegacy:VmLegacy", {"disks": [{"interface": "scsi0", "sizeGb": 1}]}),
        ("talos:machine/configurationApply:ConfigurationApply", {"configPatches": "x"}),
        ("talos:machine/configurationApply:ConfigurationApply", {"patches": []}),
    ],
)
def test_a_wrong_input_is_found_by_schema_and_sdk(token: str, change: dict[str, Any]) -> None:
    name = token.partition(":")[0]
    facts = schema.package(name)
    one = next(one for one in recorded("document").resources if one.type == token)
    inputs = {**one.inputs, **change}
    assert list(schema.problems(facts, facts["resources"][token], inputs, "x"))
    assert sdk.problems(token, inputs)


@pytest.mark.parametrize(
    ("token", "change"),
    [
        ("kubernetes:apps/v1:Deployment", {"spec": {"replica": 1}}),
        ("kubernetes:core/v1:Service", {"spec": {"ports": {"port": 80}}}),
        ("kubernetes:helm.sh/v3:Release", {"atomic": "yes"}),
        ("kubernetes:apps/v1:Deploymint", {}),
    ],
)
def test_a_wrong_input_is_found_by_the_sdk(token: str, change: dict[str, Any]) -> None:
    found = (one for one in recorded("document").resources if one.type == token)
    one = next(found, None)
    assert sdk.problems(token, {**(one.inputs if one else {}), **change})
