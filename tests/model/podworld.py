"""Nodes and pods for the tests of pods and of the operator."""

from __future__ import annotations

from typing import Any

from rack.world.nodefacts import DriverFacts, GpuFacts, NodeFacts, ToolkitFacts
from rack.world.pod import PodContext, PodOutcome, start

MODULES = frozenset({"nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset"})
IMMICH = "ghcr.io/immich-app/immich-machine-learning:v3.0.0-cuda"
NVIDIA = {"nvidia": "nvidia"}

RTX_3090 = GpuFacts(
    uuid="GPU-11111111-2222-3333-4444-555555555555",
    guest_address="0000:01:00.0",
    host_address="0000:01:00",
    name="NVIDIA GeForce RTX 3090",
    memory_mib=24576,
    architecture="ampere",
    compute_capability=(8, 6),
)
RTX_4070 = GpuFacts(
    uuid="GPU-66666666-7777-8888-9999-000000000000",
    guest_address="0000:01:00.0",
    host_address="0000:02:00",
    name="NVIDIA GeForce RTX 4070 Ti SUPER",
    memory_mib=16376,
    architecture="ada",
    compute_capability=(8, 9),
)


def node(
    *gpus: GpuFacts,
    talos: str = "v1.13.9",
    driver: str = "580.178.04",
    modules: frozenset[str] = MODULES,
    toolkit: bool = True,
    driven: bool = True,
) -> NodeFacts:
    """A worker of a Talos release with cards, the driver's modules and the toolkit."""
    minor = int(talos.split(".")[1])
    is_standard, is_legacy = minor >= 13, minor <= 11
    facts = DriverFacts(
        version=driver,
        flavour="nonfree",
        loaded_modules=modules if driven else frozenset(),
        gpus=gpus if driven else (),
    )
    tools = ToolkitFacts(
        version="1.17.8" if is_legacy else "1.19.1",
        mode="legacy" if is_legacy else "jit-cdi",
        library_path="/usr/local/lib" if is_standard else "/usr/local/glibc/usr/lib",
        binary_path="/usr/local/bin",
    )
    return NodeFacts(
        name="k8s-worker-1",
        address="127.0.0.2",
        role="worker",
        vm_id=111,
        boot_id="boot-1",
        talos_version=talos,
        kubernetes_version="v1.34.4",
        kernel_version="6.18.44-talos",
        container_runtime="containerd://2.2.7",
        cpus=4,
        memory_mib=16384,
        labels={},
        annotations={},
        runtime_handlers=frozenset({"runc", *(["nvidia"] if toolkit else [])}),
        cdi_enabled=is_standard,
        host_nvidia_smi=is_standard and toolkit,
        gpus=gpus,
        driver=facts if gpus else None,
        toolkit=tools if toolkit else None,
    )


def pod(image: str = IMMICH, *, gpus: int = 1, runtime: str = "nvidia", **container: Any) -> Any:
    """A pod with one container `main`; other keys are the container's."""
    limits = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if gpus else {}
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": image, **limits, **container}]}
    if runtime:
        spec["runtimeClassName"] = runtime
    metadata = {
        "name": "ml-0",
        "namespace": "immich",
        "uid": "00000000-0000-0000-0000-000000000001",
    }
    return {"metadata": metadata, "spec": spec}


def context(*gpus: GpuFacts, **changes: Any) -> PodContext:
    """What the kubelet knows: the cards of the container `main`, and RuntimeClass nvidia."""
    values = {"gpus": {"main": tuple(gpu.uuid for gpu in gpus)}, "runtime_classes": NVIDIA}
    return PodContext(**{**values, **changes})


def started(made: Any, at: NodeFacts, *gpus: GpuFacts, **changes: Any) -> PodOutcome:
    """A pod that was started with these cards."""
    return start(made, at, context(*gpus, **changes))
