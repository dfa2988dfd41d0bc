"""What containerd and NVIDIA's container toolkit put into a container.

Two ways lead in: the handler `nvidia`, which reads NVIDIA_VISIBLE_DEVICES, and CDI devices that
the device plugin names, which containerd injects with any handler.
Rules: nvidia-container-toolkit (internal/info/auto.go, internal/config/image, pkg/nvcdi),
libnvidia-container (src/nvc_container.c, src/nvc_info.c).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field

from rack.world.cuda import cuda_of_driver, version
from rack.world.nodefacts import DriverFacts, Frozen, GpuFacts, NodeFacts
from rack.world.podview import ImageView

HANDLER: Final = "nvidia"
VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
CAPABILITIES: Final = "NVIDIA_DRIVER_CAPABILITIES"
CDI_IN_CRI: Final = "cdi-cri"
"""The device plugin's strategy that containerd itself understands."""

_LIBRARIES: Final[dict[str, tuple[str, ...]]] = {
    "compute": (
        "libcuda.so.1",
        "libcudadebugger.so.1",
        "libnvidia-nvvm.so.4",
        "libnvidia-opencl.so.1",
        "libnvidia-ptxjitcompiler.so.1",
    ),
    "utility": ("libnvidia-cfg.so.1", "libnvidia-ml.so.1"),
}
_BINARIES: Final[dict[str, tuple[str, ...]]] = {
    "compute": ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server"),
    "utility": ("nvidia-debugdump", "nvidia-persistenced", "nvidia-smi"),
}
_CONTAINERD: Final = "failed to create containerd task: failed to create shim task: OCI runtime"
_REQUIRE: Final = re.compile(r"^cuda>=(\d+\.\d+)")


class Injection(Frozen):
    """What was put in; nothing by default."""

    by: Literal["", "runtime-class", "cdi"] = ""
    gpus: tuple[GpuFacts, ...] = ()
    driver: DriverFacts | None = None
    """The driver whose libraries are in; None where none are."""
    libraries: tuple[str, ...] = ()
    """Names by which programs load them, for example libcuda.so.1."""
    library_path: str = ""
    """Folder in the container."""
    binaries: tuple[str, ...] = ()
    binary_path: str = ""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables that were set or changed."""
    error: str = ""
    """Why the container cannot be created, in the runtime's words."""


def inject(
    image: ImageView,
    env: Mapping[str, str],
    node: NodeFacts,
    *,
    handler: str,
    allocated: tuple[str, ...],
    strategies: tuple[str, ...],
) -> Injection:
    """What the node puts into a container.

    Args:
        image: the container's image.
        env: its variables, the image's included.
        node: the node.
        handler: containerd's handler, from the pod's RuntimeClass.
        allocated: UUIDs of the GPUs that the device plugin allocated.
        strategies: how the device plugin hands them over.

    """
    if allocated and CDI_IN_CRI in strategies and node.cdi_enabled:
        return _by_cdi(node, allocated)
    visible = env.get(VISIBLE, "")
    if allocated and "envvar" in strategies:
        visible = ",".join(allocated)
    if handler != HANDLER or visible in ("", "void"):
        return Injection()
    return _by_handler(image, {**env, VISIBLE: visible}, node)


def _by_cdi(node: NodeFacts, allocated: tuple[str, ...]) -> Injection:
    """The device plugin's CDI specification: every library, at the host's path."""
    driver = node.driver
    cards = [gpu for gpu in driver.gpus if gpu.uuid in allocated] if driver else []
    if driver is None or node.toolkit is None or len(cards) < len(set(allocated)):
        names = ", ".join(f"nvidia.com/gpu={uuid}" for uuid in allocated)
        return Injection(error=f"CDI device injection failed: unresolvable CDI devices {names}")
    return Injection(
        by="cdi",
        gpus=tuple(cards),
        driver=driver,
        libraries=_all(_LIBRARIES),
        library_path=node.toolkit.library_path,
        binaries=_all(_BINARIES),
        binary_path=node.toolkit.binary_path,
        env={VISIBLE: "void"},
    )


