"""A bootstrapped cluster for tests, with authorities of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rack.world.nodefacts import ClusterFacts


def authority(name: str) -> tuple[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return certificate.public_bytes(pem).decode(), private.decode()


def cluster_facts() -> ClusterFacts:
    kubernetes, aggregator, etcd = (authority(one) for one in ("kubernetes", "front", "etcd"))
    return ClusterFacts(
        name="rack",
        endpoint="https://cluster.example:6443",
        kubernetes_version="v1.34.4",
        vm_id=101,
        address="192.168.20.21",
        incarnation="one",
        kubernetes_ca=kubernetes[0],
        kubernetes_ca_key=kubernetes[1],
        aggregator_ca=aggregator[0],
        aggregator_ca_key=aggregator[1],
        etcd_ca=etcd[0],
        etcd_ca_key=etcd[1],
        service_account_key=kubernetes[1],
        pod_subnets=("10.244.0.0/16",),
        service_subnets=("10.96.0.0/12",),
    )
