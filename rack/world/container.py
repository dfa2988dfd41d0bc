"""One container of a pod: its variables, what is injected, and its view from inside."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from rack.world.cuda import cuda_of_driver, driver_result, loads_compat, runtime_result
from rack.world.filesystem import files, ld_cache
from rack.world.images import Image, image
from rack.world.injection import Injection, inject
from rack.world.nodefacts import GpuFacts, NodeFacts
from rack.world.podview import ContainerView, DriverView, GpuView
from rack.world.releases import read_table

Spec = Mapping[str, Any]

_POWER: Final = {"limit_w": "250", "idle_w": "15", "idle_c": "35"}
"""A card that data/gpu_power.tsv does not have."""


class Container:
    """A container that a node is about to start."""

    def __init__(
        self,
        pod: Spec,
        spec: Spec,
        node: NodeFacts,
        *,
        handler: str,
        allocated: tuple[str, ...],
        strategies: tuple[str, ...],
    ) -> None:
        self.name: str = spec["name"]
        self.spec = spec
        self.image: Image = image(spec.get("image", ""))
        self.node = node
        self.pod = pod
        self.hostname: str = pod["spec"].get("hostname") or pod["metadata"]["name"]
        own = self._own_env()
        self.injection: Injection = inject(
            self.image.view,
            own,
            node,
            handler=handler,
            allocated=allocated,
            strategies=strategies,
        )
        self.env: dict[str, str] = {"HOSTNAME": self.hostname, **own, **self.injection.env}

    def _own_env(self) -> dict[str, str]:
        """The image's variables, then the pod's; sources other than values and fields are empty."""
        found = dict(self.image.view.env)
        for one in self.spec.get("env") or ():
            found[one["name"]] = one.get("value") or self._field(one.get("valueFrom") or {})
        return found

    def _field(self, source: Spec) -> str:
        path = (source.get("fieldRef") or {}).get("fieldPath", "")
        values = {
            "metadata.name": self.pod["metadata"]["name"],
            "metadata.namespace": self.pod["metadata"].get("namespace", "default"),
            "metadata.uid": self.pod["metadata"].get("uid", ""),
            "spec.nodeName": self.node.name,
            "status.hostIP": self.node.address,
        }
        return str(values.get(path, ""))

    @property
    def is_privileged(self) -> bool:
        """The container has every device of its node."""
        return bool((self.spec.get("securityContext") or {}).get("privileged"))

    @property
    def argv(self) -> tuple[str, ...]:
        """Command and arguments of the pod; empty where the image's own entry point runs."""
        return (*(self.spec.get("command") or ()), *(self.spec.get("args") or ()))

    @property
    def driver_result(self) -> int:
        """What cuInit gives, as a number of `cuda.ERRORS`."""
        injection, view = self.injection, self.image.view
        has_driver = "libcuda.so.1" in injection.libraries
        if has_driver and injection.driver and loads_compat(view, injection.driver.version):
            return runtime_result(view, injection.driver, injection.gpus)
        return driver_result(injection.driver if has_driver else None, injection.gpus)

    @property
    def runtime_result(self) -> int:
        """What the first call of the image's CUDA libraries gives, likewise."""
        injection = self.injection
        has_driver = "libcuda.so.1" in injection.libraries
        driver = injection.driver if has_driver and self.image.view.libc == "glibc" else None
        return runtime_result(self.image.view, driver, injection.gpus)

    def view(self, *, used_mib: int = 0, utilisation: int = 0) -> ContainerView:
        """The container from inside; its application uses that much of the first card."""
        injection = self.injection
        driver = injection.driver
        mounts = [mount["mountPath"] for mount in self.spec.get("volumeMounts") or ()]
        return ContainerView(
            name=self.name,
            image=self.image.view,
            env=self.env,
            gpus=tuple(
                _gpu_view(index, gpu, self.node, 0 if index else used_mib, utilisation)
                for index, gpu in enumerate(injection.gpus)
            ),
            driver=driver
            and DriverView(version=driver.version, cuda=cuda_of_driver(driver.version)),
            injected_by=injection.by,
            files=files(
                self.image.view,
                injection,
                self.node,
                hostname=self.hostname,
                mounts=mounts,
                is_privileged=self.is_privileged,
            ),
            ld_cache=ld_cache(self.image.view, injection),
            driver_result=self.driver_result,
            runtime_result=self.runtime_result,
            hostname=self.hostname,
        )


def _gpu_view(
    index: int, gpu: GpuFacts, node: NodeFacts, used_mib: int, utilisation: int
) -> GpuView:
    power = _power().get(gpu.name, _POWER)
    limit, idle = int(power["limit_w"]), int(power["idle_w"])
    drivers = node.driver.gpus if node.driver else ()
    return GpuView(
        index=index,
        minor=drivers.index(gpu),
        uuid=gpu.uuid,
        name=gpu.name,
        memory_mib=gpu.memory_mib,
        bus_id=f"0000{gpu.guest_address}".upper(),
        architecture=gpu.architecture,
        compute_capability=gpu.compute_capability,
        power_limit_w=limit,
        # NVML counts what the driver itself keeps.
        used_mib=used_mib + 1,
        utilisation=utilisation,
        temperature_c=int(power["idle_c"]) + utilisation // 3,
        power_w=idle + (limit - idle) * utilisation // 100,
    )


@cache
def _power() -> dict[str, dict[str, str]]:
    return {row["name"]: row for row in read_table("gpu_power.tsv")}
