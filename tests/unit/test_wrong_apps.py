"""Apps that cannot work are refused: what they claim, mount, select and roll.

The names W01… are those of the list of configurations that people really wrote, which the project
keeps to; each has neighbours that are right or wrong too.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_passthrough.config import Stack
from gpu_passthrough.problems import where

from .stacks import GONE, app, changed, gpu, node, only_card, problems, rules, the_problem, volume

Change = dict[str, Any]
ML = "immich-machine-learning"


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


def test_w22_a_gpu_without_runtime_class() -> None:
    problem = the_problem(changed({"apps": {ML: {"runtimeClassName": None}}}))
    assert problem.rule == "app-runtime-class"
    assert "failure 35" in problem.why
    assert problems(changed({"apps": {ML: {"runtimeClassName": GONE}}})) == []
    other = the_problem(changed({"apps": {ML: {"runtimeClassName": "nvidia-cdi"}}}))
    assert "nvidia-cdi" in other.message


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


def test_a_label_that_cannot_be_told_is_said_to_be_so() -> None:
    values = only_card("GTX 980")
    values["apps"][ML]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-GeForce-GTX-980"}
    problem = the_problem(values)
    assert "cannot be told" in problem.why
    assert "kubernetes.io/hostname" in problem.fix
    values["apps"][ML]["nodeSelector"] = {"kubernetes.io/hostname": "k8s-worker-1"}
    assert problems(values) == []
