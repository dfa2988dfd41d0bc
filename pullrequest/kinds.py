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
    MAPPING: "PCI mapping",
    "talos:imageFactory/schematic:Schematic": "image schematic",
    "proxmoxve:download/file:File": "boot image",
    VM: "VM",
    IDENTITY: "cluster identity",
    CONFIGURATION: "machine configuration",
    "talos:machine/bootstrap:Bootstrap": "bootstrap",
    "talos:cluster/kubeconfig:Kubeconfig": "kubeconfig",
    RELEASE: "Helm release",
    **dict.fromkeys(RUNTIME_CLASSES, "RuntimeClass"),
    "kubernetes:core/v1:Namespace": "namespace",
    CLAIM: "volume",
    DEPLOYMENT: "Deployment",
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


def place(kind: str) -> int:
    """Where a type stands in the chain from the host to the pod, for lists."""
    order = list(NAMES)
    return order.index(kind) if kind in NAMES else len(order)
