"""What a Talos cluster has once: its identity, its first start, and the ways in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumiverse_talos import client, cluster, machine

from gpu_passthrough.config import TalosAccess


@dataclass(frozen=True, kw_only=True)
class TalosIdentityArgs:
    """What the secrets are made for."""

    talos_version: str
    """Talos release of the cluster's first day; a later one changes nothing."""
    protect: bool = True
    """Refuse to delete the secrets: every certificate of the cluster derives from them."""


class TalosIdentity(pulumi.ComponentResource):
    """The cluster's certificate authorities, keys and tokens: secret, and never made anew."""

    machine_secrets: pulumi.Output[Any]
    """Secrets of the machine configuration, with the names that the plugin knows."""
    client_configuration: pulumi.Output[Any]
    """Certificate and key of the machines' administrator, with the names that the plugin knows."""

    def __init__(
        self, name: str, args: TalosIdentityArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-passthrough:index:TalosIdentity", name, None, opts)
        secrets = machine.Secrets(
            f"{name}-secrets",
            talos_version=args.talos_version,
            opts=pulumi.ResourceOptions(
                parent=self,
                protect=args.protect,
                # A lower version would replace them, and with them the cluster.
                ignore_changes=["talosVersion"],
                # The plugin marks single keys at best; the certificates belong to the secret too.
                additional_secret_outputs=["machineSecrets", "clientConfiguration"],
            ),
        )
        self.machine_secrets = pulumi.Output.secret(secrets.machine_secrets.apply(camel_case))
        self.client_configuration = pulumi.Output.secret(
            secrets.client_configuration.apply(camel_case)
        )
        self.register_outputs({})


@dataclass(frozen=True, kw_only=True)
class TalosClusterArgs:
    """Where the control plane is, and who may speak to it."""

    control_planes: Sequence[str]
    """Addresses of the control plane machines; the first one is bootstrapped."""
    client_configuration: pulumi.Input[Any]
    """Certificate and key of the machines' administrator."""
    bootstrap: bool = True
    """Start etcd on the first machine; False where the cluster exists already."""
    timeout_s: int = 600
    """Longest wait for one answer of Talos, in seconds."""


class TalosCluster(pulumi.ComponentResource):
    """A bootstrapped cluster: kubeconfig for Kubernetes, talosconfig for the machines."""

    kubeconfig: pulumi.Output[str]
    talosconfig: pulumi.Output[str]

    def __init__(
        self, name: str, args: TalosClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-passthrough:index:TalosCluster", name, None, opts)
        first, longest = args.control_planes[0], f"{args.timeout_s}s"
        started: list[pulumi.Resource] = []
        if args.bootstrap:
            started = [self._bootstrap(name, first, args)]
        kubeconfig = cluster.Kubeconfig(
            f"{name}-kubeconfig",
            node=first,
            endpoint=first,
            client_configuration=args.client_configuration,
            timeouts=cluster.KubeconfigTimeoutsArgs(create=longest, update=longest),
            opts=pulumi.ResourceOptions(parent=self, depends_on=started),
        )
        self.kubeconfig = pulumi.Output.secret(kubeconfig.kubeconfig_raw)
        self.talosconfig = pulumi.Output.secret(
            client.get_configuration_output(
                cluster_name=name,
                client_configuration=args.client_configuration,
                endpoints=args.control_planes,
                nodes=args.control_planes,
                opts=pulumi.InvokeOptions(parent=self),
            ).talos_config
        )
        self.register_outputs({"kubeconfig": self.kubeconfig, "talosconfig": self.talosconfig})

    def _bootstrap(self, name: str, first: str, args: TalosClusterArgs) -> machine.Bootstrap:
        return machine.Bootstrap(
            f"{name}-bootstrap",
            node=first,
            endpoint=first,
            client_configuration=args.client_configuration,
            timeouts=machine.BootstrapTimeoutsArgs(create=f"{args.timeout_s}s"),
            opts=pulumi.ResourceOptions(parent=self),
        )


def administrator(access: TalosAccess) -> pulumi.Output[Any]:
    """Client configuration of a cluster that exists, from its talosconfig."""
    return pulumi.Output.secret(
        {
            "caCertificate": access.ca_certificate.get_secret_value(),
            "clientCertificate": access.client_certificate.get_secret_value(),
            "clientKey": access.client_key.get_secret_value(),
        }
    )


def camel_case(value: Any) -> Any:
    """Name the properties of an output as the plugin does.

    The SDK turns outputs into snake_case, and sends them to functions that way, where nobody
    knows them.
    """
    if isinstance(value, Mapping):
        return {_camel(key): camel_case(one) for key, one in value.items()}
    return value


def _camel(key: str) -> str:
    """A name such as k8s_aggregator: only the words after the first get a capital."""
    first, *others = key.split("_")
    return first + "".join(word.capitalize() for word in others)
