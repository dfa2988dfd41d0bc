"""Which cards and libraries get into a container, and by which way."""

from __future__ import annotations

import pytest

from rack.world.podview import ContainerView
from tests.model.podworld import RTX_3090, RTX_4070, node, pod, started

CDI = ("cdi-annotations", "cdi-cri")


def view(*args: object, **kwargs: object) -> ContainerView:
    return started(*args, **kwargs).view.containers["main"]  # type: ignore[arg-type]


def test_runtime_class_and_claim_give_the_claimed_card_alone() -> None:
    found = view(pod(), node(RTX_3090, RTX_4070), RTX_4070)
    assert found.injected_by == "runtime-class"
    assert [gpu.uuid for gpu in found.gpus] == [RTX_4070.uuid]
    assert found.gpus[0].index == 0
    assert "/dev/nvidia1" in found.files
    assert "/dev/nvidia0" not in found.files


def test_without_runtime_class_nothing_is_injected() -> None:
    found = view(pod(runtime=""), node(RTX_3090), RTX_3090)
    assert found.injected_by == ""
    assert found.driver is None
    assert not [path for path in found.files if "libcuda.so" in path or "/dev/nvidia" in path]


def test_cdi_injects_without_a_runtime_class() -> None:
    found = view(pod(runtime=""), node(RTX_3090), RTX_3090, device_list_strategy=CDI)
    assert found.injected_by == "cdi"
    assert found.env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert [gpu.name for gpu in found.gpus] == [RTX_3090.name]


def test_cdi_needs_a_containerd_that_knows_it() -> None:
    old = node(RTX_3090, talos="v1.12.6")
    assert view(pod(runtime=""), old, RTX_3090, device_list_strategy=CDI).injected_by == ""


def test_an_image_that_asks_for_all_gets_all_without_a_claim() -> None:
    found = view(pod(gpus=0), node(RTX_3090, RTX_4070))
    assert len(found.gpus) == 2


def test_an_image_that_asks_for_nothing_gets_nothing() -> None:
    assert view(pod("busybox", gpus=0), node(RTX_3090)).injected_by == ""


@pytest.mark.parametrize(
    ("value", "count"), [("void", 0), ("none", 0), ("0", 1), (RTX_4070.uuid, 1), ("0,1", 2)]
)
def test_visible_devices_of_the_pod(value: str, count: int) -> None:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]
    found = view(pod(gpus=0, env=env), node(RTX_3090, RTX_4070))
    assert len(found.gpus) == count
    assert (found.driver is not None) == (value != "void")


def test_a_card_that_is_not_there_is_an_error() -> None:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "7"}]
    main = started(pod(gpus=0, env=env), node(RTX_3090)).containers["main"]
    assert main.reason == "StartError"
    assert "7: unknown device" in main.message


@pytest.mark.parametrize(
    ("talos", "image", "path"),
    [
        ("v1.13.9", "nvidia/cuda:12.9.1-base-ubuntu24.04", "/usr/local/lib"),
        ("v1.12.6", "nvidia/cuda:12.9.1-base-ubuntu24.04", "/usr/local/glibc/usr/lib"),
        ("v1.11.0", "nvidia/cuda:12.2.2-base-ubuntu24.04", "/usr/lib/x86_64-linux-gnu"),
        ("v1.11.0", "nvidia/cuda:12.2.2-base-ubi9", "/usr/lib64"),
    ],
)
def test_where_the_libraries_are(talos: str, image: str, path: str) -> None:
    found = view(pod(image), node(RTX_3090, talos=talos), RTX_3090)
    assert found.files[f"{path}/libcuda.so.580.178.04"].kind == "file"
    assert found.files[f"{path}/libcuda.so.1"].text == "libcuda.so.580.178.04"
    assert found.ld_cache["libcuda.so.1"] == f"{path}/libcuda.so.1"
    assert "/usr/local/nvidia/lib64" not in {one.rpartition("/")[0] for one in found.files}


def test_capabilities_count_in_legacy_mode_only() -> None:
    env = [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"}]
    legacy = view(pod(env=env), node(RTX_3090, talos="v1.11.0"), RTX_3090)
    assert "libcuda.so.1" not in legacy.ld_cache
    assert "libnvidia-ml.so.1" in legacy.ld_cache
    assert "libcuda.so.1" in view(pod(env=env), node(RTX_3090), RTX_3090).ld_cache


def test_a_requirement_of_the_image_is_checked_in_legacy_mode() -> None:
    old = node(RTX_3090, talos="v1.11.0", driver="535.247.01")
    main = started(pod("nvidia/cuda:12.9.1-base-ubuntu24.04"), old, RTX_3090).containers["main"]
    assert "unsatisfied condition: cuda>=12.9" in main.message
    env = [{"name": "NVIDIA_DISABLE_REQUIRE", "value": "true"}]
    calm = pod("nvidia/cuda:12.9.1-base-ubuntu24.04", env=env)
    assert started(calm, old, RTX_3090).containers["main"].reason != "StartError"


@pytest.mark.parametrize(
    ("talos", "text"), [("v1.11.0", "driver not loaded"), ("v1.13.9", "Driver Not Loaded")]
)
def test_the_handler_fails_without_a_driver(talos: str, text: str) -> None:
    bare = node(RTX_3090, talos=talos, driven=False)
    main = started(pod(gpus=0), bare).containers["main"]
    assert (main.state, main.exit_code) == ("exited", 128)
    assert text in main.message


def test_a_privileged_container_sees_devices_and_no_library() -> None:
    made = pod("busybox", gpus=0, runtime="", securityContext={"privileged": True})
    found = view(made, node(RTX_3090))
    assert "/dev/nvidia0" in found.files
    assert found.driver is None
