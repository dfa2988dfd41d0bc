"""Configurations of public reports: each is refused, its neighbours are not.

The rules name the reports.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_passthrough.problems import where

from .stacks import (
    GONE,
    app,
    changed,
    gpu,
    node,
    only_card,
    problems,
    rules,
    the_problem,
    volume,
)

Change = dict[str, Any]
ML = "immich-machine-learning"


def values(**given: Any) -> Change:
    """The document's stack with more values of the operator's chart."""
    return changed({"gpuOperator": {"values": given}})


def taint(**given: Any) -> Change:
    own = {"key": "example.org/gpu", "value": "yes", "effect": "NoSchedule"}
    return changed({"gpuTaint": own, "gpuOperator": {"values": given}})


def ml(**given: Any) -> Change:
    """The document's stack with a changed app."""
    return changed({"apps": {ML: given}})


def called(name: str, **given: Any) -> Change:
    """The document's stack with an app of another name in its place."""
    return changed({"apps": {ML: GONE, name: app(**given)}})


def existing(**given: Any) -> Change:
    """A cluster that exists, where nothing is new."""
    return {
        "kubernetes": {"kubeconfig": "apiVersion: v1"},
        "gpuOperator": {"version": "v26.3.1", "values": given},
    }


TOLERATES_ALL = {"tolerations": [{"operator": "Exists"}]}
OWN = {"key": "example.org/gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
SLICES = {"any": "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"}
FLAGS = {"any": "flags: {migStrategy: none}"}


@pytest.mark.parametrize(
    ("stack", "rule"),
    [
        (values(devicePlugn={"enabled": True}), "values-unknown"),
        (values(runtimeClassName="nvidia"), "values-unknown"),
        (values(gdrcopy={"enabled": False}), None),
        (values(**{"node-feature-discovery": {"worker": {}}}), None),
        (values(nfd={"enabled": False}), "values-discovery"),
        (values(nfd={"nodefeaturerules": True}), None),
        (existing(nfd={"enabled": False}), None),
        (
            values(sandboxWorkloads={"enabled": True, "defaultWorkload": "vm-passthrough"}),
            "values-workloads",
        ),
        (
            values(sandboxWorkloads={"enabled": True, "defaultWorkload": "vm-vgpu"}),
            "values-workloads",
        ),
        (values(sandboxWorkloads={"enabled": False, "defaultWorkload": "vm-vgpu"}), None),
        (values(sandboxWorkloads={"enabled": True, "defaultWorkload": "container"}), None),
        (values(migManager={"config": {"default": "all-1g.10gb"}}), "values-mig"),
        (values(migManager={"config": {"default": "all-disabled"}}), None),
        (values(mig={"strategy": "mixed"}), None),
        (
            values(devicePlugin={"config": {"create": True, "name": "a", "data": SLICES}}),
            "values-sharing",
        ),
        (
            values(devicePlugin={"config": {"create": True, "name": "a", "data": FLAGS}}),
            "values-sharing",
        ),
        (values(devicePlugin={"config": {"name": "a", "default": "any"}}), "values-sharing"),
        (
            values(
                devicePlugin={
                    "config": {"create": True, "name": "a", "default": "any", "data": FLAGS}
                }
            ),
            None,
        ),
        (existing(devicePlugin={"config": {"name": "a", "default": "any"}}), None),
        (values(hostPaths={"driverInstallDir": "/run/nvidia/driver"}), "values-driver-root"),
        (values(hostPaths={"driverInstallDir": "/usr/local"}), None),
        (existing(hostPaths={"driverInstallDir": "/run/nvidia/driver"}), None),
        (
            values(dcgmExporter={"serviceMonitor": {"enabled": True}}),
            "values-monitoring",
        ),
        (values(dcgmExporter={"serviceMonitor": {"enabled": False}}), None),
        (existing(dcgmExporter={"serviceMonitor": {"enabled": True}}), None),
        (taint(daemonsets={"tolerations": []}), "values-tolerations"),
        (taint(daemonsets={"tolerations": [{**OWN, "value": "no"}]}), "values-tolerations"),
        (taint(daemonsets={"tolerations": [{**OWN, "effect": "NoExecute"}]}), "values-tolerations"),
        (taint(daemonsets={"tolerations": [OWN]}), None),
        (taint(daemonsets=TOLERATES_ALL), None),
        (
            taint(**{"node-feature-discovery": {"worker": {"tolerations": []}}}),
            "values-tolerations",
        ),
        (values(daemonsets={"tolerations": []}), None),
    ],
)
def test_values_of_the_chart(stack: Change, rule: str | None) -> None:
    assert rules(stack) == ([rule] if rule else [])


@pytest.mark.parametrize(
    ("env", "rule"),
    [
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, "app-visible-devices"),
        ({"NVIDIA_VISIBLE_DEVICES": "none"}, "app-visible-devices"),
        ({"NVIDIA_DRIVER_CAPABILITIES": "utility"}, "app-capabilities"),
        ({"NVIDIA_DRIVER_CAPABILITIES": "compute,video"}, "app-capabilities"),
        ({"NVIDIA_DRIVER_CAPABILITIES": ""}, "app-capabilities"),
        ({"NVIDIA_DRIVER_CAPABILITIES": "compute, utility,video"}, None),
        ({"NVIDIA_DRIVER_CAPABILITIES": "all"}, None),
        ({"CUDA_VISIBLE_DEVICES": "1"}, "app-cuda-devices"),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, "app-cuda-devices"),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, "app-cuda-devices"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "app-cuda-devices"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, None),
        ({"CUDA_VISIBLE_DEVICES": "GPU-1234"}, None),
        ({"A=B": "x"}, "app-variable"),
        ({"": "x"}, "app-variable"),
        ({"MACHINE_LEARNING_WORKERS": "2", "my.key": "x"}, None),
    ],
)
def test_variables_that_nvidia_reads(env: dict[str, str], rule: str | None) -> None:
    assert rules(ml(env=env)) == ([rule] if rule else [])


