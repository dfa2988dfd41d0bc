"""The configuration of one stack: the only way in.

A stack file says what differs per environment; this model says what may be said.
Keys are camelCase in YAML and snake_case here. Sizes carry their unit in the name.
What two fields say together is judged in the rules, not here: one model, no hidden checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic.alias_generators import to_camel

from gpu_passthrough.fields import (
    ApiUrl,
    BridgeName,
    ChartVersion,
    Cidr,
    CudaVersion,
    DnsLabel,
    DriverVersion,
    HostName,
    Ipv4,
    KubernetesVersion,
    LabelKey,
    LabelValue,
    PciId,
    PciPath,
    StorageId,
    TalosVersion,
    Url,
)

NAMESPACE = "gpu-passthrough"
"""Pulumi's prefix of every key in a stack file: the project's name."""

Start = Literal["hardware", "vms", "talos", "kubernetes"]
"""The lowest layer that the stack builds itself."""

DAY = 86_400
"""Seconds; no step of the chain may take longer."""

MAX_PASSTHROUGH = 16
"""Devices that Proxmox passes to one VM: hostpci0 to hostpci15."""


class Section(BaseModel):
    """Base of every part of the configuration: unknown keys are refused."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


class Network(Section):
    """Where the nodes live."""

    cidr: Cidr = Field(description="The nodes' IPv4 network, for example 192.168.20.0/24.")
    gateway: Ipv4
    dns: list[Ipv4] = Field(
        min_length=1, description="Without any, Proxmox hands out the host's own resolvers."
    )
    bridge: BridgeName = "vmbr0"
    vlan: int | None = Field(default=None, ge=1, le=4094)


class Proxmox(Section):
    """The Proxmox VE hosts, reached through one API endpoint."""

    endpoint: ApiUrl = Field(description="URL of the API, for example https://192.168.20.10:8006.")
    insecure: bool = Field(
        default=False, description="Accept a certificate that no known authority signed."
    )
    api_token: SecretStr | None = Field(
        default=None,
        description="USER@REALM!TOKENID=UUID; PROXMOX_VE_API_TOKEN is used where it is left out.",
    )
    disk_datastore: StorageId = Field(default="local-lvm", description="Holds the VMs' disks.")
    image_datastore: StorageId = Field(
        default="local", description="Holds boot images; needs the content type import."
    )
    network: Network


class GpuCard(Section):
    """One physical card, by its name."""

    card: str = Field(description="Name in the card catalogue, for example RTX 3090.")


class Gpu(GpuCard):
    """One physical card: what it is and where it sits on its host's PCI bus.

    Proxmox compares id, subsystem and IOMMU group with the live device at every start,
    so that a card which moved is never replaced by its neighbour.
    """

    path: PciPath
    id: PciId
    subsystem_id: PciId
    iommu_group: int = Field(ge=0, le=65_535)


class Machine(Section):
    """One machine that exists already; a GPU node where it has GPUs."""

    role: Literal["controlplane", "worker"] = "worker"
    address: Ipv4 | None = Field(default=None, description="Where Talos answers.")
    gpus: Sequence[GpuCard] = []


class Node(Machine):
    """One Talos VM that the stack creates; a GPU node where it has GPUs."""

    role: Literal["controlplane", "worker"]
    host: HostName = Field(description="Name of the Proxmox host.")
    vm_id: int = Field(ge=100, le=999_999_999, description="Fixed, so that it can be found again.")
    address: Ipv4
    cores: int = Field(default=4, ge=1, le=1024)
    memory_mib: int = Field(default=8192, ge=2048, le=16_777_216)
    disk_gib: int = Field(default=40, ge=10, le=131_072)
    gpus: list[Gpu] = Field(default=[], max_length=MAX_PASSTHROUGH)


