"""Layer 1: a VM that owns physical cards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_network

import pulumi
import pulumi_proxmoxve as proxmoxve
from pulumi_proxmoxve.hardware import mapping

from gpu_passthrough.config import Gpu, Node, Proxmox


@dataclass(frozen=True, kw_only=True)
class ProxmoxGpuVmArgs:
    """One Talos machine on a Proxmox host; without GPUs it is an ordinary one."""

    node: Node
    """Host, VM id, address, size and cards of the machine."""
    site: Proxmox
    """Network of the machine's only network card, and datastore of its disks."""
    image: pulumi.Input[str]
    """Id of the boot image on the node's host, for example `local:import/talos.qcow2`."""
    timeout_s: int = 1800
    """Longest creation and start, in seconds; a large image has to be copied."""
    protect: bool = True
    """Refuse to delete the VM: its disk holds etcd or the pods' local data."""


class ProxmoxGpuVm(pulumi.ComponentResource):
    """A VM with every function of its cards passed through, by resource mapping.

    Raw addresses would work only for root@pam with a password. Proxmox compares a mapping with
    the live device at every start, so that a card which moved is never taken for another.
    The VM starts into Talos' maintenance mode at its static address.
    """

    vm: proxmoxve.VmLegacy
    mappings: Sequence[mapping.Pci]
    """One per card, in the order of their PCI paths."""

    def __init__(
        self, name: str, args: ProxmoxGpuVmArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-passthrough:index:ProxmoxGpuVm", name, None, opts)
        # By path, so that the order in the stack file changes nothing.
        cards = sorted(args.node.gpus, key=lambda gpu: gpu.path)
        self.mappings = [
            self._map(f"{name}-gpu{number}", args.node.host, gpu)
            for number, gpu in enumerate(cards)
        ]
        self.vm = self._create(name, args)
        self.register_outputs(
            {"vmId": self.vm.vm_id, "mappings": [one.name for one in self.mappings]}
        )

    def _map(self, name: str, host: str, gpu: Gpu) -> mapping.Pci:
        return mapping.Pci(
            name,
            name=name,
            comment=gpu.card,
            maps=[
                mapping.PciMapArgs(
                    node=host,
                    path=gpu.path,
                    id=gpu.id,
                    subsystem_id=gpu.subsystem_id,
                    iommu_group=gpu.iommu_group,
                )
            ],
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _create(self, name: str, args: ProxmoxGpuVmArgs) -> proxmoxve.VmLegacy:
        node, network, store = args.node, args.site.network, args.site.disk_datastore
        return proxmoxve.VmLegacy(
            f"{name}-vm",
            name=name,
            description=f"Talos {node.role} of {pulumi.get_stack()}, managed by Pulumi",
            tags=sorted(["pulumi", "talos", *(["gpu"] if node.gpus else [])]),
            node_name=node.host,
            vm_id=node.vm_id,
            # PCIe needs q35; large BARs need OVMF and a CPU that shows the host's address width.
            machine="q35",
            bios="ovmf",
            # Enrolled keys would start secure boot, for which this image is not signed.
            efi_disk=proxmoxve.VmLegacyEfiDiskArgs(
                datastore_id=store, type="4m", pre_enrolled_keys=False
            ),
            cpu=proxmoxve.VmLegacyCpuArgs(type="host", cores=node.cores),
            # The card reads and writes guest memory directly: none of it may be ballooned away.
            memory=proxmoxve.VmLegacyMemoryArgs(dedicated=node.memory_mib, floating=0),
            hostpcis=self._passthrough(),
            scsi_hardware="virtio-scsi-pci",
            disks=[
                proxmoxve.VmLegacyDiskArgs(
                    interface="scsi0",
                    datastore_id=store,
                    import_from=args.image,
                    size=node.disk_gib,
                    discard="on",
                    ssd=True,
                )
            ],
            boot_orders=["scsi0"],
            network_devices=[
                proxmoxve.VmLegacyNetworkDeviceArgs(
                    bridge=network.bridge, model="virtio", vlan_id=network.vlan
                )
            ],
            initialization=_network_data(args),
            # The image has no guest agent, and Proxmox would wait a quarter of an hour for it.
            agent=proxmoxve.VmLegacyAgentArgs(enabled=False),
            stop_on_destroy=True,
            operating_system=proxmoxve.VmLegacyOperatingSystemArgs(type="l26"),
            # A screen of its own: the card is for computing and shows no console.
            vga=proxmoxve.VmLegacyVgaArgs(type="std"),
            serial_devices=[proxmoxve.VmLegacySerialDeviceArgs(device="socket")],
            started=True,
            on_boot=True,
            timeout_create=args.timeout_s,
            timeout_start_vm=args.timeout_s,
            opts=self._options(args),
        )

    def _passthrough(self) -> list[proxmoxve.VmLegacyHostpciArgs]:
        return [
            proxmoxve.VmLegacyHostpciArgs(
                device=f"hostpci{number}", mapping=one.name, pcie=True, rombar=True
            )
            for number, one in enumerate(self.mappings)
        ]

    def _options(self, args: ProxmoxGpuVmArgs) -> pulumi.ResourceOptions:
        longest = f"{args.timeout_s}s"
        return pulumi.ResourceOptions(
            parent=self,
            protect=args.protect,
            # The id is fixed, so that two VMs of one node cannot exist at the same time.
            delete_before_replace=True,
            # The image matters at the first boot only; later Talos upgrades itself in place.
            ignore_changes=["disks[0].importFrom"],
            custom_timeouts=pulumi.CustomTimeouts(create=longest, update=longest),
        )


def _network_data(args: ProxmoxGpuVmArgs) -> proxmoxve.VmLegacyInitializationArgs:
    """Give the machine its address before it has a configuration: that is delivered there."""
    network = args.site.network
    address = f"{args.node.address}/{ip_network(network.cidr).prefixlen}"
    return proxmoxve.VmLegacyInitializationArgs(
        type="nocloud",
        datastore_id=args.site.disk_datastore,
        ip_configs=[
            proxmoxve.VmLegacyInitializationIpConfigArgs(
                ipv4=proxmoxve.VmLegacyInitializationIpConfigIpv4Args(
                    address=address, gateway=network.gateway
                )
            )
        ],
        dns=proxmoxve.VmLegacyInitializationDnsArgs(servers=network.dns),
    )
