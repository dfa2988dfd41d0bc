"""What the engine said, from its own recorded words."""

from __future__ import annotations

import json

import pytest

from pullrequest import events
from pullrequest.events import LATER, SECRET, SECRET_MARK, UNKNOWN, shown, value_at
from pullrequest.plan import changes, own_repository
from tests.pullrequest.recording import plan, preview


def ops(name: str) -> dict[str, int]:
    found = [one.op for one in plan(name).changes]
    return {op: found.count(op) for op in sorted(set(found))}


@pytest.mark.parametrize(
    ("name", "expected", "unchanged"),
    [
        ("first", {"create": 22}, 0),
        ("nothing", {}, 22),
        ("app", {"update": 3}, 19),
        ("machines", {"replace": 2, "update": 1}, 19),
        ("gone", {"delete": 3}, 19),
    ],
)
def test_every_thing_is_counted_once_and_groups_are_not(
    name: str, expected: dict[str, int], unchanged: int
) -> None:
    assert ops(name) == expected
    assert preview(name).unchanged == unchanged


def test_a_first_preview_knows_of_nothing() -> None:
    assert not preview("first").known
    assert preview("nothing").known
    assert preview("gone").known


def test_a_replacement_names_what_forces_it_with_both_values() -> None:
    vm = next(one for one in plan("machines").changes if one.name == "k8s-worker-1-vm")
    assert [(p.path, p.forces, p.before, p.after) for p in vm.properties] == [
        ("vmId", True, "111", "121")
    ]
    assert vm.loses == "its disks"


def test_a_change_in_place_forces_nothing() -> None:
    vm = next(one for one in plan("machines").changes if one.name == "k8s-worker-2-vm")
    assert [(p.path, p.forces, p.before, p.after) for p in vm.properties] == [
        ("memory.dedicated", False, "16384", "12288")
    ]
    assert vm.loses is None


def test_what_people_have_to_know_comes_first() -> None:
    listed = [one.op for one in plan("rename").changes]
    assert listed == sorted(listed, key=["replace", "delete", "update", "create"].index)


def test_a_provider_counts_where_it_is_replaced() -> None:
    assert "kubernetes" in [one.name for one in plan("rename").changes if one.op == "replace"]
    assert "kubernetes" not in [one.name for one in plan("first").changes]


def test_policies_are_read_with_their_level_and_without_their_description() -> None:
    found = [one for one in preview("policy").violations if one.level == "mandatory"]
    assert [(one.policy, one.resource) for one in found] == [
        ("no-plain-secret", "immich-machine-learning-deployment")
    ]
    assert found[0].message.startswith("The variable API_TOKEN")
    assert "protected-state" in {one.policy for one in preview("policy").violations}


def test_a_protected_resource_is_no_error_but_a_refusal() -> None:
    assert preview("protected").protected == ["k8s-worker-1-vm"]
    assert preview("protected").errors == []
    assert plan("protected").outcome == "refused"


def test_a_preview_that_broke_off_says_why_once() -> None:
    found = preview("unreachable")
    assert not found.finished
    assert len(found.errors) == 1
    assert "chart repository or cannot be reached" in found.errors[0]
    assert plan("unreachable").outcome == "failed"


def test_pulumis_own_complaint_is_an_error() -> None:
    assert events.read(["error: no such stack"]).errors == ["error: no such stack"]
    assert not events.read(["error: no such stack"]).finished


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, "true"),
        (8192, "8192"),
        ("q35", "q35"),
        ({SECRET_MARK: "x", "ciphertext": "[secret]"}, SECRET),
        ([{"inner": {SECRET_MARK: "x"}}], SECRET),
        ({"apiToken": "hunter2"}, SECRET),
        (UNKNOWN, LATER),
        ("x" * 200, "(200 characters)"),
        ("two\nlines", "(9 characters)"),
        ({"a": "x" * 200}, "(…)"),
        (["a", "b"], '["a", "b"]'),
    ],
)
def test_a_value_is_shown_in_a_few_words(value: object, expected: str | None) -> None:
    assert shown(value) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("spec.containers[0].env[1].value", SECRET),
        ("spec.containers[0].env[0].value", "compute"),
        ("spec.containers[0].env[7].value", None),
        ('metadata.labels["a.b/c"]', "yes"),
        ("stringData.password", SECRET),
        ("kubeconfig.users[0]", SECRET),
        ("no.such.path", None),
    ],
)
def test_a_path_finds_its_value_and_no_secret(path: str, expected: str | None) -> None:
    env = [{"name": "LEVEL", "value": "compute"}, {"name": "DB_PASSWORD", "value": "hunter2"}]
    values = {
        "spec": {"containers": [{"name": "main", "env": env}]},
        "metadata": {"labels": {"a.b/c": "yes"}},
        "stringData": {"password": "hunter2"},
        "kubeconfig": {SECRET_MARK: "x", "ciphertext": "[secret]"},
    }
    assert value_at(values, path) == expected


def test_the_token_of_a_recorded_change_is_nowhere_in_its_plan() -> None:
    assert "hunter2" not in plan("policy").model_dump_json()


def release(repo: str, version: str) -> dict[str, object]:
    kind = "kubernetes:helm.sh/v3:Release"
    urn = f"urn:pulumi:dev::gpu-passthrough::{kind}::gpu-operator-release"
    old = {"repositoryOpts": {"repo": "https://charts.example"}, "version": "v1"}
    new = {"repositoryOpts": {"repo": repo}, "version": version}
    detailed = {"repositoryOpts.repo": {"diffKind": "update"}}
    if version != "v1":
        detailed["version"] = {"diffKind": "update"}
    metadata = {
        "op": "update",
        "urn": urn,
        "type": kind,
        "logical": True,
        "old": {"custom": True, "inputs": old},
        "new": {"custom": True, "inputs": new},
        "detailedDiff": detailed,
    }
    return {"resourcePreEvent": {"metadata": metadata}}


@pytest.mark.parametrize(
    ("repo", "version", "expected"),
    [
        ("http://127.0.0.1:1", "v1", []),
        ("http://127.0.0.1:1", "v2", ["version"]),
        ("https://other.example", "v1", ["repositoryOpts.repo"]),
    ],
)
def test_a_stand_in_for_the_chart_repository_is_no_change(
    repo: str, version: str, expected: list[str]
) -> None:
    found = events.read([json.dumps(release(repo, version))])
    own_repository(found, "http://127.0.0.1:1")
    assert [p.path for one in changes(found) for p in one.properties] == expected
    assert found.unchanged == (not expected)
