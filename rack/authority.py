"""Certificate authorities: read from PEM, and what they sign."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

TIME_SKEW: Final = timedelta(seconds=10)
YEAR: Final = timedelta(hours=8760)
_ED25519_KEY: Final = "ED25519 PRIVATE KEY"
"""Talos' name for what everyone else calls a PKCS #8 `PRIVATE KEY`."""

AuthorityKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


class AuthorityError(ValueError):
    """A certificate and a key that make no authority; the message says why."""


@dataclass(frozen=True)
class Leaf:
    """A certificate with its key, both PEM."""

    certificate: str
    key: str


class Authority:
    """An authority with its key."""

    def __init__(self, certificate: x509.Certificate, key: AuthorityKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def read(cls, certificate_pem: str, key_pem: str) -> Authority:
        """Read both, and see that they belong together.

        Raises:
            AuthorityError: they do not, or one of them cannot be read.
        """
        key_pem = key_pem.replace(_ED25519_KEY, "PRIVATE KEY")
        try:
            certificate = x509.load_pem_x509_certificate(certificate_pem.encode())
            key = serialization.load_pem_private_key(key_pem.encode(), password=None)
        except (ValueError, TypeError):
            raise AuthorityError("no certificate with its key") from None
        if not isinstance(key, AuthorityKey):
            raise AuthorityError("a key of a kind that signs no certificates")
        if key.public_key() != certificate.public_key():
            raise AuthorityError("a key that does not belong to the certificate")
        return cls(certificate, key)

    def issue(
        self,
        common_name: str,
        organization: str = "",
        *,
        names: tuple[str, ...] = (),
        now: datetime | None = None,
        lifetime: timedelta = YEAR,
    ) -> Leaf:
        """Make a key and a certificate for it.

        Args:
            common_name: the user, or the server's name.
            organization: the group of a user.
            names: DNS names and IP addresses of a server; without any it is only a client's.
            now: begin of its life; the present moment by default.
            lifetime: how long it is good for.
        """
        begin = now or datetime.now(UTC)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if organization:
            subject.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        usage = [ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(subject))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin - TIME_SKEW)
            .not_valid_after(begin + lifetime)
        )
        if names:
            usage.append(ExtendedKeyUsageOID.SERVER_AUTH)
            others = x509.SubjectAlternativeName([_general_name(name) for name in names])
            builder = builder.add_extension(others, critical=False)
        algorithm = None if isinstance(self._key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
        certificate = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False).sign(
            self._key, algorithm
        )
        return Leaf(
            certificate.public_bytes(serialization.Encoding.PEM).decode(),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            ).decode(),
        )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
