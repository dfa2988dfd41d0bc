"""What a machine configuration must say: Talos' own validation, with its messages.

Only the rules that a configuration can break without breaking its form; the form is checked when
it is loaded. A nocloud disk image is installed already, so `machine.install` needs no disk.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from rack.world.machine_config import Document, InvalidConfiguration, MachineConfig
from rack.world.machine_config_structure import MAIN, kinds, missing
from rack.world.node_names import annotations_problems, labels_problems, taints_problems
from rack.world.releases import Release

Rule = Callable[[MachineConfig], Iterator[str]]

_CNI: Final = ("flannel", "custom", "none")
_PROTECTED_KUBELET_FIELDS: Final = (
    *("apiVersion", "authentication", "authorization", "cgroupRoot", "kind", "kubeletCgroups"),
    *("port", "protectKernelDefaults", "resolvConf", "rotateCertificates", "systemCgroups"),
    *("staticPodPath", "seccompDefault"),
)
_CONTROL_PLANE_IMAGES: Final = {
    "kube-apiserver": "apiServer",
    "kube-controller-manager": "controllerManager",
    "kube-scheduler": "scheduler",
}
_VERSION_TAG: Final = re.compile(r"\d+\.\d+\.\d+(?:-(?:alpha|beta|rc)\.\d+)?")


def validate(config: MachineConfig, release: Release) -> None:
    """Check a configuration for a running machine of a Talos release.

    Raises:
        InvalidConfiguration: everything that is wrong with it, in Talos' words.
    """
    problems: list[str] = []
    if config.main and (main := list(_main_problems(config))):
        problems.append(f"v1alpha1.Config: {several(main)}")
    for kind, document in config.documents:
        problems += _document_problems(kind, document)
    problems += _conflicts(config)
    if problems:
        raise InvalidConfiguration(several(problems))
    if images := list(_image_problems(config, release)):
        raise InvalidConfiguration(several([f"v1alpha1.Config: {several(images)}"]))


def several(problems: list[str]) -> str:
    """Join problems as Talos' Go library does."""
    noun = "1 error" if len(problems) == 1 else f"{len(problems)} errors"
    return f"{noun} occurred:\n" + "".join(f"\t* {problem}\n" for problem in problems) + "\n"


def _main_problems(config: MachineConfig) -> Iterator[str]:
    if config.at("machine") is None:
        yield "machine instructions are required"
        return
    for rule in _RULES:
        yield from rule(config)


def _cluster(config: MachineConfig) -> Iterator[str]:
    if config.at("cluster") is None:
        yield "cluster instructions are required"
    elif not config.endpoint:
        yield "cluster controlplane endpoint is required"
    else:
        url = urlsplit(config.endpoint)
        if url.scheme not in ("http", "https") or not url.hostname:
            yield f"invalid controlplane endpoint: url {config.endpoint!r} has no scheme or host"


def _authorities(config: MachineConfig) -> Iterator[str]:
    authority, key = config.at("machine", "ca") or {}, config.at("machine", "ca", "key")
    if not authority and not config.at("machine", "acceptedCAs"):
        yield "issuing CA or some accepted CAs are required (.machine.ca, machine.acceptedCAs)"
    if config.role == "controlplane":
        if not authority:
            yield "issuing CA is required (.machine.ca)"
        elif not key:
            yield "issuing CA key is required for controlplane nodes (.machine.ca.key)"
    elif config.role == "worker":
        if key:
            yield "issuing Talos API CA key is not allowed on non-controlplane nodes (.machine.ca)"
        if authority and not authority.get("crt") and not config.at("machine", "acceptedCAs"):
            yield (
                "trusted CA certificates are required on non-controlplane nodes"
                " (.machine.ca.crt, .machine.acceptedCAs)"
            )
        if config.at("cluster", "ca", "key"):
            yield "cluster CA key is not allowed on non-controlplane nodes (.cluster.ca)"


def _machine_type(config: MachineConfig) -> Iterator[str]:
    if config.role is None:
        yield f'unknown machine type "{config.machine_type}"'


def _etcd(config: MachineConfig) -> Iterator[str]:
    etcd = config.at("cluster", "etcd")
    if etcd is None:
        return
    if config.role != "controlplane":
        yield "etcd config is only allowed on control plane machines"
    elif not etcd.get("ca"):
        yield "key/cert combination should not be empty"


