"""What the GPU Operator's own containers do on a node.

Rules: the validator of NVIDIA/gpu-operator (validator/main.go at v24.9.2, cmd/nvidia-validator at
v26.3.1) and the daemon sets in its assets/.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Final

from rack.world.container import Container
from rack.world.cuda import driver_result, runtime_result
from rack.world.cuda_errors import ERRORS
from rack.world.images import repository_and_tag
from rack.world.nodefacts import NodeFacts
from rack.world.podtypes import PodContext
from rack.world.result import Result, exited, running

Behaviour = Callable[[Container, PodContext], Result]

POLL_S: Final = 5.0
"""Every loop of the operands pauses this long."""
CHECKS_REFCOUNT_SINCE: Final = (26, 3)
"""From this operator on, no modprobe where the module `nvidia` is loaded already."""
_MODPROBED: Final = ("nvidia", "nvidia-uvm", "nvidia-modeset")
_LIBRARY_FOLDERS: Final = ("", "usr/lib64", "usr/lib/x86_64-linux-gnu", "lib64",
                           "lib/x86_64-linux-gnu")  # fmt: skip
_BINARY_FOLDERS: Final = ("", "usr/bin", "usr/sbin", "bin", "sbin")
_NO_LINKS: Final = (
    "Failed to create symlinks under /dev/char that point to all possible NVIDIA character devices."
)


def behaviour(container: Container) -> Behaviour | None:
    """What an operand's container does; None for a container that is not one."""
    component = container.env.get("COMPONENT", "")
    if container.image.application == "operand" and component in _VALIDATORS:
        return _VALIDATORS[component]
    return _OPERANDS.get(container.name) if _is_vendor(container) else None


def _is_vendor(container: Container) -> bool:
    repository, _ = repository_and_tag(container.image.view.reference)
    return repository.startswith("nvidia/")


def operator_line(container: Container) -> tuple[int, int]:
    """Major and minor number of the operator that the validator belongs to."""
    _, tag = repository_and_tag(container.image.view.reference)
    found = re.match(r"v?(\d+)\.(\d+)", tag)
    return (int(found.group(1)), int(found.group(2))) if found else CHECKS_REFCOUNT_SINCE


def validate_driver(container: Container, ctx: PodContext) -> Result:
    """Look for a driver on the host once; else in the driver's folder, for ever."""
    node = container.node
    on_host = host_driver_problem(node)
    lines = ['level=info msg="Attempting to validate a pre-installed driver on the host"']
    if on_host:
        lines.append(f'level=info msg="No pre-installed driver detected on the host: {on_host}"')
        lines.append('level=info msg="Validating containerized driver installation"')
        missing = installed_driver_problem(node, container.env.get("DRIVER_INSTALL_DIR", ""))
        if missing:
            lines.append(missing)
            lines.append(
                'level=warning msg="failed to validate the driver, retrying after 5 seconds\\n"'
            )
            return running(*lines, retry_after=POLL_S)
    else:
        lines.append('level=info msg="Detected a pre-installed driver on the host"')
    if problem := _device_links_problem(container):
        return exited(1, lines=(*lines, f'level=info msg="Error: {problem}"', "", _NO_LINKS))
    return _done("driver", *lines)


def host_driver_problem(node: NodeFacts) -> str:
    """Why the host has no usable driver of its own; empty where it has."""
    if not node.host_nvidia_smi:
        return (
            "no 'nvidia-smi' file present on the host: lstat /host/usr/bin/nvidia-smi: no such file"
            " or directory"
        )
    if node.driver is None or not node.driver.gpus:
        return "error running command: exit status 9"
    return ""


def installed_driver_problem(node: NodeFacts, root: str) -> str:
    """What a driver below `root` lacks; empty where nvidia-smi runs with the library there."""
    libraries, binaries = _host_folders(node)
    at = {posixpath.join(root, folder).rstrip("/") for folder in _LIBRARY_FOLDERS}
    if not at & libraries:
        return f"failed to locate driver libraries: libnvidia-ml.so.1 not found below {root}"
    at = {posixpath.join(root, folder).rstrip("/") for folder in _BINARY_FOLDERS}
    if not at & binaries:
        return f"failed to locate nvidia-smi: not found below {root}"
    if node.driver is None or not node.driver.gpus:
        return "error running command: exit status 9"
    return ""


def _host_folders(node: NodeFacts) -> tuple[set[str], set[str]]:
    """The host's folders with driver libraries, and those with nvidia-smi, links included."""
    if node.toolkit is None:
        return set(), set()
    if node.host_nvidia_smi:
        return {"/usr/local/lib", "/usr/local/lib64"}, {"/usr/local/bin", "/usr/bin", "/usr/sbin"}
    glibc = "/usr/local/glibc"
    names = ("usr/lib", "usr/lib64", "lib", "lib64")
    return {f"{glibc}/{name}" for name in names}, {node.toolkit.binary_path}


