"""Layers 3 and 4: the operator's release and the RuntimeClass."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from components.gpu_operator_release import GpuOperatorReleaseArgs, values
from components.nvidia_runtime_class import NvidiaRuntimeClass, NvidiaRuntimeClassArgs
from gpu_passthrough.config import GpuOperator, RuntimeClass, Taint
from tests.program.recorder import Recorder, record, run_program
from tests.program.stacks import stack

ANY = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def chart(
    version: str = "v24.9.2",
    talos: str | None = "v1.13.9",
    taint: Taint | None = None,
    **operator: Any,
) -> dict[str, Any]:
    given = GpuOperator.model_validate({"version": version, **operator})
    return values(GpuOperatorReleaseArgs(operator=given, talos_version=talos, taint=taint))


def test_the_release_is_pinned_named_and_taken_back_when_it_fails() -> None:
    found = run_program(lambda: stack(timeouts={"operatorReady": 66}))
    release = found.one("Release")
    assert {key: release.inputs[key] for key in ("chart", "name", "version", "namespace")} == {
        "chart": "gpu-operator",
        "name": "gpu-operator",
        "version": "v24.9.2",
        "namespace": "gpu-operator",
    }
    assert release.inputs["repositoryOpts"] == {"repo": "https://helm.ngc.nvidia.com/nvidia"}
    assert release.inputs["atomic"] is True
    assert release.inputs["timeout"] == 66
    assert not release.inputs.get("skipAwait")
    assert release.request.customTimeouts.create == "66s"


def test_the_namespace_lets_the_operator_mount_host_paths_and_is_there_first() -> None:
    found = run_program(lambda: stack(gpuOperator={"namespace": "gpus"}))
    namespace = found.one("Namespace", "gpu-operator-namespace")
    assert namespace.inputs["metadata"] == {
        "name": "gpus",
        "labels": {
            "pod-security.kubernetes.io/enforce": "privileged",
            "pod-security.kubernetes.io/audit": "privileged",
            "pod-security.kubernetes.io/warn": "privileged",
        },
    }
    assert namespace.urn in found.waits_for(found.one("Release"))
    assert found.inputs("Release")["namespace"] == "gpus"


def test_the_release_has_to_pass_the_gate_when_it_is_made_and_when_it_changes() -> None:
    found = run_program(stack)
    release = found.one("Release").request.hooks
    assert list(release.after_create) == list(release.after_update) == ["gpus-ready"]
    runtime_class = found.one("RuntimeClassPatch").request.hooks
    assert list(runtime_class.before_create) == ["gpus-ready", "runtime-class-unclaimed"]
    provider = found.provider("kubernetes").request.hooks
    assert list(provider.before_create) == list(provider.before_update) == ["kubernetes-ready"]


def test_the_operands_are_those_of_the_stack_and_the_validator_has_no_value() -> None:
    assert chart() == {
        "driver": {"enabled": False},
        "toolkit": {"enabled": False},
        "devicePlugin": {"enabled": True},
        "gfd": {"enabled": True},
        "dcgmExporter": {"enabled": True, "serviceMonitor": {"enabled": False}},
        "cdi": {"enabled": False},
        "hostPaths": {"driverInstallDir": "/usr/local"},
    }
    off = chart(dcgmExporter={"enabled": False}, gfd={"enabled": False})
    assert (off["dcgmExporter"]["enabled"], off["gfd"]["enabled"]) == (False, False)
    assert off["devicePlugin"]["enabled"] is True


@pytest.mark.parametrize(
    ("talos", "expected"),
    [
        ("v1.12.11", None),
        ("v1.13.0", {"driverInstallDir": "/usr/local"}),
        ("v1.14.0-rc.1", {"driverInstallDir": "/usr/local"}),
        (None, None),
    ],
)
def test_the_drivers_root_is_named_where_talos_has_one(talos: str | None, expected: Any) -> None:
    assert chart(talos=talos).get("hostPaths") == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [("v24.9.2", {"enabled": False}), ("v25.3.4", {"enabled": False}), ("v25.10.0", None)],
)
def test_cdi_is_off_until_it_is_the_charts_default(version: str, expected: Any) -> None:
    assert chart(version).get("cdi") == expected


def test_more_values_are_laid_over_key_by_key() -> None:
    found = chart(values={"devicePlugin": {"env": [{"name": "A", "value": "1"}]}, "nfd": {"x": 1}})
    assert found["devicePlugin"] == {"enabled": True, "env": [{"name": "A", "value": "1"}]}
    assert found["nfd"] == {"x": 1}
    assert found["driver"] == {"enabled": False}


def test_a_taint_is_tolerated_by_everything_of_the_release() -> None:
    own = {"key": "example.org/gpu", "operator": "Exists", "effect": "NoExecute"}
    found = chart(taint=Taint(key="example.org/gpu", effect="NoExecute"))
    assert found["daemonsets"] == {"tolerations": [ANY, own]}
    discovery = found["node-feature-discovery"]
    # Also what runs anywhere: every node may be a GPU node.
    for part in (*(discovery[one] for one in ("master", "worker", "gc")), found["operator"]):
        assert [ANY, own] == part["tolerations"][-2:]
        keys = {one["key"] for one in part["tolerations"]}
        assert "node-role.kubernetes.io/control-plane" in keys
    usual = chart(taint=Taint())
    assert usual["daemonsets"] == {"tolerations": [ANY]}
    assert "daemonsets" not in chart()


@pytest.mark.parametrize("rename", [False, True])
def test_time_slicing_counts_on_every_node(rename: bool) -> None:
    config = chart(sharing={"replicas": 4, "rename": rename})["devicePlugin"]["config"]
    assert config["create"] is True
    assert config["default"] in config["data"]
    assert yaml.safe_load(config["data"][config["default"]]) == {
        "version": "v1",
        "sharing": {
            "timeSlicing": {
                "renameByDefault": rename,
                "failRequestsGreaterThanOne": True,
                "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
            }
        },
    }
    assert "config" not in chart()["devicePlugin"]


def runtime_class(made_by_operator: bool) -> Recorder:
    args = NvidiaRuntimeClassArgs(runtime_class=RuntimeClass(), made_by_operator=made_by_operator)
    return record(lambda: NvidiaRuntimeClass("nvidia", args))


def test_of_the_operators_class_only_name_and_handler_are_claimed() -> None:
    found = runtime_class(made_by_operator=True).one("RuntimeClassPatch")
    assert found.inputs["metadata"] == {"name": "nvidia"}
    assert found.inputs["handler"] == "nvidia"
    assert found.request.retainOnDelete


def test_without_an_operator_the_class_is_the_stacks_own() -> None:
    found = runtime_class(made_by_operator=False)
    assert found.of("RuntimeClassPatch") == []
    assert found.inputs("RuntimeClass")["metadata"] == {"name": "nvidia"}
    assert not found.one("RuntimeClass").request.retainOnDelete


@pytest.mark.parametrize(
    ("renamed", "name", "kind"),
    [
        (None, "nvidia", "RuntimeClassPatch"),
        (None, "other", "RuntimeClass"),
        ("other", "other", "RuntimeClassPatch"),
    ],
)
def test_the_class_is_patched_where_the_operator_makes_it(
    renamed: str | None, name: str, kind: str
) -> None:
    more = {"values": {"operator": {"runtimeClass": renamed}}} if renamed else {}
    wanted = {"name": name, "handler": name}
    found = run_program(lambda: stack(gpuOperator=more, runtimeClass=wanted))
    assert found.inputs(kind)["metadata"]["name"] == name
