"""What a recovery asks of the cluster, and the one thing that it changes there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

TIMEOUT_S = 10
HELM_SELECTOR = "owner=helm"
UNFINISHED = ("pending-install", "pending-upgrade", "pending-rollback")
"""States in which Helm refuses every further operation on a release."""


@dataclass(frozen=True)
class Revision:
    """One revision of a Helm release, kept in a Secret."""

    secret: str
    namespace: str
    release: str
    number: int
    status: str


class Cluster:
    """A cluster that a kubeconfig names."""

    def __init__(self, kubeconfig: str) -> None:
        from kubernetes import client, config

        settings = client.Configuration()
        config.load_kube_config_from_dict(yaml.safe_load(kubeconfig), client_configuration=settings)
        settings.retries = False
        self._api = client.ApiClient(settings)
        self._core = client.CoreV1Api(self._api)

    def answers(self) -> bool:
        """Whether the API server is there."""
        from kubernetes.client import ApiException, VersionApi
        from urllib3.exceptions import HTTPError

        try:
            VersionApi(self._api).get_code(_request_timeout=TIMEOUT_S)
        except (HTTPError, OSError):
            return False
        except ApiException:
            return True
        return True

    def exists(self, api_version: str, kind: str, namespace: str, name: str) -> bool:
        """Whether an object exists; it does not where its kind is unknown."""
        from kubernetes.dynamic import DynamicClient
        from kubernetes.dynamic.exceptions import NotFoundError, ResourceNotFoundError

        try:
            resource = DynamicClient(self._api).resources.get(api_version=api_version, kind=kind)
            resource.get(name=name, namespace=namespace or None, _request_timeout=TIMEOUT_S)
        except (NotFoundError, ResourceNotFoundError):
            return False
        return True

    def release(self, namespace: str, name: str) -> str:
        """Status of a release's newest revision; empty where there is none."""
        mine = [
            one for one in self.revisions() if (one.namespace, one.release) == (namespace, name)
        ]
        return max(mine, key=lambda one: one.number).status if mine else ""

    def revisions(self) -> list[Revision]:
        """Every revision of every Helm release."""
        secrets = self._core.list_secret_for_all_namespaces(
            label_selector=HELM_SELECTOR, _request_timeout=TIMEOUT_S
        ).items
        return [_revision(one) for one in secrets]

    def forget(self, revision: Revision) -> None:
        """Remove a revision that never became whole; what it made stays and is taken over."""
        self._core.delete_namespaced_secret(
            revision.secret, revision.namespace, _request_timeout=TIMEOUT_S
        )


def unfinished(revisions: list[Revision]) -> list[Revision]:
    """The newest revision of each release that Helm would refuse to go on from."""
    newest: dict[tuple[str, str], Revision] = {}
    for one in sorted(revisions, key=lambda one: one.number):
        newest[one.namespace, one.release] = one
    return [one for one in newest.values() if one.status in UNFINISHED]


def _revision(secret: Any) -> Revision:
    labels = secret.metadata.labels or {}
    return Revision(
        secret=secret.metadata.name,
        namespace=secret.metadata.namespace,
        release=labels.get("name", ""),
        number=int(labels.get("version", 0)),
        status=labels.get("status", ""),
    )
