"""Certificates of the Talos API: who calls, and what an administrator of Kubernetes gets.

Talos asks for mutual TLS. The rack's machine API is plain HTTP, so a call carries its client
certificate and a signature of its body, and the same is checked of them: a chain to the machine's
own authority, a role, and that the caller holds the key.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rack.authority import YEAR, Authority, AuthorityError, Leaf
from rack.kubeconfig import kubeconfig
from rack.world.machine_config import MachineConfig
from rack.world.talos_error import TalosError

ADMINISTRATOR: Final = "os:admin"
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def require_administrator(
    authorities: str, certificate: str, signature: str, body: bytes, now: float
) -> None:
    """Make sure that a call comes from an administrator of the machine.

    Args:
        authorities: PEM of the authorities that the machine accepts.
        certificate: base64 of the caller's certificate as PEM; empty where it sent none.
        signature: base64 of the body's Ed25519 signature.
        body: what was signed.
        now: Unix time.

    Raises:
        TalosError: Unauthenticated, or PermissionDenied for another role.
    """
    if not certificate:
        raise _unauthenticated("tls: client didn't provide a certificate")
    caller = _read_certificate(certificate)
    if not any(_issued(caller, authority) for authority in _read_authorities(authorities)):
        raise _unauthenticated("x509: certificate signed by unknown authority")
    moment = datetime.fromtimestamp(now, UTC)
    if not caller.not_valid_before_utc <= moment <= caller.not_valid_after_utc:
        raise _unauthenticated("x509: certificate has expired or is not yet valid")
    if not _is_for_clients(caller):
        raise _unauthenticated("x509: certificate specifies an incompatible key usage")
    if not _signed(caller, signature, body):
        raise _unauthenticated("tls: invalid signature by the client certificate")
    roles = caller.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    if ADMINISTRATOR not in (role.value for role in roles):
        raise TalosError("PermissionDenied", "not authorized")


def _unauthenticated(reason: str) -> TalosError:
    return TalosError("Unauthenticated", f"simulated rack: authentication failed: {reason}")


def _read_certificate(text: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(base64.b64decode(text, validate=True))
    except (ValueError, binascii.Error):
        raise _unauthenticated("tls: failed to parse certificate from client") from None


def _read_authorities(pem: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem.encode())
    except ValueError:
        return []


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _is_for_clients(certificate: x509.Certificate) -> bool:
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return ExtendedKeyUsageOID.CLIENT_AUTH in usage


def _signed(certificate: x509.Certificate, signature: str, body: bytes) -> bool:
    key = certificate.public_key()
    if not isinstance(key, ed25519.Ed25519PublicKey):
        return False
    try:
        key.verify(base64.b64decode(signature, validate=True), body)
    except (InvalidSignature, binascii.Error):
        return False
    return True


def administrator_kubeconfig(config: MachineConfig, now: float) -> str:
    """Make the administrator's kubeconfig as Talos does: signed with the configuration's own CA.

    Raises:
        TalosError: the configuration's Kubernetes CA is no certificate with its key.
    """
    client = _client(config, datetime.fromtimestamp(now, UTC))
    cluster, authorities = config.cluster_name, config.accepted_certificates("cluster")
    return kubeconfig(cluster, config.endpoint, authorities, f"admin@{cluster}", client)


def _client(config: MachineConfig, now: datetime) -> Leaf:
    """Certificate and key of a member of system:masters."""
    try:
        authority = Authority.read(
            config.pem("cluster", "ca", "crt"), config.pem("cluster", "ca", "key")
        )
    except AuthorityError as error:
        message = f"error getting Kubernetes CA: cluster.ca is {error}"
        raise TalosError("FailedPrecondition", message) from None
    return authority.issue("admin", "system:masters", now=now, lifetime=_lifetime(config))


def _lifetime(config: MachineConfig) -> timedelta:
    found = _DURATION.fullmatch(str(config.at("cluster", "adminKubeconfig", "certLifetime") or ""))
    if not found or not any(found.groups()):
        return YEAR
    hours, minutes, seconds = (int(number or 0) for number in found.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)
