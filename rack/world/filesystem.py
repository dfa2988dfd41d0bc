"""The filesystem of a container, as far as programs of the rack look at it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rack.world.cuda import loads_compat, version
from rack.world.injection import Injection
from rack.world.nodefacts import NodeFacts
from rack.world.podview import FileView, ImageView

_FOLDER: Final = FileView(kind="folder")
_PROGRAM: Final = FileView(kind="program")
_DEVICE: Final = FileView(kind="device")
_CONTROL_DEVICES: Final = {
    "nvidia": ("nvidiactl",),
    "nvidia_uvm": ("nvidia-uvm", "nvidia-uvm-tools"),
    "nvidia_modeset": ("nvidia-modeset",),
}
"""Device nodes beside those of the cards, by the kernel module that serves them."""
_MINIMAL_DEVICES: Final = ("full", "null", "random", "tty", "urandom", "zero")
_CUDART: Final = "/usr/local/cuda/targets/x86_64-linux/lib"


def files(
    image: ImageView,
    injection: Injection,
    node: NodeFacts,
    *,
    hostname: str,
    mounts: Iterable[str] = (),
    is_privileged: bool = False,
) -> dict[str, FileView]:
    """Everything in a container by its absolute path.

    Args:
        image: what the container's image has.
        injection: what the node put in.
        node: the node, whose kernel shows in /proc.
        hostname: name of the pod.
        mounts: folders that volumes are mounted at.
        is_privileged: every device of the node is there.

    """
    return {
        **_of_image(image, hostname),
        **_of_kernel(node),
        **{f"/dev/{name}": _DEVICE for name in _MINIMAL_DEVICES},
        **(_devices(node, range(_count(node))) if is_privileged else {}),
        **_injected(image, injection, node),
        **{mount.rstrip("/"): _FOLDER for mount in mounts},
    }


def ld_cache(image: ImageView, injection: Injection) -> dict[str, str]:
    """What `ldconfig -p` lists: the toolkit's hook runs ldconfig after it has injected."""
    if image.libc != "glibc":
        return {}
    found = {"libc.so.6": f"{_system_libraries(image)}/libc.so.6"}
    if image.cuda:
        name = f"libcudart.so.{version(image.cuda)[0]}"
        found[name] = f"{_CUDART}/{name}"
    found |= {name: f"{injection.library_path}/{name}" for name in injection.libraries}
    compat = f"{_compat_folder(image)}/libcuda.so.1"
    if injection.driver is not None and loads_compat(image, injection.driver.version):
        found["libcuda.so.1"] = compat
    return found


def _of_image(image: ImageView, hostname: str) -> dict[str, FileView]:
    found = {
        "/etc/hostname": FileView(kind="file", text=f"{hostname}\n"),
        "/tmp": _FOLDER,  # noqa: S108 - a path inside the pod
        **{f"{_program_folder(image, name)}/{name}": _PROGRAM for name in image.programs},
    }
    if image.libc == "glibc":
        library = f"{_system_libraries(image)}/libc.so.6"
        found |= {
            library: FileView(kind="file"),
            "/bin": _link("usr/bin"),
            "/lib": _link("usr/lib"),
        }
    if image.debian:
        found["/etc/debian_version"] = FileView(kind="file", text="12.11\n")
    if image.cuda:
        major = version(image.cuda)[0]
        found |= {
            f"{_CUDART}/libcudart.so.{major}": _link(f"libcudart.so.{image.cuda}"),
            f"{_CUDART}/libcudart.so.{image.cuda}": FileView(kind="file"),
            # The base images name this folder, and nothing makes it.
            "/etc/ld.so.conf.d/nvidia.conf": FileView(
                kind="file", text="/usr/local/nvidia/lib\n/usr/local/nvidia/lib64\n"
            ),
        }
    if image.compat:
        folder = _compat_folder(image)
        found |= {
            f"{folder}/libcuda.so.1": _link(f"libcuda.so.{image.compat}"),
            f"{folder}/libcuda.so.{image.compat}": FileView(kind="file"),
        }
    return found


def _of_kernel(node: NodeFacts) -> dict[str, FileView]:
    """The kernel's own files are the node's, in every container."""
    text = f"Linux version {node.kernel_version} (gcc version 14.2.0) #1 SMP\n"
    found = {"/proc/version": FileView(kind="file", text=text)}
    driver = node.driver
    if driver is not None and "nvidia" in driver.loaded_modules:
        flavour = " Open" if driver.flavour == "open" else ""
        line = f"NVRM version: NVIDIA UNIX{flavour} x86_64 Kernel Module  {driver.version}\n"
        found["/proc/driver/nvidia/version"] = FileView(kind="file", text=line)
    return found


def _injected(image: ImageView, injection: Injection, node: NodeFacts) -> dict[str, FileView]:
    driver = injection.driver
    if driver is None:
        return {}
    found: dict[str, FileView] = {}
    for name in injection.libraries:
        stem = name.partition(".so.")[0]
        real = f"{stem}.so.{driver.version}"
        found[f"{injection.library_path}/{real}"] = FileView(kind="file")
        found[f"{injection.library_path}/{name}"] = _link(real)
    found |= {f"{injection.binary_path}/{name}": _PROGRAM for name in injection.binaries}
    if image.libc == "glibc" and injection.libraries:
        path = "/etc/ld.so.conf.d/00-nvcr-1.conf"
        found[path] = FileView(kind="file", text=f"{injection.library_path}\n")
    minors = [driver.gpus.index(gpu) for gpu in injection.gpus]
    return {**found, **_devices(node, minors)}


def _devices(node: NodeFacts, minors: Iterable[int]) -> dict[str, FileView]:
    modules = node.driver.loaded_modules if node.driver else frozenset()
    control = [name for module in _CONTROL_DEVICES if module in modules
               for name in _CONTROL_DEVICES[module]]  # fmt: skip
    names = [*control, *(f"nvidia{minor}" for minor in minors)]
    return {f"/dev/{name}": _DEVICE for name in names} if modules else {}


def _count(node: NodeFacts) -> int:
    return len(node.driver.gpus) if node.driver else 0


def _link(target: str) -> FileView:
    return FileView(kind="link", text=target)


def _program_folder(image: ImageView, name: str) -> str:
    if name.startswith("python"):
        return (
            "/opt/venv/bin"
            if image.env.get("PATH", "").startswith("/opt/venv")
            else "/usr/local/bin"
        )
    if name == "ldconfig":
        return "/usr/sbin"
    return "/usr/bin" if image.libc == "glibc" else "/bin"


def _system_libraries(image: ImageView) -> str:
    return "/usr/lib/x86_64-linux-gnu" if image.debian else "/usr/lib64"


def _compat_folder(image: ImageView) -> str:
    return f"/usr/local/cuda-{image.cuda}/compat"
