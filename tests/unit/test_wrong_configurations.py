"""Configurations that people really wrote, each with neighbours that are right or wrong too.

The names W01… are those of the list of such configurations that the project keeps to.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_passthrough.config import Stack
from gpu_passthrough.problems import where

from .stacks import GONE, app, changed, gpu, node, only_card, problems, rules, the_problem, volume

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


@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteOncePod"])
def test_w18_a_volume_for_one_writer_and_a_rolling_update(mode: str) -> None:
    rolling = {"strategy": "RollingUpdate", "volumes": {"cache": {"accessMode": mode}}}
    problem = the_problem(changed({"apps": {ML: rolling}}))
    assert problem.rule == "app-strategy"
    assert "Recreate" in problem.fix
    assert "StatefulSet" in problem.fix
    assert problems(changed({"apps": {ML: {"strategy": "Recreate"}}})) == []
    assert problems(changed({"apps": {ML: {"strategy": GONE}}})) == []


def test_w18_many_writers_may_roll() -> None:
    rolling = {"strategy": "RollingUpdate", "volumes": {"cache": {"accessMode": "ReadWriteMany"}}}
    assert problems(changed({"apps": {ML: rolling}})) == []


def test_one_writer_and_two_replicas() -> None:
    assert rules(changed({"apps": {ML: {"replicas": 2}}})) == ["app-writers"]
    assert problems(changed({"apps": {ML: {"replicas": 2, "volumes": {"cache": GONE}}}})) == []
    shared = {"replicas": 2, "volumes": {"cache": {"accessMode": "ReadWriteMany"}}}
    assert problems(changed({"apps": {ML: shared}})) == []


def test_w19_more_gpus_than_there_are() -> None:
    problem = the_problem(changed({"apps": {"second": app(), "third": app()}}))
    assert problem.rule == "app-placement"
    assert "GeForce RTX 3090: 0 of 1 free" in problem.message
    assert "GeForce RTX 4070 Ti SUPER: 0 of 1 free" in problem.message
    assert problems(changed({"apps": {"second": app()}})) == []


def test_w19_more_gpus_than_one_node_has() -> None:
    problem = the_problem(changed({"apps": {"two": app(gpus=2)}}))
    assert where(problem.path) == "apps.two.gpus"
    assert "1 at most, 2 asked" in problem.why
    wide = [gpu("RTX 3080"), gpu("RTX 3080", path="0000:05:00", iommuGroup=20)]
    both = {"k8s-worker-3": node(23, "worker", *wide)}
    assert problems(changed({"nodes": both, "apps": {"two": app(gpus=2)}})) == []


def test_w19_more_memory_than_a_card_has() -> None:
    problem = the_problem(changed({"apps": {ML: {"vramMib": 24577}}}))
    assert where(problem.path) == f"apps.{ML}.vramMib"
    assert "24576" in problem.why
    assert "16376" in problem.why
    assert problems(changed({"apps": {ML: {"vramMib": 24576}}})) == []


def test_w19_memory_is_what_the_driver_says_not_what_the_box_says() -> None:
    first = app(vramMib=20000)
    assert problems(changed({"apps": {"first": first, ML: {"vramMib": 16376}}})) == []
    assert rules(changed({"apps": {"first": first, ML: {"vramMib": 16384}}})) == ["app-placement"]


def test_w19_a_pinned_app_gets_its_card_from_one_that_has_a_choice() -> None:
    pinned = app(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-3090"})
    assert problems(changed({"apps": {"pinned": pinned}})) == []
    assert rules(changed({"apps": {"pinned": pinned, "too": pinned}})) == ["app-placement"]


@pytest.mark.parametrize(
    ("label", "near"),
    [
        ("NVIDIA-GeForce-RTX-3080", "NVIDIA-GeForce-RTX-3090"),
        ("RTX-3090", "NVIDIA-GeForce-RTX-3090"),
        ("NVIDIA-GeForce-RTX-4070-Ti-Super", "NVIDIA-GeForce-RTX-4070-Ti-SUPER"),
        ("NVIDIA-GeForce-RTX-3090-SHARED", "NVIDIA-GeForce-RTX-3090"),
    ],
)
def test_w20_a_product_that_no_card_gets(label: str, near: str) -> None:
    selector = {"nodeSelector": {"nvidia.com/gpu.product": label}}
    found = problems(changed({"apps": {ML: selector}}))
    assert [one.rule for one in found] == ["app-product"]
    assert found[0].fix == f"The nearest label is {near}."


@pytest.mark.parametrize("label", ["NVIDIA-GeForce-RTX-3090", "NVIDIA-GeForce-RTX-4070-Ti-SUPER"])
def test_w20_labels_that_cards_get(label: str) -> None:
    selector = {"nodeSelector": {"nvidia.com/gpu.product": label}}
    assert problems(changed({"apps": {ML: selector}})) == []
    off = changed({"apps": {ML: selector}, "gpuOperator": {"gfd": {"enabled": False}}})
    assert "app-labels" in rules(off)


def test_w20_sharing_changes_the_label() -> None:
    shared = {"gpuOperator": {"sharing": {"replicas": 4}}}
    selector = {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-3090-SHARED"}}
    assert problems(changed({**shared, "apps": {ML: selector}})) == []
    renamed = {"gpuOperator": {"sharing": {"replicas": 4, "rename": True}}}
    assert rules(changed({**renamed, "apps": {ML: selector}})) == ["app-product"]


def test_w21_order_of_devices_says_nothing() -> None:
    cards = [gpu("RTX 3090"), gpu("RTX 3080")]
    for order in (cards, cards[::-1]):
        assert problems(changed({"nodes": {"k8s-worker-1": {"gpus": order}}})) == []


def test_w22_a_gpu_without_runtime_class() -> None:
    problem = the_problem(changed({"apps": {ML: {"runtimeClassName": None}}}))
    assert problem.rule == "app-runtime-class"
    assert "failure 35" in problem.why
    assert problems(changed({"apps": {ML: {"runtimeClassName": GONE}}})) == []
    other = the_problem(changed({"apps": {ML: {"runtimeClassName": "nvidia-cdi"}}}))
    assert "nvidia-cdi" in other.message


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
    assert "preflight" in problem.why


def test_w30_one_slot_per_pod() -> None:
    sharing = {"sharing": {"replicas": 4, "rename": True}}
    assert rules(changed({"gpuOperator": sharing, "apps": {ML: {"gpus": 2}}})) == ["app-sharing"]
    values = changed({"gpuOperator": sharing})
    assert problems(values) == []
    assert Stack.model_validate(values).gpu_resource == "nvidia.com/gpu.shared"
    assert Stack.model_validate(changed()).gpu_resource == "nvidia.com/gpu"


def test_w30_slots_count_for_placement() -> None:
    apps = {f"app-{number}": app() for number in range(7)}
    values = changed({"gpuOperator": {"sharing": {"replicas": 4}}, "apps": apps})
    assert problems(values) == []
    values["apps"]["one-more"] = app()
    assert rules(values) == ["app-placement"]


def test_w33_a_rolling_update_needs_a_card_to_roll_to() -> None:
    one_card = {"k8s-worker-2": {"gpus": []}}
    rolling = {ML: {"strategy": "RollingUpdate", "volumes": {"cache": GONE}}}
    problem = the_problem(changed({"nodes": one_card, "apps": rolling}))
    assert where(problem.path) == f"apps.{ML}.strategy"
    assert "Recreate" in problem.fix
    assert problems(changed({"apps": rolling})) == []
    assert problems(changed({"nodes": one_card})) == []


def test_w34_a_host_path_cannot_be_said() -> None:
    host = {"volumes": {"cache": {"hostPath": "/var/cache"}}}
    problem = the_problem(changed({"apps": {ML: host}}))
    assert problem.rule == "unknown-key"
    assert "baseline" in problem.why


@pytest.mark.parametrize(
    "runtime_class",
    [{"handler": "nvidia-cdi"}, {"name": "gpu"}, {"name": "gpu", "handler": "gpu"}],
)
def test_w37_name_and_handler_are_nvidia_on_talos(runtime_class: Change) -> None:
    apps = {ML: {"runtimeClassName": runtime_class.get("name", "nvidia")}}
    found = rules(changed({"runtimeClass": runtime_class, "apps": apps}))
    assert set(found) == {"runtime-class"}


def test_w38_a_storage_class_is_named() -> None:
    without = volume()
    del without["storageClass"]
    values = changed()
    values["apps"][ML]["volumes"]["cache"] = without
    problem = the_problem(values)
    assert problem.rule == "missing-key"
    assert "Pending" in problem.why


@pytest.mark.parametrize(
    ("image", "works"),
    [
        ("ghcr.io/immich-app/immich-machine-learning:v3.0.0", False),
        ("ghcr.io/immich-app/immich-machine-learning", False),
        ("ghcr.io/immich-app/immich-machine-learning:v3.0.0-openvino", False),
        ("ghcr.io/immich-app/immich-machine-learning:v3.0.0-cuda", True),
        ("ghcr.io/immich-app/immich-machine-learning@sha256:" + "0" * 64, True),
        ("registry.example.org:5000/immich-machine-learning:v3.0.0", True),
    ],
)
def test_an_image_without_cuda_is_refused(image: str, works: bool) -> None:
    assert rules(changed({"apps": {ML: {"image": image}}})) == ([] if works else ["app-image"])


@pytest.mark.parametrize(
    ("cuda", "card", "works"),
    [
        ("13.0", "RTX 3090", True),
        ("12.4", "RTX 5090", False),
        ("12.8", "RTX 5090", True),
        ("13.0", "Tesla P4", False),
        ("12.9", "Tesla P4", True),
        ("11.8", "RTX 3080", True),
    ],
)
def test_cuda_of_an_image_and_the_card(cuda: str, card: str, works: bool) -> None:
    modules = "open" if card == "RTX 5090" else "nonfree"
    values = only_card(card, kernelModules=modules)
    values["apps"][ML]["cuda"] = cuda
    assert rules(values) == ([] if works else ["app-placement"])


def test_cuda_of_an_image_and_the_driver() -> None:
    values = changed(
        {
            "apps": {ML: {"cuda": "13.0"}},
            "cluster": {"talosVersion": "v1.12.6", "extensions": {"channel": "production"}},
        }
    )
    assert "app-cuda-driver" in rules(values)


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
