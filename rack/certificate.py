"""The self-signed certificate of the rack's Proxmox VE API, as a fresh host has one."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rack.files import write_private
from rack.settings import LOOPBACK, Settings

VALIDITY: Final = datetime.timedelta(days=3650)
_NAME: Final = "pve.simulated-rack"


def server_context(settings: Settings) -> ssl.SSLContext:
    """TLS for the API, with a certificate that is made at first use."""
    if not (settings.certificate.exists() and settings.certificate_key.exists()):
        _make(settings)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(settings.certificate, settings.certificate_key)
    return context


def _make(settings: Settings) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address(LOOPBACK))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.DNSName(_NAME), address])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + VALIDITY)
        .add_extension(names, critical=False)
        # Clients may put the file where they keep authorities: then it has to be one.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_private(settings.certificate_key, private)
    write_private(settings.certificate, certificate.public_bytes(serialization.Encoding.PEM))
