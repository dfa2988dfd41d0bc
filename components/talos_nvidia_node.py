"""Layer 2: a machine becomes a Talos node, with the NVIDIA driver where it has cards."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumiverse_talos import machine

from gpu_passthrough import versions
from gpu_passthrough.config import Cluster, Machine, Taint

NVIDIA_MODULES = ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset")
"""Talos keeps extensions' modules from loading by themselves."""
DOCUMENTS_SINCE = (1, 12)
"""From this Talos on, hostname and shared address are documents of their own."""
OPEN_BPF_SINCE = (1, 13)
"""From this Talos on, its guide for NVIDIA no longer loosens the BPF hardening."""
LINK = "net0"
"""Alias of the VM's only network card; the kernel's name depends on the PCI slot."""

Document = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TalosNvidiaNodeArgs:
    """One node of the cluster."""

    machine: Machine
    """Role, address and cards; the address must answer already."""
    cluster: Cluster
    """Name, endpoint and versions that all nodes share."""
    installer: pulumi.Input[str]
    """Installer image of the schematic that the machine booted."""
    machine_secrets: pulumi.Input[Any]
    """Secrets of the cluster's machine configuration."""
    client_configuration: pulumi.Input[Any]
    """Certificate and key of the machines' administrator."""
    taint: Taint | None = None
    """Put on the node where it has cards."""
    reset_on_destroy: bool = False
    """Put the machine back into maintenance mode; needless where its disk is deleted as well."""
    timeout_s: int = 600
    """Longest wait until the machine takes its configuration, in seconds."""


class TalosNvidiaNode(pulumi.ComponentResource):
    """A configured Talos machine; it joins the cluster by itself."""

    def __init__(
        self, name: str, args: TalosNvidiaNodeArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-passthrough:index:TalosNvidiaNode", name, None, opts)
        if args.machine.address is None:
            raise ValueError(f"{name}: a Talos machine is configured at its address; it has none")
        generated = machine.get_configuration_output(
            cluster_name=args.cluster.name,
            cluster_endpoint=args.cluster.endpoint,
            machine_type=args.machine.role,
            machine_secrets=args.machine_secrets,
            talos_version=args.cluster.talos_version,
            kubernetes_version=args.cluster.kubernetes_version,
            opts=pulumi.InvokeOptions(parent=self),
        )
        longest = f"{args.timeout_s}s"
        machine.ConfigurationApply(
            f"{name}-configuration",
            node=args.machine.address,
            endpoint=args.machine.address,
            client_configuration=args.client_configuration,
            machine_configuration_input=pulumi.Output.secret(generated.machine_configuration),
            # Kept apart from the secrets, so that a preview shows what changes.
            config_patches=[
                pulumi.Output.json_dumps({"machine": {"install": {"image": args.installer}}}),
                *(json.dumps(one) for one in documents(name, args)),
            ],
            # A graceful reset waits for etcd, and for ever on the last node.
            on_destroy=machine.ConfigurationApplyOnDestroyArgs(
                reset=args.reset_on_destroy, graceful=False, reboot=args.reset_on_destroy
            ),
            timeouts=machine.TimeoutArgs(create=longest, update=longest, delete=longest),
            opts=pulumi.ResourceOptions(
                parent=self,
                hooks=pulumi.ResourceHookBinding(before_update=[no_downgrade(name, args)]),
            ),
        )
        self.register_outputs({"address": args.machine.address})


def no_downgrade(name: str, args: TalosNvidiaNodeArgs) -> pulumi.ResourceHook:
    """Refuse to go back to an older Talos than the machine was installed with, unless named."""

    def refuse(hook: pulumi.ResourceHookArgs) -> None:
        installed = installed_version(hook.old_inputs or {})
        if problem := downgrade_problem(name, installed, args.cluster):
            raise ValueError(problem)

    return pulumi.ResourceHook(f"{name}-no-downgrade", refuse)


def installed_version(inputs: Mapping[str, Any]) -> str | None:
    """The Talos that a node's configuration installs: the tag of the installer image."""
    found = re.search(r"-installer/[0-9a-f]+:(v\d+\.\d+\.\d+)", str(inputs))
    return found[1] if found else None


def downgrade_problem(name: str, installed: str | None, cluster: Cluster) -> str:
    """Why a version is refused; empty where it is not older, or named."""
    wanted = cluster.talos_version
    if installed is None or versions.parse(wanted) >= versions.parse(installed):
        return ""
    if cluster.downgrade_to == wanted:
        return ""
    return (
        f"{name} was installed with Talos {installed}, and the stack says {wanted}.\n"
        "  Why: an older Talos may not read what the newer one wrote, and refuses documents that it"
        " does not know.\n"
        f"  Fix: keep cluster.talosVersion at {installed}, or name the way back with"
        f" cluster.downgradeTo: {wanted}."
    )


def documents(name: str, args: TalosNvidiaNodeArgs) -> list[Document]:
    """Say what this node has beyond the generated configuration."""
    line = versions.parse(args.cluster.talos_version).line
    found = [*hostname(name, line), *shared_address(args, line)]
    if args.machine.gpus:
        found.append({"machine": nvidia(args.taint, line)})
    if args.machine.role == "controlplane" and args.cluster.schedule_on_control_planes:
        found.append({"cluster": {"allowSchedulingOnControlPlanes": True}})
    return found


def hostname(name: str, line: tuple[int, int]) -> list[Document]:
    """Name the node; Talos refuses the other version's way of saying it."""
    if line < DOCUMENTS_SINCE:
        return [{"machine": {"network": {"hostname": name}}}]
    # The generated document asks for a stable name of Talos' own; a hostname needs that off.
    return [{"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "off", "hostname": name}]


def shared_address(args: TalosNvidiaNodeArgs, line: tuple[int, int]) -> list[Document]:
    """Let the control plane machines share the address of the Kubernetes API."""
    address = args.cluster.virtual_address
    if address is None or args.machine.role != "controlplane":
        return []
    if line < DOCUMENTS_SINCE:
        link = {"deviceSelector": {"driver": "virtio_net"}, "vip": {"ip": address}}
        return [{"machine": {"network": {"interfaces": [link]}}}]
    alias = {"name": LINK, "selector": {"match": 'link.driver == "virtio_net"'}}
    return [
        {"apiVersion": "v1alpha1", "kind": "LinkAliasConfig", **alias},
        {"apiVersion": "v1alpha1", "kind": "Layer2VIPConfig", "name": address, "link": LINK},
    ]


def nvidia(taint: Taint | None, line: tuple[int, int]) -> Document:
    """Load the driver of the image's extensions, and keep other pods away where asked."""
    node: dict[str, Any] = {"kernel": {"modules": [{"name": one} for one in NVIDIA_MODULES]}}
    if line < OPEN_BPF_SINCE:
        node["sysctls"] = {"net.core.bpf_jit_harden": "1"}
    if taint is not None:
        node["nodeTaints"] = {taint.key: f"{taint.value}:{taint.effect}"}
    return node
