"""The container that a program runs in, read from the file that the rack's kubelet wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rack.world.filetree import File, FileTree

POD: Final = "RACK_POD"
"""Variable: path of the pod's view."""
CONTAINER: Final = "RACK_CONTAINER"
"""Variable: name of the container; the first one where it is missing."""


class NoContainerError(Exception):
    """The program was not started by the rack."""


@dataclass(frozen=True)
class Gpu:
    """A card in the container, as NVML shows it; see podview.GpuView."""

    index: int
    minor: int
    uuid: str
    name: str
    memory_mib: int
    bus_id: str
    architecture: str
    compute_capability: tuple[int, int]
    power_limit_w: int
    used_mib: int
    utilisation: int
    temperature_c: int
    power_w: int


@dataclass(frozen=True)
class Container:
    """A container from inside; see podview.ContainerView."""

    pod: Mapping[str, Any]
    view: Mapping[str, Any]
    env: dict[str, str]
    tree: FileTree
    gpus: tuple[Gpu, ...]

    @property
    def image(self) -> Mapping[str, Any]:
        """What the image has in it."""
        found: Mapping[str, Any] = self.view["image"]
        return found

    @property
    def ld_cache(self) -> Mapping[str, str]:
        """Paths of shared libraries by name."""
        found: Mapping[str, str] = self.view["ld_cache"]
        return found

    @property
    def driver_version(self) -> str:
        """The injected driver's version; empty where none was injected."""
        return str((self.view["driver"] or {}).get("version", ""))

    @property
    def driver_cuda(self) -> str:
        """Newest CUDA of the injected driver; empty where none was injected."""
        return str((self.view["driver"] or {}).get("cuda", ""))

    def library(self, name: str) -> str | None:
        """Path from which the loader takes a shared library; None where it finds none."""
        if "/" in name:
            return self.tree.real_path(name)
        for folder in self.env.get("LD_LIBRARY_PATH", "").split(":"):
            if folder and (found := self.tree.real_path(f"{folder}/{name}")):
                return found
        cached = self.ld_cache.get(name)
        return cached and (self.tree.real_path(cached) or cached)


def load(environment: Mapping[str, str] = os.environ) -> Container:
    """Read the container that this process is in.

    Raises:
        NoContainerError: the variables or the file are missing.

    """
    path = environment.get(POD, "")
    try:
        pod = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NoContainerError(
            f"simulated rack: cannot read the pod's view ({POD}={path}): {error}. The rack's"
            " kubelet writes it when the pod runs; `kubectl exec` sets the variable"
        ) from None
    return of_pod(pod, environment.get(CONTAINER, ""))


def of_pod(pod: Mapping[str, Any], name: str = "") -> Container:
    """A container of a pod's view, by its name; the first one without.

    Raises:
        NoContainerError: the pod has no such container.

    """
    name = name or next(iter(pod["containers"]))
    view = pod["containers"].get(name)
    if view is None:
        raise NoContainerError(f"simulated rack: pod {pod['name']} has no container {name}")
    files = {path: File(**entry) for path, entry in view["files"].items()}
    gpus = tuple(
        Gpu(**{**gpu, "compute_capability": tuple(gpu["compute_capability"])})
        for gpu in view["gpus"]
    )
    return Container(pod, view, dict(view["env"]), FileTree(files), gpus)
