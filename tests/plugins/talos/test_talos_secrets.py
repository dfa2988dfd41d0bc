"""The key material: kinds, validity, chains, and what of it may be seen."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from rack.plugins.talos import machine_secrets, pki

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def secrets() -> dict[str, Any]:
    return machine_secrets.generate(NOW)


@pytest.fixture(scope="module")
def client(secrets: dict[str, Any]) -> dict[str, Any]:
    return machine_secrets.client_configuration(secrets, NOW)


def _certificate(encoded: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(base64.b64decode(encoded))


def test_secrets_have_the_official_shape(secrets: dict[str, Any]) -> None:
    assert {group: sorted(values) for group, values in secrets.items()} == {
        "cluster": ["id", "secret"],
        "secrets": ["bootstrapToken", "secretboxEncryptionSecret"],
        "trustdinfo": ["token"],
        "certs": ["etcd", "k8s", "k8sAggregator", "k8sServiceaccount", "os"],
    }
    assert sorted(secrets["certs"]["k8sServiceaccount"]) == ["key"]


def test_ids_and_tokens_have_the_length_and_alphabet_of_talos(secrets: dict[str, Any]) -> None:
    assert len(base64.urlsafe_b64decode(secrets["cluster"]["id"])) == 32
    assert len(base64.b64decode(secrets["cluster"]["secret"])) == 32
    assert len(base64.b64decode(secrets["secrets"]["secretboxEncryptionSecret"])) == 32
    for token in (secrets["secrets"]["bootstrapToken"], secrets["trustdinfo"]["token"]):
        assert re.fullmatch(r"[0-9a-z]{6}\.[0-9a-z]{16}", token)


@pytest.mark.parametrize(
    ("name", "subject", "kind"),
    [
        ("etcd", "O=etcd", ec.EllipticCurvePublicKey),
        ("k8s", "O=kubernetes", ec.EllipticCurvePublicKey),
        ("k8sAggregator", "CN=front-proxy", ec.EllipticCurvePublicKey),
        ("os", "O=talos", ed25519.Ed25519PublicKey),
    ],
)
def test_authorities_are_self_signed_for_ten_years(
    secrets: dict[str, Any], name: str, subject: str, kind: type
) -> None:
    certificate = _certificate(secrets["certs"][name]["cert"])
    certificate.verify_directly_issued_by(certificate)
    assert certificate.subject.rfc4514_string() == subject
    assert isinstance(certificate.public_key(), kind)
    assert certificate.not_valid_after_utc - NOW == timedelta(hours=87600)
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_every_authority_holds_the_key_of_its_certificate(secrets: dict[str, Any]) -> None:
    for name in ("etcd", "k8s", "k8sAggregator", "os"):
        pair = secrets["certs"][name]
        pem = base64.b64decode(pair["key"]).replace(b"ED25519 PRIVATE", b"PRIVATE")
        key = load_pem_private_key(pem, None)
        assert key.public_key() == _certificate(pair["cert"]).public_key()


def test_the_service_account_key_is_rsa_and_the_talos_key_is_labelled_as_talos_does(
    secrets: dict[str, Any],
) -> None:
    account = base64.b64decode(secrets["certs"]["k8sServiceaccount"]["key"])
    assert account.startswith(b"-----BEGIN RSA PRIVATE KEY-----")
    assert isinstance(load_pem_private_key(account, None), rsa.RSAPrivateKey)
    talos = base64.b64decode(secrets["certs"]["os"]["key"])
    assert talos.startswith(b"-----BEGIN ED25519 PRIVATE KEY-----")


def test_the_client_certificate_is_an_administrator_of_this_cluster_only(
    secrets: dict[str, Any], client: dict[str, Any]
) -> None:
    certificate = _certificate(client["clientCertificate"])
    assert certificate.subject.rfc4514_string() == "O=os:admin"
    assert certificate.not_valid_after_utc - NOW == timedelta(days=365)
    encoded = base64.b64decode(client["clientCertificate"])
    assert pki.issued_by(encoded, base64.b64decode(secrets["certs"]["os"]["cert"]))
    other = pki.talos_authority(NOW)
    assert not pki.issued_by(encoded, other.certificate)


def test_a_signature_verifies_with_the_client_certificate(client: dict[str, Any]) -> None:
    signature = pki.sign(base64.b64decode(client["clientKey"]), b"body")
    public = _certificate(client["clientCertificate"]).public_key()
    assert isinstance(public, ed25519.Ed25519PublicKey)
    public.verify(signature, b"body")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_openssl_accepts_the_chain(
    tmp_path: Path, secrets: dict[str, Any], client: dict[str, Any]
) -> None:
    authority, leaf = tmp_path / "ca.pem", tmp_path / "client.pem"
    authority.write_bytes(base64.b64decode(secrets["certs"]["os"]["cert"]))
    leaf.write_bytes(base64.b64decode(client["clientCertificate"]))
    moment = str(int((NOW + timedelta(days=1)).timestamp()))
    command = ["openssl", "verify", "-attime", moment, "-purpose", "sslclient", "-CAfile"]
    done = subprocess.run(
        [*command, str(authority), str(leaf)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_two_clusters_share_nothing(secrets: dict[str, Any]) -> None:
    other = machine_secrets.generate(NOW)
    assert other["cluster"] != secrets["cluster"]
    assert other["certs"]["os"]["cert"] != secrets["certs"]["os"]["cert"]


def test_a_pair_never_shows_its_key() -> None:
    assert repr(pki.talos_authority(NOW)) == "Pair(…)"


def test_expiry_is_judged_at_the_moment_asked_for() -> None:
    certificate = pki.admin_certificate(pki.talos_authority(NOW), NOW).certificate
    assert not pki.expires_before(certificate, NOW + timedelta(days=364))
    assert pki.expires_before(certificate, NOW + timedelta(days=366))
