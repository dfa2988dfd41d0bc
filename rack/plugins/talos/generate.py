"""A machine configuration from a cluster's secrets, as `talosctl gen config` makes it.

Facts: pkg/machinery/config/generate and config/contract.go of Talos 1.13.0, which the official
plugin is built with. What depends on the version contract is said where it is used; contracts
before 1.8 are unknown to the rack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from rack.plugins.contract import PluginError
from rack.plugins.talos.versions import LIBRARY, Contract

Document = dict[str, Any]

OLDEST: Final = Contract(1, 8)
MULTI_DOCUMENT_NETWORK: Final = Contract(1, 12)
"""From here on the hostname is a document of its own, and old switches are gone."""
MULTI_DOCUMENT_KUBESPAN: Final = Contract(1, 13)

INSTALL_DISK: Final = "/dev/sda"
INSTALL_IMAGE: Final = f"ghcr.io/siderolabs/installer:{LIBRARY}"
KUBELET_IMAGE: Final = "ghcr.io/siderolabs/kubelet"
CONTROL_PLANE_IMAGES: Final = "registry.k8s.io"
KUBEPRISM_PORT: Final = 7445
DNS_DOMAIN: Final = "cluster.local"
POD_SUBNET: Final = "10.244.0.0/16"
SERVICE_SUBNET: Final = "10.96.0.0/12"
NO_LOAD_BALANCER: Final = "node.kubernetes.io/exclude-from-external-load-balancers"

POD_SECURITY: Final[Document] = {
    "apiVersion": "pod-security.admission.config.k8s.io/v1alpha1",
    "kind": "PodSecurityConfiguration",
    "defaults": {
        "audit": "restricted",
        "audit-version": "latest",
        "enforce": "baseline",
        "enforce-version": "latest",
        "warn": "restricted",
        "warn-version": "latest",
    },
    "exemptions": {"namespaces": ["kube-system"], "runtimeClasses": [], "usernames": []},
}
AUDIT_POLICY: Final[Document] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [{"level": "Metadata"}],
}


@dataclass(frozen=True)
class Request:
    """What a machine configuration is made from."""

    cluster_name: str
    endpoint: str
    """URL of the Kubernetes API."""
    machine_type: str
    """`controlplane` or `worker`."""
    kubernetes_version: str
    """Without the leading v; empty to leave the images out."""
    contract: Contract
    secrets: Mapping[str, Any] = field(repr=False)
    """The official plugin's `machineSecrets`."""

    @property
    def is_control_plane(self) -> bool:
        """Control planes hold the authorities' keys, workers only certificates."""
        return self.machine_type == "controlplane"


def generate(request: Request) -> list[Document]:
    """Make the documents of one machine.

    Raises `PluginError`: the version contract is older than the rack knows.
    """
    if request.contract < OLDEST:
        raise PluginError(
            f"talosVersion: the simulated rack makes configurations from Talos "
            f"v{OLDEST.major}.{OLDEST.minor} on, not for "
            f"v{request.contract.major}.{request.contract.minor}; raise talosVersion"
        )
    main = {
        "version": "v1alpha1",
        "debug": False,
        "persist": True,
        "machine": _machine(request),
        "cluster": _control_plane(request) if request.is_control_plane else _worker(request),
    }
    if request.contract < MULTI_DOCUMENT_NETWORK:
        return [main]
    return [main, {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "stable"}]


def _machine(request: Request) -> Document:
    machine: Document = {
        "type": request.machine_type,
        "token": request.secrets["trustdinfo"]["token"],
        "ca": _authority(request, "os"),
        "certSANs": [],
        "kubelet": {
            **_image(KUBELET_IMAGE, request),
            "defaultRuntimeSeccompProfileEnabled": True,
            "disableManifestsDirectory": True,
        },
    }
    if request.contract < MULTI_DOCUMENT_KUBESPAN:
        machine["network"] = {}
    machine["install"] = _install(request)
    if request.contract < MULTI_DOCUMENT_NETWORK:
        machine["registries"] = {}
    machine["features"] = _features(request)
    if request.is_control_plane:
        machine["nodeLabels"] = {NO_LOAD_BALANCER: ""}
    return machine


def _install(request: Request) -> Document:
    install: Document = {"disk": INSTALL_DISK, "image": INSTALL_IMAGE, "wipe": False}
    if request.contract >= MULTI_DOCUMENT_NETWORK:
        install["grubUseUKICmdline"] = True
    return install


def _features(request: Request) -> Document:
    old: Document = {"rbac": True, "stableHostname": True, "apidCheckExtKeyUsage": True}
    return {
        **(old if request.contract < MULTI_DOCUMENT_NETWORK else {}),
        "diskQuotaSupport": True,
        "kubePrism": {"enabled": True, "port": KUBEPRISM_PORT},
        "hostDNS": {"enabled": True, "forwardKubeDNSToHost": True},
    }


def _worker(request: Request) -> Document:
    return {
        "id": request.secrets["cluster"]["id"],
        "secret": request.secrets["cluster"]["secret"],
        "controlPlane": {"endpoint": request.endpoint},
        "clusterName": request.cluster_name,
        "network": _network(),
        "token": request.secrets["secrets"]["bootstrapToken"],
        "ca": _authority(request, "k8s"),
        "discovery": _discovery(),
    }


def _control_plane(request: Request) -> Document:
    certs = request.secrets["certs"]
    return {
        "id": request.secrets["cluster"]["id"],
        "secret": request.secrets["cluster"]["secret"],
        "controlPlane": {"endpoint": request.endpoint},
        "clusterName": request.cluster_name,
        "network": _network(),
        "token": request.secrets["secrets"]["bootstrapToken"],
        "secretboxEncryptionSecret": request.secrets["secrets"]["secretboxEncryptionSecret"],
        "ca": _authority(request, "k8s"),
        "aggregatorCA": _authority(request, "k8sAggregator"),
        "serviceAccount": {"key": certs["k8sServiceaccount"]["key"]},
        "apiServer": _api_server(request),
        "controllerManager": _component("kube-controller-manager", request),
        "proxy": _component("kube-proxy", request),
        "scheduler": _component("kube-scheduler", request),
        "discovery": _discovery(),
        "etcd": {"ca": _authority(request, "etcd")},
        "extraManifests": [],
        "inlineManifests": [],
    }


def _api_server(request: Request) -> Document:
    server = _component("kube-apiserver", request)
    if request.contract < MULTI_DOCUMENT_NETWORK:
        server["certSANs"] = [urlsplit(request.endpoint).hostname]
        server["disablePodSecurityPolicy"] = True
    server["admissionControl"] = [{"name": "PodSecurity", "configuration": POD_SECURITY}]
    server["auditPolicy"] = AUDIT_POLICY
    return server


def _authority(request: Request, name: str) -> Document:
    pair = request.secrets["certs"][name]
    return {"crt": pair["cert"], "key": pair["key"] if request.is_control_plane else ""}


def _component(name: str, request: Request) -> Document:
    return _image(f"{CONTROL_PLANE_IMAGES}/{name}", request)


def _image(repository: str, request: Request) -> Document:
    version = request.kubernetes_version
    return {"image": f"{repository}:v{version}"} if version else {}


def _network() -> Document:
    return {
        "dnsDomain": DNS_DOMAIN,
        "podSubnets": [POD_SUBNET],
        "serviceSubnets": [SERVICE_SUBNET],
    }


def _discovery() -> Document:
    return {
        "enabled": True,
        "registries": {"kubernetes": {"disabled": True}, "service": {}},
    }