def _by_handler(image: ImageView, env: Mapping[str, str], node: NodeFacts) -> Injection:
    """NVIDIA's runtime in front of runc."""
    driver, toolkit, visible = node.driver, node.toolkit, env[VISIBLE]
    if toolkit is None:
        return Injection()
    if driver is None or not driver.loaded_modules or not driver.gpus:
        return Injection(error=_not_loaded(toolkit.mode))
    cards = _visible(driver.gpus, visible)
    if isinstance(cards, str):
        return Injection(error=_prestart(f"device error: {cards}: unknown device"))
    if toolkit.mode == "jit-cdi":
        libraries, binaries = _all(_LIBRARIES), _all(_BINARIES)
        library_path, binary_path = toolkit.library_path, toolkit.binary_path
    else:
        if missing := unmet_requirement(env, driver):
            return Injection(error=_prestart(missing))
        wanted = _capabilities(env)
        libraries, binaries = _of(_LIBRARIES, wanted), _of(_BINARIES, wanted)
        library_path = "/usr/lib/x86_64-linux-gnu" if image.debian else "/usr/lib64"
        binary_path = "/usr/bin"
    return Injection(
        by="runtime-class",
        gpus=cards,
        driver=driver,
        libraries=libraries,
        library_path=library_path,
        binaries=binaries,
        binary_path=binary_path,
        env={VISIBLE: visible if toolkit.mode == "legacy" else "void"},
    )


def _visible(gpus: tuple[GpuFacts, ...], wanted: str) -> tuple[GpuFacts, ...] | str:
    """The cards that a value of NVIDIA_VISIBLE_DEVICES names; or a name that no card has."""
    if wanted == "all":
        return gpus
    if wanted == "none":
        return ()
    by_name = {**{str(index): gpu for index, gpu in enumerate(gpus)}, **{g.uuid: g for g in gpus}}
    names = wanted.split(",")
    unknown = next((name for name in names if name not in by_name), None)
    return unknown if unknown is not None else tuple(by_name[name] for name in names)


def unmet_requirement(env: Mapping[str, str], driver: DriverFacts) -> str:
    """What libnvidia-container says of NVIDIA_REQUIRE_CUDA; empty where it is met or switched off.

    Only the first alternative is read: the others are for data-centre brands.
    """
    if env.get("NVIDIA_DISABLE_REQUIRE", "").lower() in ("1", "true"):
        return ""
    found = _REQUIRE.match(env.get("NVIDIA_REQUIRE_CUDA", ""))
    if found is None or version(cuda_of_driver(driver.version)) >= version(found.group(1)):
        return ""
    return (
        f"requirement error: unsatisfied condition: {found.group(0)}, please update your driver to"
        " a newer version, or use an earlier cuda container"
    )


def _capabilities(env: Mapping[str, str]) -> set[str]:
    wanted = set(env.get(CAPABILITIES, "compute,utility").split(","))
    return set(_LIBRARIES) if "all" in wanted else wanted


def _of(table: Mapping[str, tuple[str, ...]], wanted: set[str]) -> tuple[str, ...]:
    return tuple(name for group, names in table.items() if group in wanted for name in names)


def _all(table: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return _of(table, set(table))


def _prestart(text: str) -> str:
    return (
        f"{_CONTAINERD} create failed: runc create failed: unable to start container process: error"
        " during container init: error running prestart hook #0: exit status 1, stdout: , stderr:"
        f" Auto-detected mode as 'legacy'\nnvidia-container-cli: {text}: unknown"
    )


def _not_loaded(mode: str) -> str:
    if mode == "legacy":
        return _prestart("initialization error: nvml error: driver not loaded")
    return (
        f"{_CONTAINERD} create failed: could not apply required modification to OCI specification:"
        " error modifying OCI spec: failed to inject CDI devices: failed to construct CDI spec:"
        " failed to initialize NVML: Driver Not Loaded: unknown"
    )
