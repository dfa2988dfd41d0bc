"""What to tell people who wrote something that the configuration does not take, as data."""

from __future__ import annotations

ALWAYS_Q35 = "Every VM is q35 with OVMF: PCIe passthrough fails at the start of an i440FX VM."
NO_BALLOON = (
    "Floating memory is always 0: a passed-through device reads and writes all of the VM's"
    " memory, so none of it can be taken back."
)
ONE_IMAGE = (
    "Boot image and installer come from one schematic on the nocloud platform, so that the"
    " extensions survive an upgrade; cluster.extensions and cluster.imageFactory choose it."
)
STATIC_ADDRESS = (
    "The node's address is set by nocloud network data from `address`: the machine configuration"
    " is delivered to that address, so it cannot be the first to set it."
)

UNKNOWN_KEYS = {
    "machine": ALWAYS_Q35,
    "machineType": ALWAYS_Q35,
    "bios": ALWAYS_Q35,
    "balloon": NO_BALLOON,
    "ballooning": NO_BALLOON,
    "floating": NO_BALLOON,
    "floatingMib": NO_BALLOON,
    "hostPath": "A hostPath volume is refused where pod security is baseline, as on Talos; give"
    " storageClass and size instead.",
    "hostname": "The node's name is its key under nodes; Talos 1.12 and later take it from a"
    " HostnameConfig document, which the program writes.",
    "schematic": ONE_IMAGE,
    "installerImage": ONE_IMAGE,
    "platform": ONE_IMAGE,
    "contentType": "The boot image is an uncompressed nocloud disk image of content type import.",
    "interfaces": STATIC_ADDRESS,
    "networkConfig": STATIC_ADDRESS,
    "function": "Give the path without a function, so that every function of the card is passed.",
    "pcie": ALWAYS_Q35,
    "xvga": "The card computes; it is never the VM's console.",
}
"""Keys that people know from elsewhere, and why there is no such key here."""

MISSING_KEYS = {
    "iommuGroup": "Proxmox compares it at every start of the VM, and only there a wrong mapping"
    " would be noticed. `python -m gpu_passthrough devices` prints it from the live device.",
    "subsystemId": "Proxmox compares it at every start of the VM, and only there a wrong mapping"
    " would be noticed. `python -m gpu_passthrough devices` prints it from the live device.",
    "storageClass": "Talos has no default StorageClass, so a claim that names none stays Pending"
    " forever. `kubectl get storageclass` lists those that exist.",
    "vmId": "A fixed id lets a VM that was created half be found again instead of made twice.",
    "dns": "Without any, Proxmox hands out the host's own resolvers.",
    "kubeconfig": "It is a secret; `pulumi config set --secret --path"
    " gpu-passthrough:kubernetes.kubeconfig < KUBECONFIG` sets it.",
    **{
        key: "It is a secret from the talosconfig of the cluster; `pulumi config set --secret"
        f" --path gpu-passthrough:talos.{key}` sets it."
        for key in ("caCertificate", "clientCertificate", "clientKey")
    },
}
"""Why a key that is left out is needed."""

PATTERNS = {
    r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}$": "domain:bus:device in lower case without the"
    " function, for example 0000:01:00: every function of the card is passed together",
    r"^[0-9a-f]{4}:[0-9a-f]{4}$": "vendor:device in lower case, for example 10de:2204",
    r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$": "a DNS label: at most 63 lower-case letters, digits"
    " and dashes, for example k8s-worker-1",
    r"^[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$": "the name of a host, for example pve",
    r"^[A-Za-z][-A-Za-z0-9_.]{0,98}[A-Za-z0-9]$": "the name of a Proxmox storage, for example"
    " local-lvm",
    r"^[A-Za-z][-A-Za-z0-9_.]{0,14}$": "the name of a network bridge, for example vmbr0",
    r"^\d{1,3}(\.\d{1,3}){3}$": "an IPv4 address, for example 192.168.20.21",
    r"^https://": "an https URL, for example https://192.168.20.10:8006",
    r"^\d{3}\.\d{2,3}(\.\d{2})?$": "a driver version, for example 580.178.04",
    r"^\d{1,2}\.\d{1,2}$": "a CUDA version in quotes, for example '12.8'",
    r"^/[^:]*$": "an absolute path in the container, for example /cache",
    r"^[1-9]\d{0,8}(Mi|Gi|Ti)$": "a size with its unit, for example 10Gi",
    r"^v\d{1,3}\.\d{1,3}\.\d{1,3}$": "a full version with its v, for example v1.34.4",
    r"^v\d{1,3}\.\d{1,3}\.\d{1,3}(-[a-z]+\.\d{1,3})?$": "a full version with its v, for example"
    " v1.13.9",
}
"""What a pattern asks for, in words."""
