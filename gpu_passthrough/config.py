"""The configuration of one stack: the only way in.

A stack file says what differs per environment; this model says what may be said.
Keys are camelCase in YAML and snake_case here. Sizes carry their unit in the name.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic.alias_generators import to_camel

NAMESPACE = "gpu-passthrough"
"""Pulumi's prefix of every key in a stack file: the project's name."""

PciPath = Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}$")]
"""A PCI device without its function, so that every function of the card is passed."""
PciId = Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")]
"""vendor:device, for example 10de:2204."""
DnsLabel = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
Ipv4 = Annotated[str, Field(pattern=r"^\d{1,3}(\.\d{1,3}){3}$")]
TalosVersion = Annotated[str, Field(pattern=r"^v\d+\.\d+\.\d+(-[a-z]+\.\d+)?$")]
KubernetesVersion = Annotated[str, Field(pattern=r"^v\d+\.\d+\.\d+$")]
ChartVersion = Annotated[str, Field(pattern=r"^v\d+\.\d+\.\d+$")]


class Section(BaseModel):
    """Base of every part of the configuration: unknown keys are refused."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


class Network(Section):
    """Where the nodes live."""

    cidr: str = Field(description="The nodes' IPv4 network, for example 192.168.20.0/24.")
    gateway: Ipv4
    dns: list[Ipv4] = Field(
        min_length=1, description="Without any, Proxmox hands out the host's own resolvers."
    )
    bridge: str = "vmbr0"
    vlan: int | None = Field(default=None, ge=1, le=4094)


class Proxmox(Section):
    """The Proxmox VE hosts, reached through one API endpoint."""

    endpoint: str = Field(description="URL of the API, for example https://192.168.20.10:8006.")
    insecure: bool = Field(
        default=False, description="Accept a certificate that no known authority signed."
    )
    api_token: SecretStr | None = Field(
        default=None,
        description="USER@REALM!TOKENID=UUID; PROXMOX_VE_API_TOKEN is used where it is left out.",
    )
    disk_datastore: str = Field(default="local-lvm", description="Holds the VMs' disks.")
    image_datastore: str = Field(
        default="local", description="Holds boot images; needs the content type import."
    )
    network: Network


class Gpu(Section):
    """One physical card: what it is and where it sits on its host's PCI bus.

    Proxmox compares id, subsystem and IOMMU group with the live device at every start,
    so that a card which moved is never replaced by its neighbour.
    """

    card: str = Field(description="Name in the card catalogue, for example RTX 3090.")
    path: PciPath
    id: PciId
    subsystem_id: PciId
    iommu_group: int = Field(ge=0)


class Node(Section):
    """One Talos VM; a GPU node where it has GPUs."""

    role: Literal["controlplane", "worker"]
    host: str = Field(description="Name of the Proxmox host.")
    vm_id: int = Field(ge=100, le=999_999_999, description="Fixed, so that it can be found again.")
    address: Ipv4
    cores: int = Field(default=4, ge=1)
    memory_mib: int = Field(default=8192, ge=2048)
    disk_gib: int = Field(default=40, ge=10)
    gpus: list[Gpu] = []


class Extensions(Section):
    """Which of Talos' NVIDIA extensions are baked into the image of a GPU node."""

    channel: Literal["lts", "production"] = "lts"
    kernel_modules: Literal["nonfree", "open"] = "nonfree"


class Cluster(Section):
    """The Talos cluster."""

    name: DnsLabel
    endpoint: str = Field(description="URL of the Kubernetes API, for example https://IP:6443.")
    virtual_address: Ipv4 | None = Field(
        default=None, description="An address that the control plane nodes share."
    )
    talos_version: TalosVersion
    kubernetes_version: KubernetesVersion
    extensions: Extensions = Extensions()
    image_factory: str = "https://factory.talos.dev"


class Switch(Section):
    """An operand of the GPU Operator: on or off."""

    enabled: bool


class GpuOperator(Section):
    """The GPU Operator's release; driver and toolkit come from Talos."""

    version: ChartVersion
    repository: str = "https://helm.ngc.nvidia.com/nvidia"
    namespace: DnsLabel = "gpu-operator"
    driver: Switch = Switch(enabled=False)
    toolkit: Switch = Switch(enabled=False)
    device_plugin: Switch = Switch(enabled=True)
    gfd: Switch = Switch(enabled=True)
    dcgm_exporter: Switch = Switch(enabled=True)
    validator: Switch = Switch(enabled=True)


class RuntimeClass(Section):
    """The RuntimeClass that makes containerd inject the driver."""

    name: DnsLabel = "nvidia"
    handler: DnsLabel = "nvidia"


class Volume(Section):
    """A persistent volume of an app."""

    mount_path: str
    size: str = Field(pattern=r"^\d+(Mi|Gi|Ti)$")
    storage_class: DnsLabel = Field(description="Named, because Talos has no default class.")
    access_mode: Literal["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"] = "ReadWriteOnce"


class App(Section):
    """A workload that computes on a GPU."""

    namespace: DnsLabel
    image: str
    cuda: str | None = Field(
        default=None, pattern=r"^\d+\.\d+$", description="CUDA version of the image, where known."
    )
    gpus: int = Field(default=1, ge=1)
    vram_mib: int | None = Field(default=None, ge=1, description="Memory needed on one card.")
    runtime_class_name: DnsLabel | None = "nvidia"
    strategy: Literal["Recreate", "RollingUpdate"] = "Recreate"
    replicas: int = Field(default=1, ge=0)
    port: int | None = Field(default=None, ge=1, le=65535)
    env: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    volumes: dict[DnsLabel, Volume] = {}


class Timeouts(Section):
    """How long one step may take, in seconds."""

    vm_create: int = Field(default=1800, ge=1)
    talos_apply: int = Field(default=600, ge=1)
    kubernetes_ready: int = Field(default=600, ge=1)
    operator_ready: int = Field(default=900, ge=1)
    app_ready: int = Field(default=900, ge=1)


class Stack(Section):
    """Everything that one stack says."""

    proxmox: Proxmox
    cluster: Cluster
    nodes: dict[DnsLabel, Node]
    gpu_operator: GpuOperator
    runtime_class: RuntimeClass = RuntimeClass()
    apps: dict[DnsLabel, App] = {}
    timeouts: Timeouts = Timeouts()
    protect: bool = Field(
        default=True, description="Refuse to delete what holds data or identity (VMs, secrets)."
    )
