"""The schema of stack files is in step with the model and says what the model says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_passthrough import schema

from .stacks import GONE, changed, gpu

PROJECT = Path(__file__).parents[2]
KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
SCHEMA = schema.stack_file_schema()


def _numbers_fit(rule: dict[str, Any], value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return rule.get("minimum", value) <= value <= rule.get("maximum", value)


def _map_fits(rule: dict[str, Any], value: dict[str, Any]) -> bool:
    for key, one in value.items():
        patterns = [r for p, r in rule.get("patternProperties", {}).items() if re.search(p, key)]
        other = rule.get("additionalProperties", True)
        part = rule.get("properties", {}).get(key, patterns[0] if patterns else other)
        if part is False or (isinstance(part, dict) and not fits(part, one)):
            return False
        names = rule.get("propertyNames")
        if names and not fits({"type": "string", **names}, key):
            return False
    return set(rule.get("required", [])) <= set(value)


def fits(rule: dict[str, Any], value: Any) -> bool:
    """Whether a value fits a schema: the part of JSON Schema that the file uses."""
    if "$ref" in rule:
        return fits(SCHEMA["$defs"][rule["$ref"].rsplit("/", 1)[1]], value)
    if "anyOf" in rule:
        return any(fits(one, value) for one in rule["anyOf"])
    if "enum" in rule and value not in rule["enum"]:
        return False
    kind = rule.get("type")
    if kind == "integer":
        return _numbers_fit(rule, value)
    if kind and not isinstance(value, KINDS[kind]):
        return False
    if kind == "string" and "pattern" in rule and not re.search(rule["pattern"], value):
        return False
    if kind == "array" and len(value) < rule.get("minItems", 0):
        return False
    if kind == "array" and not all(fits(rule.get("items", {}), one) for one in value):
        return False
    return _map_fits(rule, value) if kind == "object" else True


def as_file(values: dict[str, Any]) -> dict[str, Any]:
    return {"config": {f"gpu-passthrough:{key}": value for key, value in values.items()}}


def test_the_written_schema_is_in_step() -> None:
    written = (PROJECT / "schema" / "stack.schema.json").read_text()
    assert written == schema.text(), (
        "run: python -m gpu_passthrough.schema > schema/stack.schema.json"
    )
    assert json.loads(written)["$schema"].startswith("https://json-schema.org/")


@pytest.mark.parametrize("file", sorted(PROJECT.glob("Pulumi.*.yaml")), ids=lambda file: file.name)
def test_stack_files_refer_to_it_and_fit(file: Path) -> None:
    text = file.read_text()
    assert text.startswith("# yaml-language-server: $schema=schema/stack.schema.json\n")
    assert fits(SCHEMA, yaml.safe_load(text))


@pytest.mark.parametrize(
    ("change", "fine"),
    [
        ({}, True),
        ({"protect": False}, True),
        ({"proxmox": {"apiToken": "x"}}, True),
        ({"proxmox": {"apiToken": {"secure": "v1:x"}}}, True),
        ({"proxmox": {"endpoint": "http://x"}}, False),
        ({"protekt": False}, False),
        ({"nodes": {"k8s-cp-1": {"role": "boss"}}}, False),
        ({"nodes": {"k8s-cp-1": {"vmId": 99}}}, False),
        ({"nodes": {"k8s-cp-1": {"vm_id": 100}}}, False),
        ({"nodes": {"Upper": changed()["nodes"]["k8s-cp-1"]}}, False),
        ({"nodes": {"k8s-worker-1": {"gpus": [gpu("RTX 3090", path="0000:01:00.0")]}}}, False),
        ({"cluster": {"talosVersion": "1.13.9"}}, False),
        ({"cluster": {"name": GONE}}, False),
        ({"gpuOperator": {"values": {"anything": {"goes": [1]}}}}, True),
    ],
)
def test_it_refuses_what_the_model_refuses(change: dict[str, Any], fine: bool) -> None:
    assert fits(SCHEMA, as_file(changed(change))) is fine


def test_other_keys() -> None:
    assert fits(SCHEMA, {"config": {"aws:region": "x", "pulumi:tags": {}}, "encryptionsalt": "x"})
    assert not fits(SCHEMA, {"config": {"nodes": {}}})
    assert not fits(SCHEMA, {"confg": {}})
