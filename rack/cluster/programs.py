"""How each program of the control plane is started: its arguments, one table each."""

from __future__ import annotations

import json
from typing import Final

from rack.cluster.pki import Pki
from rack.files import write_private
from rack.settings import LOOPBACK, Settings
from rack.world.nodefacts import ClusterFacts

PROGRAMS: Final = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
)
"""In the order of their start."""
MEMORY: Final = {"GOGC": "60"}
"""The rack's cluster is small: a little more work for Go's garbage collector, less memory."""

Arguments = dict[str, str]


def command(program: str, settings: Settings, facts: ClusterFacts, pki: Pki) -> list[str]:
    """The command line of one program."""
    arguments = _TABLES[program](settings, facts, pki)
    return [program, *(f"--{name}={value}" for name, value in arguments.items())]


def etcd_home(settings: Settings, incarnation: str) -> str:
    """Folder of one etcd's data: what lies on the disk of the control plane's VM."""
    return str(settings.kubernetes_home / "etcd" / incarnation)


def _etcd(settings: Settings, facts: ClusterFacts, pki: Pki) -> Arguments:
    client = f"https://{LOOPBACK}:{settings.ports.etcd_client}"
    peer = f"https://{LOOPBACK}:{settings.ports.etcd_peer}"
    return {
        "name": "rack",
        "data-dir": etcd_home(settings, facts.incarnation),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"rack={peer}",
        "client-cert-auth": "true",
        "peer-client-cert-auth": "true",
        **{
            f"{prefix}{name}": pki.file(file)
            for prefix in ("", "peer-")
            for name, file in (
                ("trusted-ca-file", "etcd-ca.crt"),
                ("cert-file", "etcd.crt"),
                ("key-file", "etcd.key"),
            )
        },
        "unsafe-no-fsync": "true",  # a power cut may cost the simulation
        "log-level": "warn",
    }


def _apiserver(settings: Settings, facts: ClusterFacts, pki: Pki) -> Arguments:
    ports = settings.ports
    return {
        "bind-address": LOOPBACK,
        "secure-port": str(ports.kube_apiserver),
        "advertise-address": facts.address,
        "endpoint-reconciler-type": "none",  # pods of the rack do not reach the node's network
        "etcd-servers": f"https://{LOOPBACK}:{ports.etcd_client}",
        "etcd-cafile": pki.file("etcd-ca.crt"),
        "etcd-certfile": pki.file("etcd-client.crt"),
        "etcd-keyfile": pki.file("etcd-client.key"),
        "client-ca-file": pki.file("kubernetes-ca.crt"),
        "tls-cert-file": pki.file("apiserver.crt"),
        "tls-private-key-file": pki.file("apiserver.key"),
        "kubelet-certificate-authority": pki.file("kubernetes-ca.crt"),
        "kubelet-client-certificate": pki.file("apiserver-kubelet-client.crt"),
        "kubelet-client-key": pki.file("apiserver-kubelet-client.key"),
        # Nodes have addresses that nothing listens on; their kubelets are on this machine.
        "kubelet-preferred-address-types": "ExternalIP",
        "requestheader-client-ca-file": pki.file("aggregator-ca.crt"),
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-username-headers": "X-Remote-User",
        "proxy-client-cert-file": pki.file("front-proxy-client.crt"),
        "proxy-client-key-file": pki.file("front-proxy-client.key"),
        "service-account-issuer": facts.endpoint,
        "service-account-key-file": pki.file("service-account.key"),
        "service-account-signing-key-file": pki.file("service-account.key"),
        "service-cluster-ip-range": ",".join(facts.service_subnets),
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "admission-control-config-file": _admission(settings, facts),
        "allow-privileged": "true",
        "anonymous-auth": "false",
        "profiling": "false",
    }


def _admission(settings: Settings, facts: ClusterFacts) -> str:
    """Pod security as Talos configures it: a default level outside kube-system."""
    level = {"enforce": facts.pod_security_default, "audit": "restricted", "warn": "restricted"}
    defaults = level | {f"{mode}-version": "latest" for mode in level}
    security = {
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "defaults": defaults,
        "exemptions": {"namespaces": ["kube-system"], "runtimeClasses": [], "usernames": []},
    }
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "PodSecurity", "configuration": security}],
    }
    file = settings.kubernetes_home / "admission.json"
    write_private(file, json.dumps(document))
    return str(file)


def _controller_manager(settings: Settings, facts: ClusterFacts, pki: Pki) -> Arguments:
    kubeconfig = pki.file("controller-manager.kubeconfig")
    return {
        "bind-address": LOOPBACK,
        "secure-port": str(settings.ports.controller_manager),
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "leader-elect": "false",
        "use-service-account-credentials": "true",
        "root-ca-file": pki.file("kubernetes-ca.crt"),
        "service-account-private-key-file": pki.file("service-account.key"),
        "cluster-signing-cert-file": pki.file("kubernetes-ca.crt"),
        "cluster-signing-key-file": pki.file("kubernetes-ca.key"),
        "allocate-node-cidrs": "true",
        "cluster-cidr": ",".join(facts.pod_subnets),
        "service-cluster-ip-range": ",".join(facts.service_subnets),
        "profiling": "false",
    }


def _scheduler(settings: Settings, facts: ClusterFacts, pki: Pki) -> Arguments:
    kubeconfig = pki.file("scheduler.kubeconfig")
    return {
        "bind-address": LOOPBACK,
        "secure-port": str(settings.ports.scheduler),
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "leader-elect": "false",
        "profiling": "false",
    }


_TABLES: Final = {
    "etcd": _etcd,
    "kube-apiserver": _apiserver,
    "kube-controller-manager": _controller_manager,
    "kube-scheduler": _scheduler,
}
