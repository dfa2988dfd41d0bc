"""Order of containers, commands of the pod's own, images that are not known."""

from __future__ import annotations

from typing import Any

import pytest

from rack.world.images import image, repository_and_tag
from tests.model.podworld import RTX_3090, node, pod, started

CUDA = "nvidia/cuda:12.9.1-base-ubuntu24.04"
WAIT = "until [ -f /run/nvidia/validations/toolkit-ready ]; do echo waiting; sleep 5; done"


def with_init(*init: dict[str, Any]) -> Any:
    made = pod()
    made["spec"]["initContainers"] = list(init)
    return made


def waiting(name: str = "wait") -> dict[str, Any]:
    return {"name": name, "image": "busybox", "command": ["sh", "-c"], "args": [WAIT]}


def test_init_containers_wait_for_a_file_of_another_pod() -> None:
    made = with_init(waiting())
    before = started(made, node(RTX_3090), RTX_3090)
    assert before.init["wait"].state == "running"
    assert before.containers["main"].reason == "PodInitializing"
    assert before.retry_after == 5.0
    after = started(made, node(RTX_3090), RTX_3090, markers=frozenset({"toolkit-ready"}))
    assert after.init["wait"].exit_code == 0
    assert after.containers["main"].state == "running"
    assert after.retry_after is None


def test_later_init_containers_wait_for_the_first() -> None:
    found = started(with_init(waiting("one"), waiting("two")), node(RTX_3090), RTX_3090)
    assert found.init["two"].state == "waiting"


def test_a_sidecar_does_not_hold_the_others_back() -> None:
    sidecar = {"name": "side", "image": "unknown/proxy:1", "restartPolicy": "Always"}
    found = started(with_init(sidecar), node(RTX_3090), RTX_3090)
    assert found.init["side"].state == "running"
    assert found.containers["main"].state == "running"


def test_a_command_is_left_to_the_programs() -> None:
    found = started(pod(CUDA, command=["nvidia-smi", "-L"]), node(RTX_3090), RTX_3090)
    assert found.containers["main"].argv == ("nvidia-smi", "-L")


def test_nvidia_smi_is_not_in_a_container_without_the_driver() -> None:
    found = started(pod(CUDA, runtime="", command=["nvidia-smi"]), node(RTX_3090), RTX_3090)
    main = found.containers["main"]
    assert (main.reason, main.exit_code) == ("StartError", 128)
    assert 'exec: "nvidia-smi": executable file not found in $PATH' in main.message
    assert not found.completes


@pytest.mark.parametrize("script", ["sleep infinity", "while true; do date; sleep 1; done"])
def test_an_endless_command_runs(script: str) -> None:
    found = started(pod(CUDA, command=["sh", "-c", script]), node(RTX_3090), RTX_3090)
    assert found.containers["main"].state == "running"


@pytest.mark.parametrize(("policy", "state"), [("Always", "running"), ("Never", "exited")])
def test_an_unknown_program_serves_or_does_its_job(policy: str, state: str) -> None:
    made = pod("registry.k8s.io/nfd/node-feature-discovery:v0.16.6", gpus=0, command=["nfd-master"])
    made["spec"]["restartPolicy"] = policy
    found = started(made, node(RTX_3090)).containers["main"]
    assert (found.state, found.exit_code) == (state, 0)


def test_the_driver_image_for_talos_does_not_exist() -> None:
    main = started(pod("nvcr.io/nvidia/driver:580.95.05-talosv1.13.9"), node(RTX_3090), RTX_3090)
    assert main.containers["main"].reason == "ImagePullBackOff"
    assert "not found" in main.containers["main"].message


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("busybox", ("library/busybox", "latest")),
        ("ghcr.io/a/b:1@sha256:00", ("a/b", "1")),
        ("localhost:5000/b", ("library/b", "latest")),
        ("nvidia/cuda:12.2.2-base", ("nvidia/cuda", "12.2.2-base")),
    ],
)
def test_references_of_images(reference: str, expected: tuple[str, str]) -> None:
    assert repository_and_tag(reference) == expected


def test_an_unknown_image_is_a_plain_userland() -> None:
    view = image("example.com/some/thing:9").view
    assert "ls" in view.programs
    assert not view.python
    assert not view.cuda


def test_compat_libraries_are_in_runtime_images_only() -> None:
    assert image("nvidia/cuda:12.9.1-runtime-ubuntu24.04").view.compat
    assert not image("nvidia/cuda:12.9.1-base-ubuntu24.04").view.compat
