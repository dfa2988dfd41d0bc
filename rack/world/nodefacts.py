"""What a running Talos machine is to everything above it.

The Kubernetes side of the rack reads nothing else about a machine: if a fact is
not here, a kubelet could not know it either.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Base of the facts: values only, never changed after they were read."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class GpuFacts(Frozen):
    """One NVIDIA GPU as the guest sees it on its own PCI bus."""

    uuid: str
    """NVML's identifier, `GPU-` and a UUID; stable for a physical card."""
    guest_address: str
    """PCI address inside the guest, for example `0000:06:10.0`."""
    host_address: str
    """PCI address on the Proxmox host without function, for example `0000:01:00`."""
    name: str
    """Product name as NVML reports it."""
    memory_mib: int
    """Memory in MiB as NVML reports it."""
    architecture: str
    """maxwell, pascal, volta, turing, ampere, ada, hopper or blackwell."""
    compute_capability: tuple[int, int]


class DriverFacts(Frozen):
    """The NVIDIA kernel modules and libraries that the image brought and loaded."""

    version: str
    """Driver version, for example 580.178.04."""
    flavour: Literal["open", "nonfree"]
    loaded_modules: frozenset[str]
    """Kernel names: nvidia, nvidia_uvm, nvidia_drm, nvidia_modeset."""
    gpus: tuple[GpuFacts, ...]
    """The GPUs that this driver drives: fewer than present when it cannot drive a card."""
    problem: str = ""
    """What the kernel log says when a present card is not driven."""


class ToolkitFacts(Frozen):
    """The NVIDIA container toolkit of the image."""

    version: str
    """Container toolkit version, for example 1.19.1."""
    mode: Literal["legacy", "jit-cdi"]
    """How it injects by default: from 1.18 on by a CDI specification made on the fly."""
    library_path: str
    """Folder of the host's driver libraries, for example /usr/local/lib."""
    binary_path: str
    """Folder of the host's nvidia-smi, for example /usr/local/bin."""


class NodeFacts(Frozen):
    """One machine that has joined (or is joining) the cluster."""

    name: str
    address: str
    """IPv4 address of the node."""
    role: Literal["controlplane", "worker"]
    vm_id: int
    boot_id: str
    """Changes at every boot."""
    talos_version: str
    """With the leading v, for example v1.13.9."""
    kubernetes_version: str
    """Kubelet version with the leading v."""
    kernel_version: str
    container_runtime: str
    """For example containerd://2.2.7."""
    cpus: int
    memory_mib: int
    labels: dict[str, str]
    """Labels that Talos sets: its extensions and the machine configuration's nodeLabels."""
    annotations: dict[str, str]
    taints: tuple[dict[str, str], ...] = ()
    runtime_handlers: frozenset[str]
    """containerd's handlers: runc, and nvidia where the toolkit extension is."""
    cdi_enabled: bool
    """containerd injects CDI devices (Talos from 1.13 on)."""
    host_nvidia_smi: bool
    """/usr/bin/nvidia-smi exists on the host (Talos from 1.13.0 on)."""
    gpus: tuple[GpuFacts, ...]
    """Cards present in the machine, driven or not."""
    driver: DriverFacts | None
    """None where no NVIDIA kernel module is loaded."""
    toolkit: ToolkitFacts | None

    @property
    def os_image(self) -> str:
        """The node's osImage as Talos reports it."""
        return f"Talos ({self.talos_version})"


class ClusterFacts(Frozen):
    """A cluster that was bootstrapped: what its control plane runs with.

    Keys and certificates are PEM text and come from the machine secrets in the
    control plane's machine configuration, so wrong secrets give a wrong cluster.
    """

    name: str
    endpoint: str
    """URL of the Kubernetes API, for example https://127.0.0.1:6443."""
    kubernetes_version: str
    vm_id: int
    """VM of the bootstrapped control plane node; etcd lives on its disk."""
    address: str
    """IPv4 address of that node."""
    incarnation: str
    """Changes with every bootstrap: another one is another, empty, etcd."""
    kubernetes_ca: str
    kubernetes_ca_key: str
    aggregator_ca: str
    aggregator_ca_key: str
    etcd_ca: str
    etcd_ca_key: str
    service_account_key: str
    pod_subnets: tuple[str, ...]
    service_subnets: tuple[str, ...]
    pod_security_default: str = "baseline"
    """Pod security level enforced outside kube-system (Talos' admission configuration)."""
