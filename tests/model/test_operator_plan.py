"""What the operator makes of a ClusterPolicy: labels, RuntimeClasses, daemon sets."""

from __future__ import annotations

from typing import Any

import pytest

from rack.world.operator import NodeView, Plan, device_list_strategy, plan
from tests.model.operatorworld import discovered, policy
from tests.model.podworld import RTX_3090, node

GPU_NODE = discovered(node(RTX_3090))
PLAIN = discovered(node().model_copy(update={"name": "k8s-cp-1"}))
NAMESPACE = "gpu-operator"


def planned(version: str = "v24.9.2", *nodes: NodeView, **changes: Any) -> Plan:
    return plan(policy(version, **changes), nodes or (GPU_NODE, PLAIN), NAMESPACE)


def names(done: Plan) -> list[str]:
    return [one["metadata"]["name"] for one in done.daemon_sets]


def test_gpu_nodes_are_labelled_and_others_are_not() -> None:
    found = planned().node_labels
    assert set(found) == {"k8s-worker-1"}
    assert found["k8s-worker-1"]["nvidia.com/gpu.present"] == "true"
    assert found["k8s-worker-1"]["nvidia.com/gpu.deploy.device-plugin"] == "true"
    assert "nvidia.com/gpu.deploy.mig-manager" not in found["k8s-worker-1"]


def test_labels_that_somebody_set_are_left() -> None:
    labels = {**GPU_NODE.labels, "nvidia.com/gpu.deploy.dcgm-exporter": "false"}
    chosen = NodeView(name="n", labels=labels)
    assert "nvidia.com/gpu.deploy.dcgm-exporter" not in planned("v24.9.2", chosen).node_labels["n"]


def test_a_node_can_be_kept_free_of_operands() -> None:
    labels = {
        **GPU_NODE.labels,
        "nvidia.com/gpu.deploy.operands": "false",
        "nvidia.com/gpu.deploy.device-plugin": "true",
    }
    found = planned("v24.9.2", NodeView(name="n", labels=labels)).node_labels["n"]
    assert found["nvidia.com/gpu.deploy.device-plugin"] is None


def test_a_node_that_lost_its_card_loses_its_operands() -> None:
    before = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.driver": "true"}
    lost = NodeView(name="n", labels={**PLAIN.labels, **before})
    found = planned("v24.9.2", lost).node_labels["n"]
    assert found == {"nvidia.com/gpu.present": "false", "nvidia.com/gpu.deploy.driver": None}


def test_operands_in_the_operators_order() -> None:
    assert names(planned()) == [
        "nvidia-operator-validator",
        "nvidia-device-plugin-daemonset",
        "nvidia-dcgm-exporter",
        "gpu-feature-discovery",
        "nvidia-mig-manager",
    ]


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ("devicePlugin", "nvidia-device-plugin-daemonset"),
        ("gfd", "gpu-feature-discovery"),
        ("dcgmExporter", "nvidia-dcgm-exporter"),
    ],
)
def test_each_operand_has_its_switch(section: str, name: str) -> None:
    assert name not in names(planned("v24.9.2", **{section: {"enabled": False}}))
    assert name in names(planned())


def test_the_validator_has_no_switch() -> None:
    found = planned("v24.9.2", validator={"enabled": False})
    assert "nvidia-operator-validator" in names(found)


def test_driver_and_toolkit_come_when_asked_for() -> None:
    found = planned("v24.9.2", driver={"enabled": True}, toolkit={"enabled": True})
    assert names(found)[:2] == ["nvidia-driver-daemonset", "nvidia-container-toolkit-daemonset"]
    driver = found.daemon_sets[0]["spec"]["template"]["spec"]["containers"][0]
    assert driver["image"] == "nvcr.io/nvidia/driver:v24.9.2-talosv1.13.9"


