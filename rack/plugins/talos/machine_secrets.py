"""A cluster's secrets: everything that makes a machine a member of this cluster and no other.

The shape is the official plugin's `machineSecrets`: certificates and keys are base64 of PEM.
"""

from __future__ import annotations

import base64
import secrets
import string
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from rack.plugins.contract import Plain, PluginError
from rack.plugins.talos import pki

ID_BYTES: Final = 32
ENCRYPTION_BYTES: Final = 32
TOKEN_ALPHABET: Final = string.digits + string.ascii_lowercase
TOKEN_LENGTHS: Final = (6, 16)
"""A kubeadm-like token: public part, secret part."""


def generate(now: datetime) -> Plain:
    """Make a new cluster's secrets, valid from `now` on."""
    return {
        "cluster": {
            # Talos writes the id for URLs, the secret not.
            "id": base64.urlsafe_b64encode(secrets.token_bytes(ID_BYTES)).decode(),
            "secret": base64.b64encode(secrets.token_bytes(ID_BYTES)).decode(),
        },
        "secrets": {
            "bootstrapToken": _token(),
            "secretboxEncryptionSecret": base64.b64encode(
                secrets.token_bytes(ENCRYPTION_BYTES)
            ).decode(),
        },
        "trustdinfo": {"token": _token()},
        "certs": {
            "etcd": _pair(pki.etcd_authority(now)),
            "k8s": _pair(pki.kubernetes_authority(now)),
            "k8sAggregator": _pair(pki.aggregator_authority(now)),
            "k8sServiceaccount": {"key": pki.encode(pki.service_account_key())},
            "os": _pair(pki.talos_authority(now)),
        },
    }


def client_configuration(machine_secrets: Mapping[str, Any], now: datetime) -> Plain:
    """Make the administrator's access to the Talos API of the cluster with these secrets."""
    authority = machine_secrets["certs"]["os"]
    talos = pki.Pair(pki.decode(authority["cert"]), pki.decode(authority["key"]))
    admin = pki.admin_certificate(talos, now)
    return {
        "caCertificate": pki.encode(talos.certificate),
        "clientCertificate": pki.encode(admin.certificate),
        "clientKey": pki.encode(admin.key),
    }


def require_base64(values: Mapping[str, Any], at: str) -> None:
    """Refuse certificates and keys that are not base64.

    Raises `PluginError`: names the property, never its value.
    """
    for name, value in values.items():
        path = f"{at}.{name}"
        if isinstance(value, Mapping):
            require_base64(value, path)
        elif isinstance(value, str):
            try:
                pki.decode(value)
            except ValueError as error:
                raise PluginError(
                    f"{path}: {error}; pass it as machine:Secrets returns it"
                ) from None


def _pair(pair: pki.Pair) -> Plain:
    return {"cert": pki.encode(pair.certificate), "key": pki.encode(pair.key)}


def _token() -> str:
    parts = ("".join(secrets.choice(TOKEN_ALPHABET) for _ in range(n)) for n in TOKEN_LENGTHS)
    return ".".join(parts)
