"""The ways into each layer.

Every provider is explicit: a default one would take whatever the caller's shell points at.
"""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes
import pulumi_proxmoxve as proxmoxve
import pulumiverse_talos as talos

from components.readiness import Access, kubernetes_gate
from gpu_passthrough.config import Cluster, Proxmox


def machine_providers(cluster: Cluster, site: Proxmox | None) -> list[pulumi.ProviderResource]:
    """Speak to Talos' machines and image factory, and to Proxmox where the stack builds VMs."""
    return [_talos(cluster), *([_proxmox(site)] if site else [])]


def _proxmox(site: Proxmox) -> proxmoxve.Provider:
    """Speak to the Proxmox VE API; without a token here, the plugin takes PROXMOX_VE_API_TOKEN."""
    token = site.api_token
    return proxmoxve.Provider(
        "proxmox",
        endpoint=site.endpoint,
        insecure=site.insecure,
        api_token=pulumi.Output.secret(token.get_secret_value()) if token else None,
    )


def _talos(cluster: Cluster) -> talos.Provider:
    """Speak to the image factory and to the machines."""
    return talos.Provider("talos", image_factory_url=cluster.image_factory)


def kubernetes_provider(identifier: str, access: Access, timeout_s: int) -> kubernetes.Provider:
    """Speak to the Kubernetes API, once it answers.

    The identifier is what makes it the same cluster: with renewed certificates in the kubeconfig,
    everything in the cluster would otherwise have to be replaced.
    """
    return kubernetes.Provider(
        "kubernetes",
        kubeconfig=access.kubeconfig,
        context=access.context,
        cluster_identifier=identifier,
        enable_server_side_apply=True,
        opts=pulumi.ResourceOptions(hooks=kubernetes_gate(access, timeout_s)),
    )
