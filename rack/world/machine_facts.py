"""What a running Talos machine is to the layers above it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from rack.world.factory import ImageContent
from rack.world.guest_gpus import GuestGpu, driver_facts, toolkit_facts
from rack.world.machine_config import MachineConfig
from rack.world.node_names import (
    CONTROL_PLANE,
    OWNED_ANNOTATIONS,
    OWNED_LABELS,
    OWNED_TAINTS,
    is_label_value,
    split_taint,
)
from rack.world.nodefacts import ClusterFacts, NodeFacts
from rack.world.vm import VmHardware

_EXTENSION_KEY: Final = "extensions.talos.dev/"


@dataclass(frozen=True)
class Running:
    """A machine that has its configuration and runs."""

    image: ImageContent
    config: MachineConfig
    hardware: VmHardware
    gpus: list[GuestGpu]
    kernel_modules: frozenset[str]
    """Declared since boot: Talos loads at once what is added and unloads nothing."""
    hostname: str
    address: str
    boot_id: str


def node_facts(running: Running) -> NodeFacts:
    """The node that the machine is."""
    image, release, config = running.image, running.image.release, running.config
    toolkit = toolkit_facts(image)
    labels, annotations, taints = _labels(running), _annotations(running), _taints(config)
    version = config.image_version("machine", "kubelet", "image") or release.kubernetes_default
    return NodeFacts(
        name=running.hostname,
        address=running.address,
        role=config.role or "worker",
        vm_id=running.hardware.vmid,
        boot_id=running.boot_id,
        talos_version=release.talos,
        kubernetes_version=f"v{version}",
        kernel_version=release.kernel,
        container_runtime=f"containerd://{release.containerd}",
        cpus=running.hardware.cpus,
        memory_mib=running.hardware.memory_mib,
        labels=labels,
        annotations={**annotations, **_owned(labels, annotations, taints)},
        taints=tuple(taints),
        runtime_handlers=frozenset({"runc", *(["nvidia"] if toolkit else [])}),
        cdi_enabled=release.has_standard_nvidia_paths,
        host_nvidia_smi=release.has_standard_nvidia_paths and toolkit is not None,
        gpus=tuple(facts for gpu in running.gpus if (facts := gpu.facts) is not None),
        driver=driver_facts(image, running.kernel_modules, running.gpus),
        toolkit=toolkit,
    )


def cluster_facts(
    config: MachineConfig, image: ImageContent, vmid: int, address: str, etcd: str
) -> ClusterFacts:
    """The cluster that a control plane's configuration describes.

    Args:
        config: configuration of the bootstrapped machine.
        image: its operating system.
        vmid: its VM.
        address: its IPv4 address.
        etcd: identity of the data in its etcd.
    """
    version = config.image_version("cluster", "apiServer", "image")
    return ClusterFacts(
        name=config.cluster_name,
        endpoint=config.endpoint,
        kubernetes_version=f"v{version or image.release.kubernetes_default}",
        vm_id=vmid,
        address=address,
        incarnation=etcd,
        kubernetes_ca=config.pem("cluster", "ca", "crt"),
        kubernetes_ca_key=config.pem("cluster", "ca", "key"),
        aggregator_ca=config.pem("cluster", "aggregatorCA", "crt"),
        aggregator_ca_key=config.pem("cluster", "aggregatorCA", "key"),
        etcd_ca=config.pem("cluster", "etcd", "ca", "crt"),
        etcd_ca_key=config.pem("cluster", "etcd", "ca", "key"),
        service_account_key=config.pem("cluster", "serviceAccount", "key"),
        pod_subnets=config.pod_subnets,
        service_subnets=config.service_subnets,
        pod_security_default=config.pod_security_default,
    )


def _extension_versions(image: ImageContent) -> dict[str, str]:
    """Versions by the key that Talos puts on the node for each extension of the image."""
    found = {extension.name: extension.version for extension in image.extensions}
    if any(extension.has_kernel_modules for extension in image.extensions):
        found["modules.dep"] = image.release.kernel
    found["schematic"] = image.schematic_id
    return {f"{_EXTENSION_KEY}{name}": version for name, version in found.items()}


def _labels(running: Running) -> dict[str, str]:
    config = running.config
    role = {CONTROL_PLANE: ""} if config.role == "controlplane" else {}
    versions = _extension_versions(running.image).items()
    fitting = {key: version for key, version in versions if is_label_value(version)}
    return {**_texts(config.at("machine", "nodeLabels")), **role, **fitting}


def _annotations(running: Running) -> dict[str, str]:
    versions = _extension_versions(running.image).items()
    others = {key: version for key, version in versions if not is_label_value(version)}
    return {**_texts(running.config.at("machine", "nodeAnnotations")), **others}


def _taints(config: MachineConfig) -> list[dict[str, str]]:
    found = []
    scheduled = config.at("cluster", "allowSchedulingOnControlPlanes")
    if scheduled is None:
        scheduled = config.at("cluster", "allowSchedulingOnMasters")
    if config.role == "controlplane" and not scheduled:
        found.append({"key": CONTROL_PLANE, "value": "", "effect": "NoSchedule"})
    for key, text in _texts(config.at("machine", "nodeTaints")).items():
        value, effect = split_taint(text)
        found.append({"key": key, "value": value, "effect": effect})
    return found


def _owned(
    labels: Iterable[str], annotations: Iterable[str], taints: list[dict[str, str]]
) -> dict[str, str]:
    """What Talos set itself, so that it can take it away again."""
    lists = {
        OWNED_LABELS: sorted(labels),
        OWNED_ANNOTATIONS: sorted(annotations),
        OWNED_TAINTS: sorted(taint["key"] for taint in taints),
    }
    return {key: json.dumps(names, separators=(",", ":")) for key, names in lists.items() if names}


def _texts(values: dict[str, Any] | None) -> dict[str, str]:
    return {str(key): str("" if v is None else v) for key, v in (values or {}).items()}
