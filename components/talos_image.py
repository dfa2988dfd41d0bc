"""Layer 2, before the machine exists: what a node boots from, made by the image factory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import pulumi
from pulumi_proxmoxve import download
from pulumiverse_talos import imagefactory

from gpu_passthrough.config import Cluster, Extensions, Stack

KERNEL_MODULES = {
    "nonfree": "nonfree-kmod-nvidia",
    "open": "nvidia-open-gpu-kernel-modules",
}


def nvidia_extensions(wanted: Extensions) -> tuple[str, ...]:
    """Name the extensions of a GPU node: kernel module and toolkit, always in this order.

    The factory's schematic id depends on the order, and both must be of one channel, because the
    toolkit's libraries belong to exactly one driver.
    """
    return (
        f"siderolabs/{KERNEL_MODULES[wanted.kernel_modules]}-{wanted.channel}",
        f"siderolabs/nvidia-container-toolkit-{wanted.channel}",
    )


@dataclass(frozen=True, kw_only=True)
class TalosImageArgs:
    """What is baked into the image, and which hosts need it as a file."""

    factory: str
    """URL of the image factory."""
    talos_version: str
    """Talos release, for example v1.13.9."""
    extensions: Sequence[str] = ()
    """Official extensions in the factory's spelling; the order is part of the image's identity."""
    hosts: Sequence[str] = ()
    """Proxmox hosts that get the boot image; none where the machines boot it already."""
    datastore: str = "local"
    """Datastore of the file; it must allow the content type import."""
    timeout_s: int = 1800
    """Longest download, in seconds."""


class TalosImage(pulumi.ComponentResource):
    """One schematic: the boot image on every host that needs it, and the installer's name.

    Boot image and installer come from the same schematic. With two, the first upgrade would
    install a system without the extensions that the node was booted with.
    """

    schematic_id: pulumi.Output[str]
    installer: pulumi.Output[str]
    """Reference of the container image that a Talos upgrade installs."""

    def __init__(
        self, name: str, args: TalosImageArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-passthrough:index:TalosImage", name, None, opts)
        schematic = imagefactory.Schematic(
            f"{name}-schematic",
            schematic=json.dumps(customization(args.extensions)),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.schematic_id = schematic.id
        registry = urlsplit(args.factory).netloc
        self.installer = pulumi.Output.format(
            "{0}/nocloud-installer/{1}:{2}", registry, schematic.id, args.talos_version
        )
        self._files = {host: self._file(name, host, args) for host in args.hosts}
        self.register_outputs({"schematicId": self.schematic_id, "installer": self.installer})

    def file_id(self, host: str) -> pulumi.Output[str]:
        """Identify the boot image on a host, as a VM's disk imports it."""
        return self._files[host].id

    def _file(self, name: str, host: str, args: TalosImageArgs) -> download.File:
        """Download the image as qcow2: Proxmox imports it as it is, and cannot unpack .xz."""
        url = "{0}/image/{1}/{2}/nocloud-amd64.qcow2"
        return download.File(
            f"{name}-on-{host}",
            node_name=host,
            datastore_id=args.datastore,
            content_type="import",
            url=pulumi.Output.format(url, args.factory, self.schematic_id, args.talos_version),
            file_name=pulumi.Output.format(
                "talos-{0}-{1}.qcow2", args.talos_version, self.schematic_id
            ),
            # The name says the content, so a file of that name is the same image: an interrupted
            # download is made good, and a factory that packs anew changes nothing.
            overwrite=False,
            overwrite_unmanaged=True,
            upload_timeout=args.timeout_s,
            opts=pulumi.ResourceOptions(
                parent=self,
                custom_timeouts=pulumi.CustomTimeouts(create=f"{args.timeout_s}s"),
            ),
        )


def customization(extensions: Sequence[str]) -> dict[str, object]:
    """Write the factory's schematic for a list of official extensions."""
    if not extensions:
        return {"customization": {}}
    return {"customization": {"systemExtensions": {"officialExtensions": list(extensions)}}}


def boot_images(
    stack: Stack, cluster: Cluster, opts: pulumi.ResourceOptions
) -> dict[bool, TalosImage]:
    """Make the image of machines with GPUs (True), and that of machines without (False).

    A machine without a GPU never gets the extensions: its driver would find no card, and the
    machine would restart again and again.
    """
    return {
        gpus: TalosImage(
            "talos-nvidia" if gpus else "talos",
            TalosImageArgs(
                factory=cluster.image_factory,
                talos_version=cluster.talos_version,
                extensions=nvidia_extensions(cluster.extensions) if gpus else (),
                hosts=sorted({n.host for n in stack.nodes.values() if bool(n.gpus) == gpus}),
                datastore=stack.proxmox.image_datastore if stack.proxmox else "",
                timeout_s=stack.timeouts.vm_create,
            ),
            opts,
        )
        for gpus in sorted({bool(machine.gpus) for machine in stack.members.values()})
    }