def test_a_secret_variable_is_judged_like_another() -> None:
    assert rules(ml(secretEnv={"NVIDIA_VISIBLE_DEVICES": "all"})) == ["app-visible-devices"]
    assert rules(ml(secretEnv={"HF_TOKEN": "x"})) == []


@pytest.mark.parametrize(
    ("image", "works"),
    [
        ("example.org/ML:1.0", False),
        ("Example/ml", False),
        ("example.org/ml 1.0", False),
        ("https://example.org/ml:1.0", False),
        ("example.org/ml:", False),
        ("example.org/ml@sha256:12", False),
        ("ml", True),
        ("ml:1.0_A", True),
        ("localhost:5000/a/b-c__d:1", True),
        ("registry:5000/ml", True),
        ("example.org/ml:1.0@sha256:" + "0" * 64, True),
        ("nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0", True),
    ],
)
def test_the_name_of_an_image(image: str, works: bool) -> None:
    assert rules(ml(image=image)) == ([] if works else ["app-image-name"])


@pytest.mark.parametrize(
    ("card", "image", "works"),
    [
        ("RTX 5090", "nvidia/cuda:12.4.1-base-ubuntu22.04", False),
        ("RTX 5090", "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime", False),
        ("RTX 5090", "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", True),
        ("RTX 5090", "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0", True),
        ("RTX 5090", "ghcr.io/immich-app/immich-machine-learning:v3.0.0-cuda", True),
        ("Tesla P4", "nvcr.io/nvidia/cuda:13.0.1-base-ubuntu24.04", False),
        ("Tesla P4", "nvcr.io/nvidia/cuda:12.9.1-base-ubuntu24.04", True),
    ],
)
def test_the_cuda_in_an_images_tag_is_judged_like_a_given_one(
    card: str, image: str, works: bool
) -> None:
    modules = "open" if card == "RTX 5090" else "nonfree"
    stack = only_card(card, kernelModules=modules)
    stack["apps"] = {"one": app(image=image)}
    assert rules(stack) == ([] if works else ["app-placement"])


@pytest.mark.parametrize(
    ("endpoint", "rule"),
    [
        ("https://192.168.20.10:8006/api2/json", "proxmox-endpoint"),
        ("https://192.168.20.10", "proxmox-endpoint"),
        ("https://192.168.20.10:8006/", None),
        ("https://proxmox.example.org", None),
    ],
)
def test_the_url_of_proxmox(endpoint: str, rule: str | None) -> None:
    assert rules(changed({"proxmox": {"endpoint": endpoint}})) == ([rule] if rule else [])


@pytest.mark.parametrize(
    ("token", "works"),
    [
        ("5f3c7e3e-8a39-4cb1-9d7e-2f0d7c7b9b51", False),
        ("dev@pve!mytoken", False),
        ("dev!mytoken=5f3c7e3e-8a39-4cb1-9d7e-2f0d7c7b9b51", False),
        ("PVEAPIToken=dev@pve!t=5f3c7e3e-8a39-4cb1-9d7e-2f0d7c7b9b51", False),
        ("dev@pve!t:5f3c7e3e-8a39-4cb1-9d7e-2f0d7c7b9b51", False),
        ("dev@pve!gpu-passthrough=5f3c7e3e-8a39-4cb1-9d7e-2f0d7c7b9b51", True),
        ("dev@sso.example!t1=dummy", True),
    ],
)
def test_the_token_is_a_whole_one_and_is_not_repeated(token: str, works: bool) -> None:
    stack = changed({"proxmox": {"apiToken": token}})
    assert rules(stack) == ([] if works else ["proxmox-token"])
    assert all(token not in problem.render() for problem in problems(stack))


