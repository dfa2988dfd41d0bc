"""Versions, hardware, addresses and the operator: what cannot work is refused.

The names W01… are those of the list of configurations that people really wrote, which the project
keeps to; each has neighbours that are right or wrong too.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_passthrough.problems import where

from .stacks import GONE, changed, gpu, node, only_card, problems, rules, the_problem

Change = dict[str, Any]
ML = "immich-machine-learning"


def operator(version: str, talos: str = "v1.13.9", kubernetes: str = "v1.33.1") -> Change:
    cluster = {"talosVersion": talos, "kubernetesVersion": kubernetes}
    return changed({"gpuOperator": {"version": version}, "cluster": cluster})


@pytest.mark.parametrize("version", ["v24.9.2", "v25.3.2", "v26.3.1", "v26.7.0"])
@pytest.mark.parametrize("talos", ["v1.10.9", "v1.11.0", "v1.11.6", "v1.12.0", "v1.12.11"])
def test_w01_validator_never_passes_before_talos_1_13(version: str, talos: str) -> None:
    problem = the_problem(operator(version, talos))
    assert problem.rule == "talos-operator"
    assert version in problem.message
    assert talos in problem.message
    assert "Talos v1.13.0" in problem.fix


def test_w01_names_the_lowest_pair_that_works() -> None:
    problem = the_problem(operator("v25.3.2", "v1.11.0"))
    assert problem.fix == "Nearest that works: Talos v1.13.0."
    assert {problem.path, *problem.also} == {
        ("gpuOperator", "version"),
        ("cluster", "talosVersion"),
    }


def test_w01_changes_kubernetes_too_where_it_must() -> None:
    problem = the_problem(operator("v25.3.2", "v1.11.0", "v1.29.4"))
    assert problem.fix == "Nearest that works: Talos v1.13.0 and Kubernetes v1.31.0."


@pytest.mark.parametrize(
    ("version", "talos"),
    [
        ("v25.3.2", "v1.13.0"),
        ("v24.9.2", "v1.13.9"),
        ("v26.3.1", "v1.14.0-rc.1"),
        ("v25.3.2", "v1.13.0-rc.0"),
        ("v26.3.1", "v1.13.10"),
    ],
)
def test_w01_accepts_talos_1_13(version: str, talos: str) -> None:
    assert problems(operator(version, talos)) == []


def test_w01_an_early_beta_lacks_the_links() -> None:
    assert "talos-operator" in rules(operator("v26.3.1", "v1.13.0-beta.1"))


def test_w01_does_not_concern_a_cluster_without_cards() -> None:
    without = {"k8s-worker-1": node(21), "k8s-worker-2": node(22)}
    values = changed({"nodes": without, "apps": {ML: GONE}, "cluster": {"talosVersion": "v1.12.6"}})
    values["nodes"] = {"k8s-cp-1": node(20, "controlplane"), **without}
    assert problems(values) == []


@pytest.mark.parametrize("talos", ["v1.13.0", "v1.13.9", "v1.14.0-rc.1"])
def test_w02_operator_26_3_0_fails_on_every_talos(talos: str) -> None:
    problem = the_problem(operator("v26.3.0", talos))
    assert problem.rule == "operator-talos"
    assert "v26.3.1" in problem.why
    assert "GPU Operator v26.3.1" in problem.fix


@pytest.mark.parametrize("version", ["v25.10.0", "v26.3.1", "v26.3.3"])
def test_w02_its_neighbours_work(version: str) -> None:
    assert problems(operator(version)) == []


@pytest.mark.parametrize("card", ["RTX 5090", "RTX PRO 6000 Blackwell Workstation Edition"])
def test_w03_blackwell_needs_the_open_modules(card: str) -> None:
    problem = the_problem(only_card(card, kernelModules="nonfree"))
    assert problem.rule == "card-modules"
    assert "Blackwell" in problem.message
    assert where(problem.path) == "nodes.k8s-worker-1.gpus[0].card"
    assert ("cluster", "extensions", "kernelModules") in problem.also
    assert problem.fix == "Nearest that works: kernel modules open."
    assert problems(only_card(card, kernelModules="open")) == []


@pytest.mark.parametrize("card", ["GTX 980", "Tesla P4", "Tesla V100 SXM2 32GB"])
def test_w04_cards_before_turing_need_the_nonfree_modules(card: str) -> None:
    problem = the_problem(only_card(card, kernelModules="open"))
    assert problem.rule == "card-modules"
    assert problem.fix == "Nearest that works: kernel modules nonfree."
    assert problems(only_card(card, kernelModules="nonfree")) == []


@pytest.mark.parametrize("card", ["GTX 980", "Tesla P4", "Tesla V100 SXM2 32GB"])
def test_w04_cards_before_turing_end_with_driver_branch_580(card: str) -> None:
    problem = the_problem(only_card(card, kernelModules="nonfree", channel="production"))
    assert problem.rule == "card-driver"
    assert "595" in problem.message
    assert "580" in problem.message
    assert "extension channel lts" in problem.fix


@pytest.mark.parametrize("card", ["RTX 2080 Ti", "RTX 3080", "RTX 4070 Ti Super", "H100 PCIe"])
@pytest.mark.parametrize("modules", ["nonfree", "open"])
@pytest.mark.parametrize("channel", ["lts", "production"])
def test_cards_from_turing_to_hopper_take_both_flavours(
    card: str, modules: str, channel: str
) -> None:
    assert problems(only_card(card, kernelModules=modules, channel=channel)) == []


def test_pascal_and_blackwell_share_no_cluster() -> None:
    workers = {
        "k8s-worker-1": node(21, "worker", gpu("Tesla P4")),
        "k8s-worker-2": node(22, "worker", gpu("RTX 5090", path="0000:04:00", iommuGroup=17)),
    }
    found = problems(changed({"nodes": workers}))
    assert [one.rule for one in found] == ["card-modules"]
    assert "clusters of their own" in found[0].fix


@pytest.mark.parametrize(
    "key",
    ["machine", "balloon", "floating", "hostname", "schematic", "installerImage", "platform"],
)
def test_w05_w07_w08_w11_w16_w28_w35_cannot_be_said(key: str) -> None:
    problem = the_problem(changed({"nodes": {"k8s-worker-1": {key: "x"}}}))
    assert problem.rule == "unknown-key"
    assert problem.why


@pytest.mark.parametrize("path", ["0000:01:00.0", "01:00", "0000:01:00.1", "1:00.0"])
def test_w09_w27_a_device_is_given_without_its_function(path: str) -> None:
    problem = the_problem(
        changed({"nodes": {"k8s-worker-1": {"gpus": [gpu("RTX 3090", path=path)]}}})
    )
    assert "without the function" in problem.message


@pytest.mark.parametrize("operand", ["driver", "toolkit"])
def test_w13_driver_and_toolkit_are_off_on_talos(operand: str) -> None:
    for section in (
        {operand: {"enabled": True}},
        {"values": {operand: {"enabled": True}}},
        {"values": {operand: {"enabled": "false"}}},
    ):
        problem = the_problem(changed({"gpuOperator": section}))
        assert problem.rule == "operator-on-talos"
        assert operand in problem.message
        assert "Talos v1.13.9" in problem.message
    assert problems(changed({"gpuOperator": {"values": {operand: {"enabled": False}}}})) == []
    assert problems(changed({"gpuOperator": {operand: {"enabled": False}}})) == []


@pytest.mark.parametrize("operand", ["devicePlugin", "validator"])
def test_needed_operands_stay_on(operand: str) -> None:
    problem = the_problem(changed({"gpuOperator": {operand: {"enabled": False}}}))
    assert where(problem.path) == f"gpuOperator.{operand}.enabled"
    assert problems(changed({"gpuOperator": {operand: {"enabled": True}}})) == []


def test_values_do_not_contradict_the_switches() -> None:
    by_values = {"values": {"dcgmExporter": {"enabled": False}}}
    assert the_problem(changed({"gpuOperator": by_values})).rule == "operator-values"
    assert (
        problems(changed({"gpuOperator": {**by_values, "dcgmExporter": {"enabled": False}}})) == []
    )
    dotted = {"values": {"driver.enabled": True}}
    assert the_problem(changed({"gpuOperator": dotted})).rule == "operator-values"


@pytest.mark.parametrize(
    ("version", "values", "rule"),
    [
        ("v24.9.2", {"cdi": {"enabled": True}}, "operator-cdi"),
        ("v26.3.1", {"cdi": {"enabled": True}}, None),
        ("v26.3.1", {"cdi": {"enabled": True, "nriPluginEnabled": True}}, "operator-cdi"),
        ("v26.3.1", {"operator": {"runtimeClass": "nvidia-gpu"}}, "runtime-class"),
        ("v26.3.1", {"operator": {"runtimeClass": "nvidia"}}, None),
    ],
)
def test_values_that_break_injection(version: str, values: Change, rule: str | None) -> None:
    found = rules(changed({"gpuOperator": {"version": version, "values": values}}))
    assert found == ([rule] if rule else [])


@pytest.mark.parametrize(
    ("change", "path", "near"),
    [
        ({"cluster": {"talosVersoin": "v1"}}, "cluster.talosVersoin", "talosVersion"),
        ({"nods": {}}, "nods", "nodes"),
        ({"nodes": {"k8s-cp-1": {"adress": "1"}}}, "nodes.k8s-cp-1.adress", "address"),
        ({"apps": {ML: {"runtimeClass": "nvidia"}}}, f"apps.{ML}.runtimeClass", "runtimeClassName"),
        ({"cluster": {"talos_version": "v1"}}, "cluster.talos_version", "talosVersion"),
        ({"gpuOperator": {"dcgm": {}}}, "gpuOperator.dcgm", None),
        ({"timeouts": {"appReadyy": 3}}, "timeouts.appReadyy", "appReady"),
    ],
)
def test_w14_unknown_keys_are_refused_with_the_nearest(
    change: Change, path: str, near: str | None
) -> None:
    problem = the_problem(changed(change))
    assert problem.rule == "unknown-key"
    assert where(problem.path) == path
    assert near is None or f"Did you mean {near!r}?" == problem.fix


def test_w15_a_device_belongs_to_one_vm() -> None:
    values = changed({"nodes": {"k8s-worker-2": {"gpus": [gpu("RTX 3090")]}}})
    found = [one for one in problems(values) if one.rule == "device-duplicate"]
    assert len(found) == 1
    for part in ("k8s-worker-1", "k8s-worker-2", "0000:01:00", "pve"):
        assert part in found[0].message
    assert ("nodes", "k8s-worker-1", "gpus", 0, "path") in found[0].also


def test_w15_the_same_address_on_another_host_is_another_device() -> None:
    other = {"gpus": [gpu("RTX 3090")], "host": "pve2"}
    assert problems(changed({"nodes": {"k8s-worker-2": other}})) == []


def test_w15_twice_in_one_vm() -> None:
    twice = {"gpus": [gpu("RTX 3090"), gpu("RTX 3090")]}
    problem = the_problem(changed({"nodes": {"k8s-worker-1": twice}}))
    assert "k8s-worker-1 twice" in problem.message


def test_two_vms_in_one_iommu_group() -> None:
    card = gpu("RTX 4070 Ti Super", iommuGroup=14)
    problem = the_problem(changed({"nodes": {"k8s-worker-2": {"gpus": [card]}}}))
    assert problem.rule == "iommu-group"
    both = [gpu("RTX 3090"), card]
    one_vm = changed({"nodes": {"k8s-worker-1": {"gpus": both}, "k8s-worker-2": {"gpus": []}}})
    assert problems(one_vm) == []


def test_a_vm_id_belongs_to_one_vm() -> None:
    problem = the_problem(changed({"nodes": {"k8s-worker-2": {"vmId": 121}}}))
    assert problem.rule == "vm-id-duplicate"
    assert "k8s-worker-1" in problem.message
    assert "k8s-worker-2" in problem.message
    on_another_host = changed({"nodes": {"k8s-worker-2": {"vmId": 121, "host": "pve2"}}})
    assert rules(on_another_host) == ["vm-id-duplicate"]


def test_w21_order_of_devices_says_nothing() -> None:
    cards = [gpu("RTX 3090"), gpu("RTX 3080")]
    for order in (cards, cards[::-1]):
        assert problems(changed({"nodes": {"k8s-worker-1": {"gpus": order}}})) == []


@pytest.mark.parametrize(
    ("talos", "kubernetes", "works"),
    [
        ("v1.13.9", "v1.30.9", False),
        ("v1.13.9", "v1.31.0", True),
        ("v1.13.9", "v1.36.5", True),
        ("v1.13.9", "v1.37.0", False),
        ("v1.14.0-rc.1", "v1.32.1", False),
        ("v1.14.0-rc.1", "v1.33.0", True),
        ("v1.14.0-rc.1", "v1.37.1", True),
    ],
)
def test_w23_kubernetes_inside_of_what_talos_supports(
    talos: str, kubernetes: str, works: bool
) -> None:
    found = problems(operator("v26.3.1", talos, kubernetes))
    assert [one.rule for one in found] == ([] if works else ["talos-kubernetes"])
    assert works or "1.3" in found[0].message


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"nodes": {"k8s-worker-1": {"address": "192.168.20.20"}}}, "address-duplicate"),
        ({"cluster": {"virtualAddress": "192.168.20.21"}}, "address-duplicate"),
        ({"nodes": {"k8s-worker-1": {"address": "192.168.20.1"}}}, "address-duplicate"),
        ({"nodes": {"k8s-worker-1": {"address": "192.168.20.10"}}}, "address-duplicate"),
        ({"nodes": {"k8s-worker-1": {"address": "192.168.21.21"}}}, "address-network"),
        ({"nodes": {"k8s-worker-1": {"address": "192.168.20.255"}}}, "address-network"),
        ({"nodes": {"k8s-worker-1": {"address": "192.168.20.0"}}}, "address-network"),
        ({"cluster": {"virtualAddress": "10.0.0.5"}}, "address-network"),
        ({"proxmox": {"network": {"gateway": "192.168.1.1"}}}, "address-network"),
        ({"cluster": {"endpoint": "https://192.168.20.21:6443"}}, "endpoint"),
        ({"cluster": {"endpoint": "https://192.168.20.99:6443"}}, "endpoint"),
        ({"cluster": {"endpoint": "https://10.0.0.5:6443"}}, "endpoint"),
        ({"nodes": {"k8s-cp-1": {"role": "worker"}}}, "control-plane"),
        ({"cluster": {"virtualAddress": "192.168.20.30"}}, None),
        (
            {
                "cluster": {
                    "virtualAddress": "192.168.20.30",
                    "endpoint": "https://192.168.20.30:6443",
                }
            },
            None,
        ),
        ({"cluster": {"endpoint": "https://k8s.example.org:6443"}}, None),
        ({"proxmox": {"network": {"cidr": "192.168.0.0/16"}}}, None),
    ],
)
def test_w24_addresses(change: Change, rule: str | None) -> None:
    assert rules(changed(change)) == ([rule] if rule else [])


def test_w24_names_both_sides() -> None:
    problem = the_problem(changed({"nodes": {"k8s-worker-1": {"address": "192.168.20.20"}}}))
    assert "k8s-cp-1" in problem.message
    assert "k8s-worker-1" in problem.message


@pytest.mark.parametrize("key", ["iommuGroup", "subsystemId"])
def test_w26_a_mapping_needs_group_and_subsystem(key: str) -> None:
    card = gpu("RTX 3090")
    del card[key]
    problem = the_problem(changed({"nodes": {"k8s-worker-1": {"gpus": [card]}}}))
    assert problem.rule == "missing-key"
    assert "python -m gpu_passthrough devices" in problem.why


@pytest.mark.parametrize(
    "runtime_class",
    [{"handler": "nvidia-cdi"}, {"name": "gpu"}, {"name": "gpu", "handler": "gpu"}],
)
def test_w37_name_and_handler_are_nvidia_on_talos(runtime_class: Change) -> None:
    apps = {ML: {"runtimeClassName": runtime_class.get("name", "nvidia")}}
    found = rules(changed({"runtimeClass": runtime_class, "apps": apps}))
    assert set(found) == {"runtime-class"}


@pytest.mark.parametrize(
    ("card", "pci", "works"),
    [
        ("RTX 3090", "10de:2705", False),
        ("RTX 3090", "1002:73bf", False),
        ("RTX 3090", "10de:ffff", True),
        ("GeForce RTX 3090", "10de:2204", True),
    ],
)
def test_the_pci_id_is_that_of_the_card(card: str, pci: str, works: bool) -> None:
    cards = [gpu("RTX 3090", card=card, id=pci)]
    found = rules(changed({"nodes": {"k8s-worker-1": {"gpus": cards}}}))
    assert found == ([] if works else ["card-id"])


def test_an_unknown_card_is_named_by_its_pci_id() -> None:
    cards = [gpu("RTX 3090", card="RTX 3095")]
    problem = the_problem(changed({"nodes": {"k8s-worker-1": {"gpus": cards}}}))
    assert problem.rule == "card-unknown"
    assert "GeForce RTX 3090" in problem.fix


def test_the_driver_that_is_expected() -> None:
    pinned = {"driver": "580.178.04"}
    assert problems(changed({"cluster": {"extensions": pinned}})) == []
    older = {"talosVersion": "v1.13.8", "extensions": pinned}
    problem = the_problem(changed({"cluster": older}))
    assert problem.rule == "talos-driver"
    assert "Talos v1.13.9" in problem.fix
