"""Shared libraries in a pod's Python: ctypes finds what the pod's loader would find."""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any, Final

from rack.programs.container import Container
from rack.programs.cuda_library import CudaRuntime, DriverLibrary
from rack.programs.nvml_library import NvmlLibrary

LOADED: Final[list[str]] = []
"""Paths of the libraries that this process has opened, as its memory map shows them."""

_OWN: Final = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2")
"""Libraries that are the same in every glibc userland."""


def install(container: Container) -> None:
    """Replace ctypes' way to libraries."""
    real = ctypes.CDLL

    def load(name: str | None, *args: Any, **kwargs: Any) -> Any:
        """Open a library by its name or path."""
        if name is None or name in _OWN:
            return real(name, *args, **kwargs)
        path = container.library(str(name)) if container.image["libc"] == "glibc" else None
        if path is None:
            raise OSError(f"{name}: cannot open shared object file: No such file or directory")
        found = library(container, path)
        LOADED.append(path)
        return found

    def find(name: str) -> str | None:
        """The loader's name of a library, from its short one."""
        known = (one for one in container.ld_cache if one.startswith(f"lib{name}.so"))
        return next(known, None)

    class Loader:
        """ctypes.cdll: libraries as attributes."""

        LoadLibrary = staticmethod(load)

        def __getattr__(self, name: str) -> Any:
            return load(name)

    ctypes.CDLL = load  # type: ignore[assignment,misc]
    ctypes.cdll = Loader()  # type: ignore[assignment]
    ctypes.util.find_library = find


def library(container: Container, path: str) -> Any:
    """The library at a path."""
    name = path.rpartition("/")[2]
    if name.startswith("libcuda.so"):
        is_compat = "/compat/" in path
        result = container.view["runtime_result" if is_compat else "driver_result"]
        return DriverLibrary(container.gpus, container.driver_cuda, result)
    if name.startswith("libcudart.so"):
        return CudaRuntime(container.gpus, container.driver_cuda, container.view["runtime_result"])
    if name.startswith("libnvidia-ml.so"):
        return NvmlLibrary(container)
    raise OSError(f"simulated rack: the library {name} is there, and nothing can be called in it")
