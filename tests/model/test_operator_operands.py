"""What the operands do on a node: the validator's steps, and who waits for whom."""

from __future__ import annotations

from typing import Any

import pytest

from rack.world.nodefacts import NodeFacts
from rack.world.operator import plan
from rack.world.pod import PodOutcome
from tests.model.operatorworld import discovered, policy
from tests.model.podworld import MODULES, RTX_3090, node, pod, started

READY = frozenset({"driver-ready", "toolkit-ready"})


def operand(name: str, at: NodeFacts, version: str = "v24.9.2", **changes: Any) -> Any:
    """The pod of a daemon set on a node."""
    done = plan(policy(version, **changes), [discovered(at)], "gpu-operator")
    made = next(one for one in done.daemon_sets if one["metadata"]["name"] == name)
    metadata = {"name": f"{name}-0", "namespace": "gpu-operator", "uid": "u"}
    return {"metadata": metadata, "spec": made["spec"]["template"]["spec"]}


def validated(at: NodeFacts, version: str = "v24.9.2", capacity: int = 1, **c: Any) -> PodOutcome:
    return started(
        operand("nvidia-operator-validator", at, version, **c), at, gpu_capacity=capacity
    )


def step(found: PodOutcome) -> str:
    """The first init container that did not end well; empty where all did."""
    return next(
        (name for name, one in found.init.items() if one.state != "exited" or one.exit_code != 0),
        "",
    )


@pytest.mark.parametrize("version", ["v24.9.2", "v26.3.1", "v26.7.0"])
def test_everything_passes_on_a_current_talos(version: str) -> None:
    found = validated(node(RTX_3090), version)
    assert step(found) == ""
    assert found.markers == {"driver-ready", "toolkit-ready", "cuda-ready", "plugin-ready"}
    assert found.containers["nvidia-operator-validator"].state == "running"
    assert found.retry_after is None


@pytest.mark.parametrize("root", ["/usr/local", "/usr/local/glibc", "/run/nvidia/driver", "/"])
@pytest.mark.parametrize("version", ["v24.9.2", "v26.7.0"])
def test_driver_validation_never_ends_on_an_older_talos(version: str, root: str) -> None:
    old = node(RTX_3090, talos="v1.12.6")
    found = validated(old, version, hostPaths={"driverInstallDir": root})
    assert step(found) == "driver-validation"
    assert found.init["driver-validation"].state == "running"
    assert found.init["toolkit-validation"].state == "waiting"
    assert not found.markers
    assert found.retry_after == 5.0


def test_driver_root_does_not_matter_where_the_host_has_nvidia_smi() -> None:
    found = validated(node(RTX_3090), hostPaths={"driverInstallDir": "/run/nvidia/driver"})
    assert step(found) == ""


@pytest.mark.parametrize(
    ("version", "modules", "failed"),
    [
        ("v24.9.2", {"nvidia", "nvidia_uvm"}, "driver-validation"),
        ("v25.3.2", {"nvidia", "nvidia_uvm"}, "driver-validation"),
        ("v26.3.1", {"nvidia", "nvidia_uvm"}, ""),
        ("v26.3.1", {"nvidia"}, "cuda-validation"),
        ("v24.9.2", MODULES, ""),
    ],
)
def test_which_modules_have_to_be_loaded(version: str, modules: set[str], failed: str) -> None:
    assert step(validated(node(RTX_3090, modules=frozenset(modules)), version)) == failed


def test_device_links_can_be_switched_off() -> None:
    env = [{"name": "DISABLE_DEV_CHAR_SYMLINK_CREATION", "value": "true"}]
    few = node(RTX_3090, modules=frozenset({"nvidia", "nvidia_uvm"}))
    assert step(validated(few, validator={"driver": {"env": env}})) == ""
    assert step(validated(few)) == "driver-validation"


def test_a_card_that_is_not_driven_stops_at_the_driver() -> None:
    assert step(validated(node(RTX_3090, driven=False))) == "driver-validation"


def test_plugin_validation_waits_for_capacity() -> None:
    found = validated(node(RTX_3090), capacity=0)
    assert step(found) == "plugin-validation"
    assert "plugin-ready" not in found.markers
    assert "cuda-ready" in found.markers
    assert found.retry_after == 5.0


def test_nothing_is_injected_when_the_runtime_class_is_gone() -> None:
    found = validated(node(RTX_3090), "v26.3.1", cdi={"nriPluginEnabled": True})
    assert step(found) == "toolkit-validation"
    assert found.init["toolkit-validation"].exit_code == 1


@pytest.mark.parametrize(
    "name", ["nvidia-device-plugin-daemonset", "nvidia-dcgm-exporter", "gpu-feature-discovery"]
)
def test_operands_wait_for_the_toolkit(name: str) -> None:
    at = node(RTX_3090)
    made = operand(name, at)
    assert started(made, at).init["toolkit-validation"].state == "running"
    after = started(made, at, markers=READY)
    assert all(one.state == "running" for one in after.containers.values())


def test_older_gfd_waits_for_the_driver_too() -> None:
    at = node(RTX_3090)
    found = started(operand("gpu-feature-discovery", at), at, markers=frozenset({"toolkit-ready"}))
    assert found.init["toolkit-validation"].exit_code == 0
    assert found.init["gpu-feature-discovery-imex-init"].state == "running"


def test_the_driver_container_is_never_pulled() -> None:
    at = node(RTX_3090)
    found = started(operand("nvidia-driver-daemonset", at, driver={"enabled": True}), at)
    assert found.containers["nvidia-driver-ctr"].reason == "ImagePullBackOff"


@pytest.mark.parametrize(("runtime", "line"), [("nvidia", "Registered"), ("", "Waiting indefin")])
def test_the_plain_device_plugin_on_an_older_talos(runtime: str, line: str) -> None:
    image = "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"
    made = pod(image, gpus=0, runtime=runtime, name="nvidia-device-plugin-ctr")
    found = started(made, node(RTX_3090, talos="v1.12.6"))
    logs = found.containers["nvidia-device-plugin-ctr"].log_lines
    assert line in logs[-1]
