"""The notation of schemas, strict checks, defaults, and differences."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pulumi.provider.experimental.property_value import PropertyValue

from rack.plugins import difference
from rack.plugins.contract import UNKNOWN, UNKNOWN_WIRE, PluginError, Property, Schema, decode
from rack.plugins.package import package_schema

TYPES = {
    "Disk": {
        "interface": Property.parse("string required"),
        "size": Property.parse("integer computed range=1..100 = 8"),
        "label": Property.parse("string"),
    },
    "Key": {"text": Property.parse("string secret matches=[a-z]+")},
}
PROPERTIES = {
    "name": Property.parse("string required"),
    "on": Property.parse("boolean = true"),
    "rate": Property.parse("number"),
    "kind": Property.parse("string replaces matches=a|b"),
    "disks": Property.parse("[Disk] key=interface"),
    "rows": Property.parse("[Disk]"),
    "tags": Property.parse("[string] unordered"),
    "labels": Property.parse("{string}"),
    "key": Property.parse("Key"),
    "address": Property.parse("string computed"),
}
SCHEMA = Schema("p", "1", PROPERTIES, {}, {}, TYPES)


def failures(values: dict[str, Any]) -> dict[str, str]:
    return {f.property: f.reason for f in SCHEMA.check(PROPERTIES, {"name": "x", **values})}


def diff(old: dict[str, Any], new: dict[str, Any]) -> dict[str, str]:
    return {p: k.name for p, k in difference.compare(SCHEMA, PROPERTIES, old, new).items()}


def test_property_notation() -> None:
    parsed = Property.parse('string required secret replaces computed = "a = b"')
    assert parsed.flags == {"required", "secret", "replaces", "computed"}
    assert all([parsed.required, parsed.secret, parsed.replaces, parsed.computed])
    assert parsed.default == "a = b"
    plain = Property.parse("[Disk] key=a+b")
    assert not any([plain.required, plain.secret, plain.replaces, plain.computed])
    assert (plain.element, plain.key, plain.default) == ("Disk", ("a", "b"), None)


@pytest.mark.parametrize("package", ["proxmoxve", "talos"])
def test_every_type_named_in_a_shipped_schema_is_there(package: str) -> None:
    schema = Schema.load(package)
    signatures = [*schema.resources.values(), *schema.functions.values()]
    tables = [schema.provider, *schema.types.values()]
    tables += [table for s in signatures for table in (s.inputs, s.outputs)]
    named = {rule.type.strip("[]{}") for table in tables for rule in table.values()}
    assert named - set(schema.types) <= {"string", "boolean", "integer", "number"}


@pytest.mark.parametrize(
    "values",
    [
        {"on": False, "rate": 1, "kind": "b"},
        {"rate": 1.5, "labels": {"a": "b"}, "tags": []},
        {"disks": [{"interface": "scsi0", "size": 1}, {"interface": "scsi1", "size": 100}]},
        {"on": UNKNOWN, "disks": UNKNOWN, "key": {"text": UNKNOWN}},
        {"kind": None},
    ],
)
def test_allowed_values_pass(values: dict[str, Any]) -> None:
    assert failures(values) == {}


@pytest.mark.parametrize(
    ("values", "path", "reason"),
    [
        ({"nmae": 1}, "nmae", "unknown property 'nmae'"),
        ({"name": None}, "name", "missing required property 'name'"),
        ({"on": "true"}, "on", "must be of type boolean, not a string"),
        ({"on": 1}, "on", "must be of type boolean, not a number"),
        ({"rate": True}, "rate", "must be of type number, not a boolean"),
        ({"kind": "c"}, "kind", "must match a|b, not 'c'"),
        ({"kind": "ab"}, "kind", "must match a|b"),
        ({"disks": {}}, "disks", "must be a list of Disk, not an object"),
        ({"disks": [{"size": 1}]}, "disks[0].interface", "missing required property"),
        ({"disks": [{"interface": "s", "size": 101}]}, "disks[0].size", "between 1 and 100"),
        ({"disks": [{"interface": "s", "size": 1.5}]}, "disks[0].size", "of type integer"),
        ({"disks": [{"interface": "s", "colour": 1}]}, "disks[0].colour", "known here: interface"),
        ({"labels": {"a": 1}}, "labels.a", "of type string"),
    ],
)
def test_anything_else_is_refused_by_its_path(
    values: dict[str, Any], path: str, reason: str
) -> None:
    found = failures(values)
    assert list(found) == [path]
    assert reason in found[path]


def test_a_refused_secret_is_not_quoted() -> None:
    assert "hunter2" not in failures({"key": {"text": "hunter2"}})["key.text"]


def test_defaults_reach_into_blocks_but_create_none() -> None:
    filled = SCHEMA.with_defaults(PROPERTIES, {"disks": [{"interface": "s"}], "kind": None})
    assert filled == {"on": True, "disks": [{"interface": "s", "size": 8}]}


def test_a_given_value_is_not_replaced_by_a_default() -> None:
    assert SCHEMA.with_defaults(PROPERTIES, {"on": False})["on"] is False


def test_values_cross_the_protocol_and_secrets_are_marked() -> None:
    values = {"on": True, "rate": 2, "key": {"text": "abc"}, "tags": ["a"], "address": UNKNOWN}
    encoded = SCHEMA.encode(PROPERTIES, values)
    assert decode(encoded) == values
    assert encoded["key"].contains_secret()
    assert not encoded["tags"].contains_secret()
    assert encoded["address"].value == UNKNOWN_WIRE


def test_whole_numbers_become_integers() -> None:
    assert decode({"a": PropertyValue(4.0), "b": PropertyValue(4.5)}) == {"a": 4, "b": 4.5}
    assert isinstance(decode({"a": PropertyValue(4.0)})["a"], int)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"on": False}, {}),
        ({}, {"on": False, "rate": 0, "name": "", "tags": [], "key": {"text": ""}}),
        ({"address": "10.0.0.1"}, {}),
        ({"tags": ["a", "b"]}, {"tags": ["b", "a"]}),
        (
            {"disks": [{"interface": "a", "size": 1}, {"interface": "b", "size": 2}]},
            {"disks": [{"interface": "b", "size": 2}, {"interface": "a"}]},
        ),
    ],
)
def test_what_means_the_same_is_no_difference(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert diff(old, new) == {}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"on": True}, {}, {"on": "DELETE"}),
        ({}, {"on": True}, {"on": "ADD"}),
        ({"kind": "a"}, {"kind": "b"}, {"kind": "UPDATE_REPLACE"}),
        ({"kind": "a"}, {}, {"kind": "DELETE_REPLACE"}),
        ({"kind": "a"}, {"kind": UNKNOWN}, {"kind": "UPDATE_REPLACE"}),
        ({"address": "a"}, {"address": "b"}, {"address": "UPDATE"}),
        ({"disks": [{"interface": "a"}]}, {"disks": UNKNOWN}, {"disks": "UPDATE"}),
        ({"disks": [{"interface": "a"}]}, {"disks": [UNKNOWN]}, {"disks[0]": "UPDATE"}),
        (
            {"disks": [{"interface": "a"}]},
            {"disks": [{"interface": UNKNOWN}]},
            {"disks[0]": "ADD", "disks[1]": "DELETE"},
        ),
        ({"tags": ["a"]}, {"tags": [UNKNOWN]}, {"tags[0]": "UPDATE"}),
        ({"tags": ["a", "b"]}, {"tags": ["a", "c"]}, {"tags[1]": "UPDATE"}),
        ({"labels": {"a": "1"}}, {"labels": {"b": "1"}}, {"labels.a": "DELETE", "labels.b": "ADD"}),
        (
            {"rows": [{"interface": "a"}, {"interface": "b"}]},
            {"rows": [{"interface": "b"}, {"interface": "a"}]},
            {"rows[0].interface": "UPDATE", "rows[1].interface": "UPDATE"},
        ),
        (
            {"disks": [{"interface": "a"}, {"interface": "b", "label": "x"}]},
            {"disks": [{"interface": "b", "label": "y"}, {"interface": "c"}]},
            {"disks[0].label": "UPDATE", "disks[1]": "ADD", "disks[2]": "DELETE"},
        ),
    ],
)
def test_differences(old: dict[str, Any], new: dict[str, Any], expected: dict[str, str]) -> None:
    assert diff(old, new) == expected


def test_replacing_paths_are_named_in_the_response() -> None:
    kinds = difference.compare(SCHEMA, PROPERTIES, {"kind": "a", "on": True}, {"kind": "b"})
    response = difference.response(kinds)
    assert response.replaces == ["kind"]
    assert response.diffs == ["kind", "on"]


def test_a_plan_takes_over_what_only_the_state_knows() -> None:
    old = {"address": "10.0.0.1", "disks": [{"interface": "b", "size": 20}], "rate": 3}
    new = {"disks": [{"interface": "a"}, {"interface": "b"}]}
    plan = difference.planned(SCHEMA, PROPERTIES, old, new)
    expected = [{"interface": "a"}, {"interface": "b", "size": 20}]
    assert plan == {"address": "10.0.0.1", "disks": expected}


def test_a_type_is_known_below_its_parents() -> None:
    schema = Schema.load("proxmoxve")
    token = "proxmoxve:download/file:File"
    assert schema.resource(f"my:module:Parent$other:module:Child${token}").inputs["url"].required
    with pytest.raises(PluginError, match="no resource proxmoxve:index/vm:Vm; it has"):
        schema.resource("my:module:Parent$proxmoxve:index/vm:Vm")


@pytest.mark.parametrize("package", ["proxmoxve", "talos"])
def test_every_reference_of_a_package_schema_resolves(package: str) -> None:
    text = package_schema(Schema.load(package))
    document = json.loads(text)
    references = set(re.findall(r"#/types/([^\"]+)", text))
    assert references
    assert references <= set(document["types"])
    assert set(document["resources"]) == set(Schema.load(package).resources)
