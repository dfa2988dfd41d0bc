"""What a recovery does to a state, and reads from it."""

from __future__ import annotations

import json
from typing import Any

from gpu_passthrough.recover.engine import SECRET_KEY, kubeconfig_of, plain, settle
from gpu_passthrough.recover.pending import UNKNOWN, strays

VM = {"urn": "vm", "type": "t", "custom": True, "inputs": {"vmId": 1}, "parent": "p"}
FILE = {"urn": "file", "type": "t", "custom": True, "inputs": {}}


def deployment(*operations: dict[str, Any]) -> dict[str, Any]:
    return {
        "resources": [{"urn": "stack"}],
        "pending_operations": [{"resource": one, "type": "creating"} for one in operations],
    }


def test_what_exists_becomes_a_resource_and_the_rest_is_forgotten() -> None:
    state = deployment(VM, FILE)
    settle(state, {"vm": "111"}, {"file"})
    assert state["pending_operations"] == []
    assert state["resources"][1] == {**VM, "id": "111", "outputs": {"vmId": 1}}
    assert len(state["resources"]) == 2


def test_what_is_open_stays() -> None:
    state = deployment(VM, FILE)
    settle(state, {}, {"file"})
    assert [one["resource"]["urn"] for one in state["pending_operations"]] == ["vm"]
    assert len(state["resources"]) == 1


def test_what_the_state_has_already_is_not_added_twice() -> None:
    state = deployment(VM)
    state["resources"].append({"urn": "vm", "id": "111"})
    settle(state, {"vm": "111"}, set())
    assert len(state["resources"]) == 2
    assert state["pending_operations"] == []


def test_what_only_the_plan_knows_is_added_where_it_exists() -> None:
    state = deployment()
    settle(state, {"vm": "111"}, set(), [VM, FILE])
    assert [one["urn"] for one in state["resources"]] == ["stack", "vm"]
    assert state["resources"][1]["id"] == "111"


def test_a_plan_may_hold_strays_of_the_host_only() -> None:
    vm = {"urn": "a", "type": "proxmoxve:index/vmLegacy:VmLegacy", "inputs": {"vmId": 1}}
    unknown = {**vm, "inputs": {"vmId": UNKNOWN}}
    other = {"urn": "c", "type": "talos:machine/secrets:Secrets", "inputs": {}}
    assert [one.urn for one in strays([vm, unknown, other])] == ["a"]


def secret(value: Any) -> dict[str, str]:
    return {SECRET_KEY: "1b47061264138c4ac30d75fd1eb44270", "plaintext": json.dumps(value)}


def test_secrets_are_unwrapped() -> None:
    assert plain({"a": secret({"b": secret("c")}), "d": [secret(1)]}) == {"a": {"b": "c"}, "d": [1]}


def test_the_kubeconfig_is_found_before_the_stack_has_outputs() -> None:
    own = {
        "type": "talos:cluster/kubeconfig:Kubeconfig",
        "outputs": {"kubeconfigRaw": secret("own")},
    }
    provider = {"type": "pulumi:providers:kubernetes", "inputs": {"kubeconfig": secret("given")}}
    assert kubeconfig_of({"deployment": {"resources": [provider, own]}}) == "own"
    assert kubeconfig_of({"deployment": {"resources": [provider]}}) == "given"
    assert kubeconfig_of({"deployment": {}}) == ""
