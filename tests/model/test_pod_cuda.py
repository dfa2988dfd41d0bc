"""What CUDA and applications make of the driver that they find."""

from __future__ import annotations

import pytest

from rack.world.cuda import architectures, cuda_of_driver, runs_on
from rack.world.nodefacts import GpuFacts
from tests.model.podworld import IMMICH, MODULES, RTX_3090, RTX_4070, node, pod, started

VECTORADD = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0"


def card(name: str, architecture: str, capability: tuple[int, int]) -> GpuFacts:
    values = {"name": name, "architecture": architecture, "compute_capability": capability}
    return RTX_3090.model_copy(update=values)


PASCAL = card("NVIDIA GeForce GTX 1080 Ti", "pascal", (6, 1))
BLACKWELL = card("NVIDIA GeForce RTX 5090", "blackwell", (12, 0))
A100 = card("NVIDIA A100-PCIE-40GB", "ampere", (8, 0))


def result(image: str, gpu: GpuFacts, driver: str = "580.178.04", **changes: object) -> int:
    at = node(gpu, driver=driver, **changes)  # type: ignore[arg-type]
    return started(pod(image), at, gpu).view.containers["main"].runtime_result


@pytest.mark.parametrize(
    ("image", "gpu", "driver", "expected"),
    [
        ("nvidia/cuda:12.2.2-base-ubuntu22.04", RTX_3090, "580.178.04", 0),
        ("nvidia/cuda:13.0.1-base-ubuntu24.04", RTX_4070, "580.178.04", 0),
        ("nvidia/cuda:13.0.1-base-ubuntu24.04", RTX_4070, "570.211.01", 35),
        ("nvidia/cuda:12.9.1-base-ubuntu24.04", RTX_4070, "535.247.01", 0),
        ("nvidia/cuda:12.9.1-runtime-ubuntu24.04", RTX_4070, "535.247.01", 804),
        ("nvidia/cuda:12.9.1-runtime-ubuntu24.04", A100, "535.247.01", 0),
        ("nvidia/cuda:12.9.1-runtime-ubuntu24.04", RTX_4070, "580.178.04", 0),
        ("nvidia/cuda:13.0.1-base-ubuntu24.04", PASCAL, "580.178.04", 209),
        ("nvidia/cuda:12.2.2-base-ubuntu22.04", PASCAL, "580.178.04", 0),
        ("nvidia/cuda:12.2.2-base-ubuntu22.04", BLACKWELL, "580.178.04", 209),
        (VECTORADD, BLACKWELL, "580.178.04", 0),
        ("nvidia/cuda:12.8.1-base-ubuntu22.04", BLACKWELL, "580.178.04", 0),
    ],
)
def test_driver_libraries_and_card(image: str, gpu: GpuFacts, driver: str, expected: int) -> None:
    assert result(image, gpu, driver) == expected


def test_unified_memory_needs_its_module() -> None:
    assert result(IMMICH, RTX_3090, modules=MODULES - {"nvidia_uvm"}) == 999
    assert result(IMMICH, RTX_3090) == 0


def test_machine_code_runs_on_its_own_generation() -> None:
    assert runs_on((8, 9), [(8, 6)])
    assert not runs_on((8, 0), [(8, 6)])
    assert not runs_on((9, 0), [(8, 6)])
    assert (8, 9) in architectures("11.8")
    assert (8, 9) not in architectures("11.7")


@pytest.mark.parametrize(
    ("driver", "cuda"), [("535.247.01", "12.2"), ("580.178.04", "13.0"), ("581.1", "13.0")]
)
def test_cuda_of_a_driver(driver: str, cuda: str) -> None:
    assert cuda_of_driver(driver) == cuda


def test_vector_add_passes_on_the_card() -> None:
    found = started(pod(VECTORADD), node(RTX_3090), RTX_3090)
    assert found.completes
    assert "Test PASSED" in found.containers["main"].log_lines


def test_vector_add_fails_without_a_driver() -> None:
    found = started(pod(VECTORADD, runtime=""), node(RTX_3090), RTX_3090)
    main = found.containers["main"]
    assert not found.completes
    assert main.exit_code == 1
    assert "CUDA driver version is insufficient for CUDA runtime version" in main.log_lines[-1]


def test_immich_uses_the_card() -> None:
    found = started(pod(), node(RTX_3090), RTX_3090)
    assert found.containers["main"].state == "running"
    assert not any("EP Error" in line for line in found.containers["main"].log_lines)
    assert found.view.containers["main"].gpus[0].used_mib > 100


def test_immich_falls_back_to_the_cpu_and_runs_on() -> None:
    found = started(pod(runtime=""), node(RTX_3090), RTX_3090)
    main = found.containers["main"]
    assert main.state == "running"
    assert any("CUDA failure 35" in line for line in main.log_lines)
    assert any("Falling back to ['CPUExecutionProvider']" in line for line in main.log_lines)


def test_immich_without_cuda_never_asks_for_the_card() -> None:
    plain = IMMICH.removesuffix("-cuda")
    found = started(pod(plain), node(RTX_3090), RTX_3090)
    text = "\n".join(found.containers["main"].log_lines)
    assert "EP Error" not in text
    assert "['CPUExecutionProvider']" in text
    assert found.view.containers["main"].gpus[0].used_mib < 100