def _device_links_problem(container: Container) -> str:
    """Why the links in /dev/char cannot be made; empty where they can, or are not wanted.

    A container's modprobe succeeds only for modules that are loaded: Talos' containerd has no
    capability to load any.
    """
    if container.env.get("DISABLE_DEV_CHAR_SYMLINK_CREATION", "").lower() == "true":
        return ""
    driver = container.node.driver
    loaded = driver.loaded_modules if driver else frozenset()
    if operator_line(container) >= CHECKS_REFCOUNT_SINCE and "nvidia" in loaded:
        return ""
    missing = next((one for one in _MODPROBED if one.replace("-", "_") not in loaded), None)
    if missing is None:
        return ""
    module = missing.replace("-", "_")
    return (
        "error validating driver installation: error creating symlink creator: failed to load"
        f" NVIDIA kernel modules: failed to load module {missing}: exit status 1; output=modprobe:"
        f" ERROR: could not insert '{module}': Operation not permitted"
    )


def validate_toolkit(container: Container, ctx: PodContext) -> Result:
    """Run nvidia-smi, which must have been injected."""
    injection = container.injection
    if "nvidia-smi" in injection.binaries and injection.gpus:
        return _done("toolkit")
    text = "toolkit is not ready"
    cause = 'error running nvidia-smi: exec: "nvidia-smi": executable file not found in $PATH'
    return exited(1, lines=(text, f'level=info msg="Error: {cause}"'))


def validate_cuda(container: Container, ctx: PodContext) -> Result:
    """Run vectorAdd in a pod of its own, on every card of the node."""
    driver = container.node.driver
    gpus = driver.gpus if driver else ()
    code = driver_result(driver, gpus) or runtime_result(container.image.view, driver, gpus)
    if not code:
        text = 'level=info msg="pod nvidia-cuda-validator have run successfully"'
        return _done("cuda", text)
    line = f"Failed to allocate device vector A (error code {ERRORS[code][1]})!"
    return exited(1, lines=(line, 'level=info msg="Error: error validating cuda workload"'))


def validate_plugin(container: Container, ctx: PodContext) -> Result:
    """Wait for the node's capacity of GPUs."""
    if ctx.gpu_capacity > 0:
        return _done("plugin")
    text = 'level=info msg="GPU resources are not yet discovered by the node, retry: 1"'
    return running(text, retry_after=POLL_S)


def _done(step: str, *lines: str) -> Result:
    result = exited(0, lines=lines)
    return result.model_copy(update={"markers": frozenset({f"{step}-ready"})})


def validated(container: Container, ctx: PodContext) -> Result:
    """The validator's main container."""
    return running("all validations are successful")


def device_plugin(container: Container, ctx: PodContext) -> Result:
    """Wait for the driver, then offer each card to the kubelet."""
    if "driver-ready" not in ctx.markers:
        return running("Waiting for driver-ready", retry_after=POLL_S)
    driver = container.node.driver
    if driver is None or not driver.gpus:
        return exited(1, lines=("E main.go: error starting plugins: error creating plugin manager:"
                                " unable to create resource managers: Incompatible strategy"
                                " detected auto",))  # fmt: skip
    return running(
        "Starting FS watcher for /var/lib/kubelet/device-plugins",
        "Retrieving plugins.",
        "Detected NVML platform: found NVML library",
        "Starting GRPC server for 'nvidia.com/gpu'",
        "Registered device plugin for 'nvidia.com/gpu' with Kubelet",
    )


def plain_device_plugin(container: Container, ctx: PodContext) -> Result:
    """The device plugin of its own chart: it waits for nothing, and has to be injected into."""
    if "libnvidia-ml.so.1" not in container.injection.libraries:
        return running(
            "Retrieving plugins.",
            "Detected non-NVML platform: could not load NVML library: libnvidia-ml.so.1: cannot"
            " open shared object file: No such file or directory",
            "No devices found. Waiting indefinitely.",
        )
    return running("Retrieving plugins.", "Registered device plugin for 'nvidia.com/gpu'")


def feature_discovery(container: Container, ctx: PodContext) -> Result:
    """Write the node's labels, again every minute."""
    return running("Starting OS watcher.", "Start running", "Creating Labels", "Sleeping for 1m0s")


def dcgm_exporter(container: Container, ctx: PodContext) -> Result:
    """Serve metrics."""
    return running("Starting dcgm-exporter", "DCGM successfully initialized!", "Starting webserver")


def once(container: Container, ctx: PodContext) -> Result:
    """Do a small thing that always works on the rack."""
    return exited(0)


_VALIDATORS: Final[dict[str, Behaviour]] = {
    "driver": validate_driver,
    "toolkit": validate_toolkit,
    "cuda": validate_cuda,
    "plugin": validate_plugin,
}
_OPERANDS: Final[dict[str, Behaviour]] = {
    "nvidia-operator-validator": validated,
    "nvidia-device-plugin": device_plugin,
    "nvidia-device-plugin-ctr": plain_device_plugin,
    "gpu-feature-discovery": feature_discovery,
    "nvidia-dcgm-exporter": dcgm_exporter,
    "config-manager-init": once,
    "gpu-feature-discovery-imex-init": once,
    "k8s-driver-manager": once,
}