def test_without_a_gpu_node_there_is_a_runtime_class_and_no_daemon_set() -> None:
    found = planned("v24.9.2", PLAIN)
    assert found.runtime_classes == {"nvidia": "nvidia"}
    assert not found.daemon_sets
    assert not found.has_gpu_nodes


@pytest.mark.parametrize(
    ("version", "changes", "written"),
    [
        ("v24.9.2", {}, {"nvidia"}),
        ("v24.9.2", {"cdi": {"enabled": True}}, {"nvidia", "nvidia-cdi", "nvidia-legacy"}),
        ("v26.3.1", {}, {"nvidia", "nvidia-cdi", "nvidia-legacy"}),
        ("v26.3.1", {"cdi": {"nriPluginEnabled": True}}, set()),
        (
            "v25.10.0",
            {"cdi": {"nriPluginEnabled": True}},
            {"nvidia", "nvidia-cdi", "nvidia-legacy"},
        ),
        ("v24.9.2", {"operator": {"runtimeClass": "gpu"}}, {"gpu"}),
    ],
)
def test_runtime_classes(version: str, changes: Any, written: set[str]) -> None:
    found = planned(version, **changes)
    assert set(found.runtime_classes) == written
    assert all(name == handler for name, handler in found.runtime_classes.items())
    assert ("nvidia" in found.removed_runtime_classes) == (not written)


def test_one_release_reads_talos_version_as_a_number() -> None:
    broken = planned("v26.3.0")
    assert 'strconv.Atoi: parsing "v1": invalid syntax' in broken.error
    assert not broken.runtime_classes
    assert broken.node_labels
    assert not planned("v26.3.1").error
    assert not planned("v26.3.0", PLAIN).error


@pytest.mark.parametrize(
    ("version", "changes", "expected"),
    [
        ("v24.9.2", {}, ("envvar",)),
        ("v24.9.2", {"cdi": {"enabled": True}}, ("envvar", "cdi-annotations")),
        ("v25.10.0", {}, ("cdi-annotations", "cdi-cri")),
        ("v25.10.0", {"cdi": {"enabled": False}}, ("envvar",)),
        (
            "v26.3.1",
            {"devicePlugin": {"env": [{"name": "DEVICE_LIST_STRATEGY", "value": "envvar"}]}},
            ("envvar",),
        ),
    ],
)
def test_how_devices_are_handed_over(version: str, changes: Any, expected: tuple[str, ...]) -> None:
    assert device_list_strategy(policy(version, **changes)) == expected


def test_pod_security_label_only_when_asked_for() -> None:
    assert not planned().namespace_labels
    found = planned("v24.9.2", psa={"enabled": True}).namespace_labels
    assert found["pod-security.kubernetes.io/enforce"] == "privileged"


def test_operands_run_under_the_runtime_class_on_labelled_nodes() -> None:
    for one in planned().daemon_sets:
        spec = one["spec"]["template"]["spec"]
        assert spec["runtimeClassName"] == "nvidia"
        assert next(iter(spec["nodeSelector"])).startswith("nvidia.com/gpu.deploy.")
        assert one["metadata"]["namespace"] == NAMESPACE


def test_tolerations_of_the_policy_replace_the_default() -> None:
    own = [{"key": "gpu", "operator": "Exists"}]
    found = planned("v24.9.2", daemonsets={"tolerations": own})
    assert found.daemon_sets[0]["spec"]["template"]["spec"]["tolerations"] == own


@pytest.mark.parametrize(("version", "waits"), [("v24.9.2", True), ("v26.3.1", False)])
def test_only_older_gfd_waits_for_the_driver_itself(version: str, waits: bool) -> None:
    gfd = next(
        one
        for one in planned(version).daemon_sets
        if one["metadata"]["name"] == "gpu-feature-discovery"
    )
    init = [one["name"] for one in gfd["spec"]["template"]["spec"]["initContainers"]]
    assert ("gpu-feature-discovery-imex-init" in init) == waits