def _network(config: MachineConfig) -> Iterator[str]:
    name = config.at("cluster", "network", "cni", "name")
    if config.role == "controlplane" and name is not None and name not in _CNI:
        yield 'cni name should be one of ["flannel", "custom", "none"]'
    devices: list[Document] = config.at("machine", "network", "interfaces") or []
    if config.role == "worker" and any(device.get("vip") for device in devices):
        yield "virtual (shared) IP is not allowed on non-controlplane nodes"


def _features(config: MachineConfig) -> Iterator[str]:
    dns: Document = config.at("machine", "features", "hostDNS") or {}
    if dns.get("forwardKubeDNSToHost") and not dns.get("enabled"):
        yield (
            "feature hostDNS.forwardKubeDNSToHost requires hostDNS.enabled to be true"
            " (.machine.features.hostDNS)"
        )
    access = config.at("machine", "features", "kubernetesTalosAPIAccess", "enabled")
    if access and config.role != "controlplane":
        yield "feature Kubernetes Talos API Access can only be enabled on control plane machines"


def _kubelet(config: MachineConfig) -> Iterator[str]:
    extra: Document = config.at("machine", "kubelet", "extraConfig") or {}
    for field in _PROTECTED_KUBELET_FIELDS:
        if field in extra:
            yield f'kubelet configuration field "{field}" can\'t be overridden'


def _node_metadata(config: MachineConfig) -> Iterator[str]:
    checks: tuple[tuple[str, str, Callable[[dict[str, Any]], list[str]]], ...] = (
        ("labels", "nodeLabels", labels_problems),
        ("annotations", "nodeAnnotations", annotations_problems),
        ("taints", "nodeTaints", taints_problems),
    )
    for what, key, check in checks:
        if problems := check(config.at("machine", key) or {}):
            yield f"invalid machine node {what}: {several(problems)}"


def _persistence(config: MachineConfig) -> Iterator[str]:
    if config.at("persist") is False:
        yield ".persist should be enabled"


_RULES: Final[tuple[Rule, ...]] = (
    _cluster,
    _etcd,
    _features,
    _authorities,
    _machine_type,
    _network,
    _kubelet,
    _node_metadata,
    _persistence,
)


def _document_problems(kind: str, document: Document) -> list[str]:
    if kind == MAIN:
        return []
    label = f"{kind}/{document['name']}" if document.get("name") else kind
    absent = [f"{key} is required" for key in missing(document, kinds()[kind].fields)]
    said = list(_hostname(document)) if kind == "HostnameConfig" else []
    return [f"{label}: {problem}" for problem in [*absent, *said]]


def _hostname(document: Document) -> Iterator[str]:
    auto, hostname = document.get("auto"), str(document.get("hostname") or "")
    if auto is None and not hostname:
        yield "either 'auto' or 'hostname' must be set"
    if auto not in (None, "off") and hostname:
        yield "'auto' and 'hostname' cannot be set at the same time"
    first = hostname.partition(".")[0]
    if hostname and not 0 < len(first) <= 63:
        yield f'invalid hostname "{first}"'


def _conflicts(config: MachineConfig) -> Iterator[str]:
    """Documents that say what the main document says already."""
    if not config.main:
        return
    if config.of_kind("HostnameConfig"):
        if config.at("machine", "network", "hostname"):
            yield "static hostname is already set in v1alpha1 config"
        elif config.at("machine", "features", "stableHostname"):
            yield "stable hostname is already set in v1alpha1 config"
    if config.of_kind("KubeSpanConfig") and config.at("machine", "network", "kubespan"):
        yield "kubespan is already configured in v1alpha1 config"


def _image_problems(config: MachineConfig, release: Release) -> Iterator[str]:
    images = {"kubelet": config.at("machine", "kubelet", "image")}
    if config.role == "controlplane":
        for name, key in _CONTROL_PLANE_IMAGES.items():
            images[name] = config.at("cluster", key, "image")
    for name, image in images.items():
        if image and (problem := _image_problem(str(image), release)):
            yield f"{name} image is not valid: {problem}"


def _image_problem(image: str, release: Release) -> str:
    _, found, tag = image.rpartition(":v")
    version = tag.partition("@")[0]
    if not found or not _VERSION_TAG.fullmatch(version):
        return (
            f'failed to parse Kubernetes version from image reference "{image}": '
            f'invalid image reference: "{image}"'
        )
    return release.kubernetes_problem(version)
