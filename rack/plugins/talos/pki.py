"""Certificates and keys of the kinds that Talos makes, as PEM.

Kubernetes, its aggregator and etcd get ECDSA P-256 authorities, Talos itself an Ed25519 one;
all of them last ten years, the administrator's client certificate one.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_VALIDITY: Final = timedelta(hours=87600)
ADMIN_VALIDITY: Final = timedelta(days=365)
ADMIN_ROLE: Final = "os:admin"
SERVICE_ACCOUNT_BITS: Final = 4096

ED25519_TALOS: Final = b"ED25519 PRIVATE KEY"
"""Talos' name for what everyone else calls a PKCS #8 `PRIVATE KEY`."""
ED25519_COMMON: Final = b"PRIVATE KEY"

SigningKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True, repr=False)
class Pair:
    """A certificate and its private key, both PEM. Its representation never shows the key."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Pair(…)"


def kubernetes_authority(now: datetime) -> Pair:
    """Make the authority that signs the Kubernetes API server and its clients."""
    return _authority(_organization("kubernetes"), ec.generate_private_key(ec.SECP256R1()), now)


def aggregator_authority(now: datetime) -> Pair:
    """Make the authority behind aggregated API servers (the front proxy)."""
    return _authority(_common_name("front-proxy"), ec.generate_private_key(ec.SECP256R1()), now)


def etcd_authority(now: datetime) -> Pair:
    """Make the authority that signs etcd's members and clients."""
    return _authority(_organization("etcd"), ec.generate_private_key(ec.SECP256R1()), now)


def talos_authority(now: datetime) -> Pair:
    """Make the authority of the Talos API: who holds it owns the machines."""
    return _authority(_organization("talos"), ed25519.Ed25519PrivateKey.generate(), now)


def service_account_key() -> bytes:
    """Make the RSA key that signs Kubernetes' service account tokens."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=SERVICE_ACCOUNT_BITS)
    return _key_pem(key)


def admin_certificate(talos: Pair, now: datetime) -> Pair:
    """Sign a client certificate of the role `os:admin` with the Talos authority."""
    key, signer = ed25519.Ed25519PrivateKey.generate(), _signing_key(talos.key)
    authority = x509.load_pem_x509_certificate(talos.certificate)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = (
        _builder(_organization(ADMIN_ROLE), authority.subject, key, now, ADMIN_VALIDITY)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(issuer, critical=False)
        .sign(signer, _digest(signer))
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def expires_before(certificate: bytes, moment: datetime) -> bool:
    """Tell whether a PEM certificate is no longer valid at `moment`."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc < moment


def sign(key: bytes, message: bytes) -> bytes:
    """Sign `message` with an Ed25519 PEM key.

    Raises `ValueError`: the key is not an Ed25519 private key.

    """
    loaded = _load_key(key)
    if not isinstance(loaded, ed25519.Ed25519PrivateKey):
        raise ValueError("not an Ed25519 private key")
    return loaded.sign(message)


def issued_by(certificate: bytes, authority: bytes) -> bool:
    """Tell whether the PEM `authority` signed the PEM `certificate`."""
    try:
        x509.load_pem_x509_certificate(certificate).verify_directly_issued_by(
            x509.load_pem_x509_certificate(authority)
        )
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def encode(pem: bytes) -> str:
    """Return PEM as Talos' configurations carry it: base64 of the whole text."""
    return base64.b64encode(pem).decode()


def decode(text: str) -> bytes:
    """Undo `encode`.

    Raises `ValueError`: `text` is not base64. The message never repeats it, it may be a key.

    """
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None


def _authority(name: x509.Name, key: SigningKey, now: datetime) -> Pair:
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        _builder(name, name, key, now, AUTHORITY_VALIDITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, _digest(key))
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: SigningKey, now: datetime, validity: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + validity)
    )


def _organization(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, name)])


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=sign_certificates,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _digest(key: SigningKey) -> hashes.SHA256 | None:
    # Ed25519 hashes on its own.
    return None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()


def _key_pem(key: SigningKey | rsa.RSAPrivateKey) -> bytes:
    """Write a key in the form that Talos writes its kind."""
    if isinstance(key, ed25519.Ed25519PrivateKey):
        pem = _pem(key, serialization.PrivateFormat.PKCS8)
        return pem.replace(ED25519_COMMON, ED25519_TALOS)
    return _pem(key, serialization.PrivateFormat.TraditionalOpenSSL)


def _pem(key: SigningKey | rsa.RSAPrivateKey, written_as: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, written_as, serialization.NoEncryption())


def _load_key(key: bytes) -> object:
    common = key.replace(ED25519_TALOS, ED25519_COMMON)
    return serialization.load_pem_private_key(common, password=None)


def _signing_key(key: bytes) -> SigningKey:
    loaded = _load_key(key)
    if not isinstance(loaded, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        raise ValueError("neither an Ed25519 nor an ECDSA private key")
    return loaded
