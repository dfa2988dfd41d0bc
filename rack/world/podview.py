"""What programs inside a pod can see: the only thing that `kubectl exec` reads.

The rack's kubelet writes one `PodView` per pod, as JSON, to `<home>/pods/<uid>.json`; programs find
it by the variable RACK_POD, and their container in it by RACK_CONTAINER.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rack.world.nodefacts import Frozen


class GpuView(Frozen):
    """One GPU that was injected into a container, as NVML shows it."""

    index: int
    """NVML's number inside the container: 0 is the first injected card."""
    minor: int
    """Number of the device node, /dev/nvidia<minor>: its place on the node."""
    uuid: str
    name: str
    memory_mib: int
    bus_id: str
    """PCI address in the guest, for example 00000000:01:00.0."""
    architecture: str
    compute_capability: tuple[int, int]
    power_limit_w: int
    used_mib: int
    """Memory in use, in MiB."""
    utilisation: int
    """Per cent of the last second in which a kernel ran."""
    temperature_c: int
    power_w: int


class ImageView(Frozen):
    """What an image has in it, as far as GPU programs care."""

    reference: str
    """As the pod names it."""
    libc: str = "glibc"
    """glibc, musl, or empty for an image without a C library."""
    debian: bool = True
    """The image has /etc/debian_version."""
    programs: tuple[str, ...] = ()
    """Names of the programs on its PATH that the rack has."""
    python: str = ""
    """Python's version, empty without Python."""
    cuda: str = ""
    """Version of the CUDA libraries in it, for example 12.9; empty without."""
    cuda_architectures: tuple[tuple[int, int], ...] = ()
    """Compute capabilities that it has machine code for; empty: those of its CUDA libraries."""
    has_ptx: bool = False
    """Its program also has code that the driver compiles for cards newer than its CUDA version."""
    compat: str = ""
    """Driver version of a bundled cuda-compat package, for example 570.86; empty without."""
    onnxruntime: str = ""
    """Version of the onnxruntime package, empty without it."""
    providers: tuple[str, ...] = ()
    """Execution providers that the package was built with."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables that the image sets."""


class FileView(Frozen):
    """One thing in a container's filesystem."""

    kind: Literal["file", "program", "folder", "link", "device"]
    text: str = ""
    """Content of a file, target of a link, empty for everything else."""


class DriverView(Frozen):
    """The driver that a container can use."""

    version: str
    """For example 580.178.04."""
    cuda: str
    """Newest CUDA that it speaks, for example 13.0."""


class ContainerView(Frozen):
    """One container from inside."""

    name: str
    image: ImageView
    env: dict[str, str] = Field(default_factory=dict)
    """Every variable, the image's and the injected ones included."""
    gpus: tuple[GpuView, ...] = ()
    """Cards whose device nodes were injected."""
    driver: DriverView | None = None
    """None where no driver library was injected."""
    injected_by: Literal["", "runtime-class", "cdi"] = ""
    """Empty where nothing was injected."""
    files: dict[str, FileView] = Field(default_factory=dict)
    """Everything but folders that have something in them, by absolute path."""
    ld_cache: dict[str, str] = Field(default_factory=dict)
    """Library name to path, as `ldconfig -p` lists them."""
    driver_result: int = 100
    """What cuInit of the injected libcuda gives: 0, or a number of cuda.ERRORS."""
    runtime_result: int = 35
    """What the first call of the image's own CUDA libraries gives."""
    hostname: str = ""


class PodView(Frozen):
    """One pod from inside."""

    uid: str
    name: str
    namespace: str
    node: str
    node_address: str
    kernel_version: str
    cpus: int
    memory_mib: int
    containers: dict[str, ContainerView]
    """By name, in the order of the pod's specification."""