class Extensions(Section):
    """Which of Talos' NVIDIA extensions are baked into the image of a GPU node."""

    channel: Literal["lts", "production"] = "lts"
    kernel_modules: Literal["nonfree", "open"] = "nonfree"
    driver: DriverVersion | None = Field(
        default=None,
        description="The driver that is expected, for example 580.178.04; a Talos release whose"
        " extensions carry another one is refused.",
    )


class Cluster(Section):
    """The Talos cluster."""

    name: DnsLabel
    endpoint: ApiUrl = Field(description="URL of the Kubernetes API, for example https://IP:6443.")
    virtual_address: Ipv4 | None = Field(
        default=None, description="An address that the control plane nodes share."
    )
    talos_version: TalosVersion
    kubernetes_version: KubernetesVersion
    extensions: Extensions = Extensions()
    schedule_on_control_planes: bool = Field(
        default=False, description="Let pods run on control plane nodes, as one-node clusters need."
    )
    image_factory: Url = "https://factory.talos.dev"
    downgrade_to: TalosVersion | None = Field(
        default=None,
        description="Names an older Talos than the nodes were installed with, to go back to it.",
    )


class TalosAccess(Section):
    """How to reach a Talos cluster that exists: from its talosconfig."""

    ca_certificate: SecretStr = Field(description="`ca` of the context, base64.")
    client_certificate: SecretStr = Field(description="`crt` of the context, base64.")
    client_key: SecretStr = Field(description="`key` of the context, base64.")


class KubernetesAccess(Section):
    """How to reach a Kubernetes cluster that exists."""

    kubeconfig: SecretStr = Field(description="The content of a kubeconfig file, as a secret.")
    context: str | None = Field(default=None, description="Its current context where left out.")


class Switch(Section):
    """An operand of the GPU Operator: on or off."""

    enabled: bool


class Sharing(Section):
    """Time-slicing: several pods take turns on one card, without memory isolation."""

    replicas: int = Field(ge=2, le=64, description="Slots that each card offers.")
    rename: bool = Field(
        default=False, description="Offer the slots as nvidia.com/gpu.shared instead."
    )


RELEASE: Final = "gpu-operator"
"""Name of the operator's Helm release."""


class GpuOperator(Section):
    """The GPU Operator's release; driver and toolkit come from Talos."""

    version: ChartVersion
    repository: Url = "https://helm.ngc.nvidia.com/nvidia"
    namespace: DnsLabel = "gpu-operator"
    driver: Switch = Switch(enabled=False)
    toolkit: Switch = Switch(enabled=False)
    device_plugin: Switch = Switch(enabled=True)
    gfd: Switch = Switch(enabled=True)
    dcgm_exporter: Switch = Switch(enabled=True)
    validator: Switch = Switch(enabled=True)
    sharing: Sharing | None = None
    values: dict[str, Any] = Field(
        default={}, description="More values of the chart, merged over what the stack says."
    )


class RuntimeClass(Section):
    """The RuntimeClass that makes containerd inject the driver."""

    name: DnsLabel = "nvidia"
    handler: DnsLabel = "nvidia"


class Taint(Section):
    """A taint that keeps pods without a GPU claim off the GPU nodes."""

    key: LabelKey = "nvidia.com/gpu"
    value: LabelValue = "present"
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class Volume(Section):
    """A persistent volume of an app."""

    mount_path: str = Field(pattern=r"^/[^:]*$")
    size: str = Field(pattern=r"^[1-9]\d{0,8}(Mi|Gi|Ti)$")
    storage_class: DnsLabel = Field(description="Named, because Talos has no default class.")
    access_mode: Literal["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"] = "ReadWriteOnce"


