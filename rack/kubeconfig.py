"""Kubeconfigs of the rack."""

from __future__ import annotations

import base64
import io

from ruamel.yaml import YAML

from rack.authority import Leaf


def kubeconfig(cluster: str, server: str, authorities: str, user: str, client: Leaf) -> str:
    """A kubeconfig for one user of one cluster.

    Args:
        cluster: name of the cluster.
        server: URL of its API.
        authorities: PEM of whom the API server's certificate may come from.
        user: name of the user in the file.
        client: the user's certificate.
    """
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": cluster,
                "cluster": {
                    "certificate-authority-data": _encode(authorities),
                    "server": server,
                },
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _encode(client.certificate),
                    "client-key-data": _encode(client.key),
                },
            }
        ],
        "contexts": [
            {"name": user, "context": {"cluster": cluster, "namespace": "default", "user": user}}
        ],
        "current-context": user,
    }
    writer = YAML(typ="rt", pure=True)
    writer.width = 1_000_000
    out = io.StringIO()
    writer.dump(document, out)
    return out.getvalue()


def _encode(pem: str) -> str:
    return base64.b64encode(pem.encode()).decode()