@pytest.mark.parametrize(
    ("endpoint", "rule"),
    [
        ("https://192.168.20.20", "kubernetes-endpoint"),
        ("https://192.168.20.20:8443", "kubernetes-endpoint"),
        ("https://192.168.20.20:6443/api", "kubernetes-endpoint"),
        ("https://192.168.20.20:6443", None),
        ("https://lb.example.org:443", None),
    ],
)
def test_the_url_of_kubernetes(endpoint: str, rule: str | None) -> None:
    assert rules(changed({"cluster": {"endpoint": endpoint}})) == ([rule] if rule else [])


@pytest.mark.parametrize(
    ("device", "said"),
    [("1aef", "audio"), ("1ad6", "USB"), ("1ad7", "UCSI"), ("2204", ""), ("ffff", "")],
)
def test_the_id_is_that_of_the_gpu_and_not_of_a_function_beside_it(device: str, said: str) -> None:
    cards = [gpu("RTX 3090", id=f"10de:{device}")]
    stack = changed({"nodes": {"k8s-worker-1": {"gpus": cards}}})
    assert rules(stack) == (["card-id"] if said else [])
    assert all(said in problem.message for problem in problems(stack))


@pytest.mark.parametrize("name", ["0-worker", "3d"])
def test_a_node_with_cards_has_a_name_that_its_mappings_can_have(name: str) -> None:
    cards = node(23, "worker", gpu("RTX 3080"))
    problem = the_problem(changed({"nodes": {name: cards}}))
    assert problem.rule == "node-name"
    assert problems(changed({"nodes": {f"w-{name}": cards}})) == []
    assert problems(changed({"nodes": {name: node(23)}})) == []


def test_a_vm_takes_sixteen_devices() -> None:
    cards = [gpu("RTX 3080", path=f"0000:{n:02x}:00", iommuGroup=20 + n) for n in range(16, 33)]
    problem = the_problem(changed({"nodes": {"w": node(23, "worker", *cards)}}))
    assert where(problem.path) == "nodes.w.gpus"
    assert "17" in problem.message
    assert problems(changed({"nodes": {"w": node(23, "worker", *cards[:16])}})) == []


def test_cards_of_a_control_plane_are_offered_only_where_pods_run_there() -> None:
    nodes = {"k8s-cp-1": {"gpus": [gpu("RTX 3080")]}}
    assert the_problem(changed({"nodes": nodes})).rule == "card-unscheduled"
    allowed = changed({"nodes": nodes, "cluster": {"scheduleOnControlPlanes": True}})
    assert problems(allowed) == []


@pytest.mark.parametrize(
    ("name", "more", "rule"),
    [
        ("3d", {"port": 80}, "app-name"),
        ("3d", {}, None),
        ("d3", {"port": 80}, None),
        ("gpu-operator", {"namespace": "gpu-operator"}, "app-name-taken"),
        ("gpu-operator", {"namespace": "ml"}, None),
        ("kubernetes", {"namespace": "default"}, "app-name-taken"),
        ("coredns", {"namespace": "kube-system"}, "app-name-taken"),
    ],
)
def test_names_of_apps(name: str, more: Change, rule: str | None) -> None:
    assert rules(called(name, **more)) == ([rule] if rule else [])


def test_two_volumes_do_not_become_one_claim() -> None:
    apps = {
        ML: GONE,
        "a": app(volumes={"b-c": volume()}),
        "a-b": app(volumes={"c": volume()}),
    }
    problem = the_problem(changed({"apps": apps}))
    assert problem.rule == "app-claim"
    assert "a-b-c" in problem.message
    apps["a-b"] = app(volumes={"d": volume()})
    assert problems(changed({"apps": apps})) == []


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("network", "bridge", "bridge one"),
        ("network", "bridge", "a-bridge-with-a-long-name"),
        ("diskDatastore", None, "local lvm"),
        ("imageDatastore", None, "local:iso"),
        ("imageDatastore", None, ""),
    ],
)
def test_names_of_a_host(section: str, key: str | None, value: str) -> None:
    found = the_problem(changed({"proxmox": {section: {key: value} if key else value}}))
    assert found.rule == "value"
    assert "for example" in found.message