class App(Section):
    """A workload that computes on a GPU."""

    namespace: DnsLabel
    create_namespace: bool = Field(
        default=True, description="False where the namespace exists and is somebody else's."
    )
    image: str = Field(min_length=1)
    cuda: CudaVersion | None = Field(
        default=None, description="CUDA version of the image, where known."
    )
    gpus: int = Field(default=1, ge=1, le=1024)
    vram_mib: int | None = Field(
        default=None, ge=1, le=16_777_216, description="Memory needed on one card."
    )
    runtime_class_name: DnsLabel | None = "nvidia"
    strategy: Literal["Recreate", "RollingUpdate"] = "Recreate"
    replicas: int = Field(default=1, ge=0, le=100_000)
    port: int | None = Field(default=None, ge=1, le=65535)
    env: dict[str, str] = {}
    secret_env: dict[str, SecretStr] = Field(
        default={}, description="Environment variables that are secrets in the stack file."
    )
    node_selector: dict[LabelKey, LabelValue] = {}
    volumes: dict[DnsLabel, Volume] = {}


class Timeouts(Section):
    """How long one step may take, in seconds."""

    vm_create: int = Field(default=1800, ge=1, le=DAY)
    talos_apply: int = Field(default=600, ge=1, le=DAY)
    kubernetes_ready: int = Field(default=600, ge=1, le=DAY)
    operator_ready: int = Field(default=900, ge=1, le=DAY)
    app_ready: int = Field(default=900, ge=1, le=DAY)


class Stack(Section):
    """Everything that one stack says.

    Where it starts follows from what it gives: `proxmox` and `nodes` build the VMs; `cluster` and
    `machines` use VMs that exist; `talos` beside them uses a Talos cluster that exists;
    `kubernetes` uses any cluster that has a kubeconfig, and `cluster` then says what it is, where
    that is Talos.
    """

    proxmox: Proxmox | None = None
    cluster: Cluster | None = None
    nodes: dict[DnsLabel, Node] = Field(default={}, description="VMs that the stack creates.")
    machines: dict[DnsLabel, Machine] = Field(
        default={}, description="Machines that exist already, instead of nodes."
    )
    talos: TalosAccess | None = None
    kubernetes: KubernetesAccess | None = None
    gpu_operator: GpuOperator
    runtime_class: RuntimeClass = RuntimeClass()
    gpu_taint: Taint | None = Field(
        default=None, description="Put on every GPU node, tolerated by operands, probes and apps."
    )
    apps: dict[DnsLabel, App] = {}
    timeouts: Timeouts = Timeouts()
    protect: bool = Field(
        default=True, description="Refuse to delete what holds data or identity (VMs, secrets)."
    )
    proof: bool = Field(
        default=False,
        description="End `pulumi up` by computing on every GPU; it fails where one cannot be used.",
    )

    @property
    def starts_at(self) -> Start:
        """The lowest layer that this stack builds itself."""
        if self.kubernetes is not None:
            return "kubernetes"
        if self.talos is not None:
            return "talos"
        if self.machines and self.proxmox is None and not self.nodes:
            return "vms"
        return "hardware"

    @property
    def members(self) -> Mapping[str, Machine]:
        """The cluster's machines, whoever made them, by node name."""
        return {**self.nodes, **self.machines}

    @property
    def gpu_nodes(self) -> Mapping[str, Machine]:
        """The machines that have at least one card."""
        return {name: machine for name, machine in self.members.items() if machine.gpus}

    @property
    def control_planes(self) -> Mapping[str, str]:
        """The addresses of the machines with a control plane, by node name."""
        return {
            name: machine.address
            for name, machine in self.members.items()
            if machine.role == "controlplane" and machine.address
        }

    @property
    def context(self) -> str | None:
        """Context of the stack's own kubeconfig; None for its current one."""
        return self.kubernetes.context if self.kubernetes else None

    @property
    def slots_per_card(self) -> int:
        """Pods that one card serves: the replicas of time-slicing, else one."""
        sharing = self.gpu_operator.sharing
        return sharing.replicas if sharing else 1

    @property
    def gpu_resource(self) -> str:
        """What a pod asks for: the device plugin renames it where sharing says so."""
        sharing = self.gpu_operator.sharing
        return "nvidia.com/gpu.shared" if sharing and sharing.rename else "nvidia.com/gpu"
