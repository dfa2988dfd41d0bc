"""Certificates and kubeconfigs of the control plane, made from the cluster's own authorities."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from rack.authority import Authority
from rack.files import private_folder, write_private
from rack.kubeconfig import kubeconfig
from rack.settings import LOOPBACK, Settings
from rack.world.nodefacts import ClusterFacts

AuthorityName = Literal["kubernetes", "aggregator", "etcd"]


@dataclass(frozen=True)
class Subject:
    """Whom a certificate is for."""

    authority: AuthorityName
    common_name: str
    organization: str = ""
    is_server: bool = False


SUBJECTS: Final = {
    "etcd": Subject("etcd", "etcd", is_server=True),
    "etcd-client": Subject("etcd", "kube-apiserver-etcd-client"),
    "apiserver": Subject("kubernetes", "kube-apiserver", is_server=True),
    "apiserver-kubelet-client": Subject("kubernetes", "apiserver-kubelet-client", "system:masters"),
    "front-proxy-client": Subject("aggregator", "front-proxy-client"),
    "kubelet": Subject("kubernetes", "system:nodes", is_server=True),
}
"""Certificates, by the name of their files."""

USERS: Final = {
    "controller-manager": Subject("kubernetes", "system:kube-controller-manager"),
    "scheduler": Subject("kubernetes", "system:kube-scheduler"),
    "rack": Subject("kubernetes", "rack", "system:masters"),
}
"""Programs that come with a kubeconfig, by the name of its file."""

ADMINISTRATOR: Final = Subject("kubernetes", "admin", "system:masters")


class Pki:
    """The files of one cluster."""

    def __init__(self, settings: Settings, facts: ClusterFacts) -> None:
        self._settings = settings
        self._facts = facts
        self.folder = settings.kubernetes_home / "pki"

    def file(self, name: str) -> str:
        """Path of a file, for an argument of a program."""
        return str(self.folder / name)

    def write(self) -> None:
        """Make everything anew but the administrator's kubeconfig.

        Raises:
            AuthorityError: the cluster's secrets hold no certificate with its key.
        """
        private_folder(self._settings.kubernetes_home)
        private_folder(self.folder)
        facts = self._facts
        for name, text in {
            "kubernetes-ca.crt": facts.kubernetes_ca,
            "kubernetes-ca.key": facts.kubernetes_ca_key,
            "aggregator-ca.crt": facts.aggregator_ca,
            "etcd-ca.crt": facts.etcd_ca,
            "service-account.key": facts.service_account_key,
        }.items():
            self._put(name, text)
        for name, subject in SUBJECTS.items():
            leaf = self._authority(subject.authority).issue(
                subject.common_name,
                subject.organization,
                names=self._server_names() if subject.is_server else (),
            )
            self._put(f"{name}.crt", leaf.certificate)
            self._put(f"{name}.key", leaf.key)
        for name, subject in USERS.items():
            self._put(f"{name}.kubeconfig", self._kubeconfig(subject))

    def write_administrator(self, path: Path) -> None:
        """Make the kubeconfig of the rack's administrator."""
        write_private(path, self._kubeconfig(ADMINISTRATOR))

    def _put(self, name: str, text: str) -> None:
        write_private(self.folder / name, text)

    def _kubeconfig(self, subject: Subject) -> str:
        facts, user = self._facts, subject.common_name
        client = self._authority("kubernetes").issue(user, subject.organization)
        url, name = self._settings.kubernetes_url, f"{user}@{facts.name}"
        return kubeconfig(facts.name, url, facts.kubernetes_ca, name, client)

    def _authority(self, name: AuthorityName) -> Authority:
        facts = self._facts
        pairs = {
            "kubernetes": (facts.kubernetes_ca, facts.kubernetes_ca_key),
            "aggregator": (facts.aggregator_ca, facts.aggregator_ca_key),
            "etcd": (facts.etcd_ca, facts.etcd_ca_key),
        }
        return Authority.read(*pairs[name])

    def _server_names(self) -> tuple[str, ...]:
        """Names under which the API server is reached, in the cluster and from outside."""
        service = ipaddress.ip_network(self._facts.service_subnets[0], strict=False)
        names = [
            LOOPBACK,
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            str(service[1]),
            urlsplit(self._facts.endpoint).hostname or LOOPBACK,
        ]
        return tuple(dict.fromkeys(names))
