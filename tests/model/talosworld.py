"""A small Talos world for the model's tests: images, hardware, configurations."""

from __future__ import annotations

import base64
import copy
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.compat import StringIO

from rack.world.factory import ImageContent, accept, image
from rack.world.machine import Machine, Nocloud, NocloudInterface
from rack.world.pci import PciFunction
from rack.world.vm import VmHardware

NOW = 1_800_000_000.0
MAC = "BC:24:11:00:00:01"
NONFREE_LTS = (
    "siderolabs/nonfree-kmod-nvidia-lts",
    "siderolabs/nvidia-container-toolkit-lts",
)
MODULES = ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset")


def b64(text: str) -> str:
    """Any text in the form that certificates and keys have in a configuration."""
    return base64.b64encode(text.encode()).decode()


def schematic_text(*extensions: str) -> str:
    listed = "".join(f"\n            - {name}" for name in extensions)
    extension_part = f"\n    systemExtensions:\n        officialExtensions:{listed}"
    return f"customization:{extension_part if extensions else ' {}'}\n"


def talos_image(
    *extensions: str, version: str = "v1.13.9", file: str = "nocloud-amd64.qcow2"
) -> ImageContent:
    schematic = accept(schematic_text(*extensions))
    return image({schematic.id: schematic}, f"/image/{schematic.id}/{version}/{file}")


def gpu(slot: str = "0000:01:00", device: str = "2204", group: int = 14) -> PciFunction:
    return PciFunction(
        address=f"{slot}.0",
        device_class="0x030000",
        vendor="0x10de",
        device=f"0x{device}",
        subsystem_vendor="0x10de",
        subsystem_device="0x1467",
        iommu_group=group,
    )


def hardware(**changed: Any) -> VmHardware:
    given: dict[str, Any] = {
        "vmid": 111,
        "name": "k8s-worker-1",
        "cpus": 4,
        "memory_mib": 16384,
        "bios": "ovmf",
        "machine": "q35",
        "cpu_type": "host",
        "mac_addresses": (MAC,),
    }
    return VmHardware(**{**given, **changed})


def nocloud(address: str = "127.0.0.2/24", **changed: Any) -> Nocloud:
    given: dict[str, Any] = {
        "hostname": "k8s-worker-1",
        "interfaces": (NocloudInterface(mac_address=MAC, address=address),),
    }
    return Nocloud(**{**given, **changed})


def booted(
    content: ImageContent | None = None,
    functions: tuple[PciFunction, ...] = (),
    *,
    latency: str = "instant",
    **changed: Any,
) -> Machine:
    """A machine that was just switched on."""
    machine = Machine.model_validate({"latency": latency})
    machine.power_on(content or talos_image(), nocloud(), functions, hardware(**changed), NOW)
    return machine


def stage(machine: Machine) -> str:
    """The machine's stage, as it is now."""
    return machine.stage


def documents(role: str = "worker") -> list[dict[str, Any]]:
    """A configuration as Talos generates it for 1.13, with readable secrets."""
    control_plane = role == "controlplane"
    cluster: dict[str, Any] = {
        "controlPlane": {"endpoint": "https://127.0.0.1:6443"},
        "clusterName": "rack",
        "network": {"podSubnets": ["10.244.0.0/16"], "serviceSubnets": ["10.96.0.0/12"]},
        "token": "abcdef.0123456789abcdef",
        "ca": {"crt": b64("kubernetes ca"), "key": b64("kubernetes key") if control_plane else ""},
    }
    if control_plane:
        cluster |= {
            "aggregatorCA": {"crt": b64("aggregator ca"), "key": b64("aggregator key")},
            "serviceAccount": {"key": b64("account key")},
            "apiServer": {"image": "registry.k8s.io/kube-apiserver:v1.34.4"},
            "etcd": {"ca": {"crt": b64("etcd ca"), "key": b64("etcd key")}},
        }
    main = {
        "version": "v1alpha1",
        "machine": {
            "type": role,
            "token": "trustd.token",
            "ca": {"crt": b64("talos ca"), "key": b64("talos key") if control_plane else ""},
            "kubelet": {"image": "ghcr.io/siderolabs/kubelet:v1.34.4"},
            "install": {"image": "factory/installer"},
        },
        "cluster": cluster,
    }
    return [main, {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "stable"}]


def changed(found: list[dict[str, Any]], path: str, value: Any) -> list[dict[str, Any]]:
    """The documents with one value of the main one set, at a path such as machine.type."""
    copied = copy.deepcopy(found)
    *parents, last = path.split(".")
    node = copied[0]
    for key in parents:
        node = node.setdefault(key, {})
    node[last] = value
    return copied


def text(found: list[dict[str, Any]]) -> str:
    out = StringIO()
    YAML(typ="safe", pure=True).dump_all(found, out)
    return out.getvalue()


def with_modules(*names: str, role: str = "worker") -> str:
    modules = [{"name": name} for name in names]
    return text(changed(documents(role), "machine.kernel.modules", modules))
