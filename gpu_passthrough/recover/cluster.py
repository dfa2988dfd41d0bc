"""What a recovery asks of the cluster, and the one thing that it changes there."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_passthrough.kubeapi import (
    ForbiddenError,
    KubernetesApi,
    Object,
    UnreachableError,
    parse,
)

HELM_SELECTOR = "labelSelector=owner%3Dhelm"
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

    def __init__(self, kubeconfig: str, context: str | None = None) -> None:
        self._api = KubernetesApi(parse(kubeconfig), context)

    def answers(self) -> bool:
        """Whether the API server is there."""
        try:
            self._api.get("/version")
        except UnreachableError:
            return False
        except ForbiddenError:
            return True
        return True

    def exists(self, api_version: str, kind: str, namespace: str, name: str) -> bool:
        """Whether an object exists; it does not where its kind is unknown."""
        group = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        known = (self._api.get(group) or {}).get("resources") or ()
        resource = next((one for one in known if _is_of(one, kind)), None)
        if resource is None:
            return False
        folder = f"{group}/namespaces/{namespace or 'default'}" if resource["namespaced"] else group
        return self._api.get(f"{folder}/{resource['name']}/{name}") is not None

    def release(self, namespace: str, name: str) -> str:
        """Status of a release's newest revision; empty where there is none."""
        mine = [one for one in self.revisions(namespace) if one.release == name]
        return max(mine, key=lambda one: one.number).status if mine else ""

    def revisions(self, namespace: str) -> list[Revision]:
        """Every revision of every Helm release in a namespace."""
        folder = f"/api/v1/namespaces/{namespace}/secrets?{HELM_SELECTOR}"
        return [_revision(one) for one in self._api.items(folder)]

    def forget(self, revision: Revision) -> None:
        """Remove a revision that never became whole; what it made stays and is taken over."""
        self._api.delete(f"/api/v1/namespaces/{revision.namespace}/secrets/{revision.secret}")


def _is_of(resource: Object, kind: str) -> bool:
    """The resource itself, no part of it such as its status."""
    return bool(resource["kind"] == kind and "/" not in resource["name"])


def unfinished(revisions: list[Revision]) -> list[Revision]:
    """The newest revision of each release that Helm would refuse to go on from."""
    newest: dict[tuple[str, str], Revision] = {}
    for one in sorted(revisions, key=lambda one: one.number):
        newest[one.namespace, one.release] = one
    return [one for one in newest.values() if one.status in UNFINISHED]


def _revision(secret: Object) -> Revision:
    meta = secret["metadata"]
    labels = meta.get("labels") or {}
    return Revision(
        secret=meta["name"],
        namespace=meta["namespace"],
        release=labels.get("name", ""),
        number=int(labels.get("version", 0)),
        status=labels.get("status", ""),
    )
