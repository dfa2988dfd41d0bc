"""Provider configuration: strict, lazy, and only for a simulated rack."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pulumi.provider.experimental import provider as protocol

from rack.plugins.contract import UNKNOWN, PluginError
from rack.plugins.proxmoxve.provider import ProxmoxVe
from tests.plugins.proxmoxve.driver import Engine, encode_map, run
from tests.plugins.proxmoxve.fakepve import FakePve, serving
from tests.plugins.proxmoxve.inputs import FILE, GPU_VM, IMAGE, MAPPING, PCI, TOKEN, VM


def check_config(**values: Any) -> dict[str, str]:
    request = protocol.CheckRequest("", {}, encode_map(values), b"")
    failures = run(ProxmoxVe().check_config(request)).failures or []
    return {failure.property: failure.reason for failure in failures}


def test_provider_configuration_is_strict() -> None:
    assert check_config(endpoint="https://h:8006", insecure="true", version="8.6.0") == {}
    assert list(check_config(endpont="https://h:8006")) == ["endpont"]
    assert list(check_config(insecure="perhaps")) == ["insecure"]
    assert check_config(endpoint=UNKNOWN, ssh='{"agent": true}') == {}


def test_configuring_asks_the_host_for_nothing(engine: Engine, fake: FakePve) -> None:
    assert fake.requests == []


def test_environment_serves_where_the_program_says_nothing(
    fake: FakePve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXMOX_VE_ENDPOINT", fake.endpoint + "/")
    monkeypatch.setenv("PROXMOX_VE_API_TOKEN", TOKEN)
    engine = Engine(ProxmoxVe())
    engine.configure()
    assert engine.invoke("proxmoxve:index/getVersion:getVersion", {})["version"] == "9.0.11"


def test_a_missing_token_is_named(fake: FakePve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROXMOX_VE_API_TOKEN", raising=False)
    engine = Engine(ProxmoxVe())
    engine.configure(endpoint=fake.endpoint)
    with pytest.raises(PluginError, match="apiToken.*PROXMOX_VE_API_TOKEN"):
        engine.create(PCI, MAPPING)


def test_a_real_host_is_refused_before_anything_is_done(engine: Engine, fake: FakePve) -> None:
    fake.repoid = "3aa4d2f9"
    with pytest.raises(PluginError, match="refusing to run against http.*: not a simulated rack"):
        engine.create(PCI, MAPPING)
    assert [path for _, path, _ in fake.requests] == ["/version"]


def test_previews_of_create_reach_no_host() -> None:
    for endpoint in ("http://127.0.0.1:9", UNKNOWN):
        engine = Engine(ProxmoxVe())
        engine.configure(endpoint=endpoint, apiToken=TOKEN)
        resource_id, outputs = engine.create(VM, GPU_VM, preview=True)
        assert resource_id == ""
        assert outputs["vmId"] == 111
        assert isinstance(outputs["ipv4Addresses"], type(UNKNOWN))
        assert isinstance(engine.create(FILE, IMAGE, preview=True)[1]["size"], type(UNKNOWN))


def test_an_unreachable_host_is_named_and_the_token_is_not() -> None:
    engine = Engine(ProxmoxVe())
    engine.configure(endpoint="http://127.0.0.1:9", apiToken=TOKEN)
    with pytest.raises(PluginError, match="cannot reach .* http://127.0.0.1:9") as caught:
        engine.create(PCI, MAPPING)
    assert "c0de" not in str(caught.value)
    assert "c0de" not in repr(engine.provider._client)  # type: ignore[attr-defined]


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A file with a self-signed certificate for 127.0.0.1 and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pve")])
    today = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "host.pem"
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    file.write_bytes(private + made.public_bytes(pem))
    return file


def test_certificates_are_checked_unless_told_not_to(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with serving(tls) as fake:
        engine = Engine(ProxmoxVe())
        engine.configure(endpoint=fake.endpoint, apiToken=TOKEN)
        with pytest.raises(PluginError, match="cannot verify the certificate.*`insecure`"):
            engine.create(PCI, MAPPING)
        assert fake.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert engine.create(PCI, MAPPING)[0] == "gpu0"
        monkeypatch.delenv("SSL_CERT_FILE")
        engine.configure(endpoint=fake.endpoint, apiToken=TOKEN, insecure="true")
        assert engine.read(PCI, "gpu0")[0] == "gpu0"
