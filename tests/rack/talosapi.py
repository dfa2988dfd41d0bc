"""A rack whose Talos routes listen on a random port, and certificates to call them with."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import requests
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from starlette.applications import Starlette

from rack.rack import Rack
from rack.settings import Settings
from rack.sockets import listen
from rack.talos.http import routes
from rack.world.factory import ImageContent
from rack.world.machine import Machine, NocloudInterface
from rack.world.qemu import Vm
from tests.model.talosworld import (
    MAC,
    changed,
    documents,
    hardware,
    nocloud,
    talos_image,
    text,
)

DAY = timedelta(days=1)
PEM = serialization.Encoding.PEM
Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True)
class Pair:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: Key

    @property
    def crt(self) -> str:
        return base64.b64encode(self.certificate.public_bytes(PEM)).decode()

    @property
    def key_text(self) -> str:
        """base64 of PEM, with Talos' own name for an Ed25519 key."""
        pem = self.key.private_bytes(
            PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        if isinstance(self.key, ed25519.Ed25519PrivateKey):
            pem = pem.replace(b"PRIVATE KEY", b"ED25519 PRIVATE KEY")
        return base64.b64encode(pem).decode()

    @property
    def both(self) -> dict[str, str]:
        return {"crt": self.crt, "key": self.key_text}

    def sign(self, body: bytes) -> dict[str, str]:
        """The headers of a call."""
        assert isinstance(self.key, ed25519.Ed25519PrivateKey)
        signature = base64.b64encode(self.key.sign(body)).decode()
        return {"X-Talos-Certificate": self.crt, "X-Talos-Signature": signature}


def issue(
    organization: str,
    key: Key,
    issuer: Pair | None = None,
    *,
    start: datetime | None = None,
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
) -> Pair:
    """A certificate; an authority's own where no issuer is given."""
    begin = start or datetime.now(UTC) - DAY
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)])
    signer = issuer.key if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.certificate.subject if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + 2 * DAY)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    digest = None if isinstance(signer, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return Pair(builder.sign(signer, digest), key)


def ed25519_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


class Secrets:
    """A cluster's authorities and its administrator."""

    @cached_property
    def talos(self) -> Pair:
        return issue("talos", ed25519_key())

    @cached_property
    def kubernetes(self) -> Pair:
        return issue("kubernetes", ec.generate_private_key(ec.SECP256R1()))

    @cached_property
    def administrator(self) -> Pair:
        return issue("os:admin", ed25519_key(), self.talos)

    def configuration(self, role: str = "worker", **values: Any) -> str:
        """A machine configuration with these authorities; `__` stands for a dot in a path."""
        control_plane = role == "controlplane"
        found = documents(role)
        for path, pair in (("machine.ca", self.talos), ("cluster.ca", self.kubernetes)):
            value = pair.both if control_plane else {"crt": pair.crt}
            found = changed(found, path, value)
        for path, value in values.items():
            found = changed(found, path.replace("__", "."), value)
        return text(found)


class TalosApi:
    """One rack and a client of its services port."""

    def __init__(self, rack: Rack, url: str) -> None:
        self.rack = rack
        self.url = url
        self.session = requests.Session()
        self.session.trust_env = False

    def add(self, vmid: int, address: str, content: ImageContent | None = None, **given: Any) -> Vm:
        """A running VM with a machine that was just switched on."""
        vm = Vm(
            vmid=vmid,
            node="pve",
            config={"name": f"vm-{vmid}"},
            pid=1,
            systems={"disk": Machine()},
            booted="disk",
        )
        interface = NocloudInterface(mac_address=MAC, address=f"{address}/24")
        with self.rack.lock() as world:
            vm.systems["disk"].power_on(
                content or talos_image(),
                nocloud(hostname=f"vm-{vmid}", interfaces=(interface,)),
                (),
                hardware(vmid=vmid, **given),
                self.rack.now(),
            )
            world.vms[vmid] = vm
        return vm

    def get(self, path: str) -> requests.Response:
        return self.session.get(self.url + path, timeout=10)

    def post(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> Any:
        return self.session.post(self.url + path, data=body, headers=headers, timeout=10)

    def call(
        self, address: str, name: str, caller: Pair | None = None, **parameters: Any
    ) -> tuple[int, Any]:
        """Call a machine; without a caller, without a certificate."""
        body = json.dumps(parameters).encode()
        headers = caller.sign(body) if caller else {}
        answer = self.post(f"/machines/{address}/{name}", body, headers)
        return answer.status_code, answer.json()


@contextmanager
def serving(home: Path) -> Iterator[TalosApi]:
    """Serve until the block ends."""
    rack = Rack(Settings(home=home))
    listener = listen(0, "a test")
    config = uvicorn.Config(Starlette(routes=routes(rack)), log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield TalosApi(rack, f"http://127.0.0.1:{listener.getsockname()[1]}")
    finally:
        server.should_exit = True
        thread.join(5)
        rack.close()
