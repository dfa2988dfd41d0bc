"""What resources are called among people, and what is gone with them."""

from __future__ import annotations

VM = "proxmoxve:index/vmLegacy:VmLegacy"
MAPPING = "proxmoxve:hardware/mapping/pci:Pci"
IDENTITY = "talos:machine/secrets:Secrets"
CONFIGURATION = "talos:machine/configurationApply:ConfigurationApply"
RELEASE = "kubernetes:helm.sh/v3:Release"
RUNTIME_CLASSES = (
    "kubernetes:node.k8s.io/v1:RuntimeClass",
    "kubernetes:node.k8s.io/v1:RuntimeClassPatch",
)
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"

NAMES = {
    VM: "VM",
    MAPPING: "PCI mapping",
    "proxmoxve:download/file:File": "boot image",
    IDENTITY: "cluster identity",
    "talos:imageFactory/schematic:Schematic": "image schematic",
    CONFIGURATION: "machine configuration",
    "talos:machine/bootstrap:Bootstrap": "bootstrap",
    "talos:cluster/kubeconfig:Kubeconfig": "kubeconfig",
    RELEASE: "Helm release",
    CLAIM: "volume",
}
LOSES = {
    VM: "its disks",
    IDENTITY: "every certificate of the cluster",
    CLAIM: "its data",
}
"""What a replacement or a deletion destroys."""


def name(kind: str) -> str:
    """A type in a word."""
    return NAMES.get(kind, kind.rpartition(":")[2].removesuffix("Patch"))
