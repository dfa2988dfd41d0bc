"""The machine API over HTTP."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from ruamel.yaml import YAML

from rack.rack import Rack
from rack.settings import Settings
from tests.model.talosworld import NONFREE_LTS, b64, schematic_text
from tests.rack.talosapi import DAY, Pair, Secrets, TalosApi, ed25519_key, issue, serving

NVIDIA = "af8eb82417d3deaa94d2ef19c3b590b0dac1b2549d0b9b35b3da2bc325de75f7"
CONTROL_PLANE, WORKER = "127.0.0.1", "127.0.0.2"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[TalosApi]:
    with serving(tmp_path / "rack") as found:
        yield found


@pytest.fixture(scope="module")
def secrets() -> Secrets:
    return Secrets()


def running(api: TalosApi, secrets: Secrets, role: str = "controlplane") -> Pair:
    """A configured machine at the control plane's address, and its administrator."""
    api.add(101, CONTROL_PLANE)
    status, _ = api.call(CONTROL_PLANE, "apply", configuration=secrets.configuration(role))
    assert status == 200
    return secrets.administrator


class TestReaching:
    def test_a_machine_shows_its_stage_to_anyone(self, api: TalosApi) -> None:
        api.add(111, WORKER)
        found = api.get(f"/machines/{WORKER}").json()
        assert (found["stage"], found["version"]) == ("maintenance", "v1.13.9")

    def test_where_nobody_is_there_is_no_route(self, api: TalosApi) -> None:
        answer = api.get("/machines/127.0.0.77")
        assert answer.status_code == 503
        assert answer.json()["code"] == "Unavailable"
        assert "no route to host" in answer.json()["message"]

    def test_a_stopped_vm_is_nobody(self, api: TalosApi) -> None:
        vm = api.add(111, WORKER)
        with api.rack.lock():
            vm.switch_off()
        assert "no route to host" in api.get(f"/machines/{WORKER}").json()["message"]

    def test_a_machine_that_does_not_boot_refuses_the_connection(self, api: TalosApi) -> None:
        api.add(111, WORKER, secure_boot_keys=True)
        message = api.get(f"/machines/{WORKER}").json()["message"]
        assert "connection refused" in message
        assert "VM 111 is booting" in message
        assert "Secure Boot" in message


class TestMaintenance:
    def test_a_new_machine_takes_a_configuration_from_anyone(
        self, api: TalosApi, secrets: Secrets
    ) -> None:
        api.add(111, WORKER)
        status, answer = api.call(WORKER, "apply", configuration=secrets.configuration())
        assert (status, answer["mode_details"]) == (200, "Applied configuration without a reboot")
        assert api.get(f"/machines/{WORKER}").json()["stage"] == "running"

    def test_an_invalid_configuration_is_an_invalid_argument(self, api: TalosApi) -> None:
        api.add(111, WORKER)
        status, answer = api.call(WORKER, "apply", configuration="machine: {foo: 1}")
        assert (status, answer["code"]) == (400, "InvalidArgument")
        assert "unknown keys found during decoding:\nmachine:\n    foo: 1" in answer["message"]
        assert api.get(f"/machines/{WORKER}").json()["stage"] == "maintenance"

    @pytest.mark.parametrize("call", ["bootstrap", "kubeconfig"])
    def test_other_calls_are_not_available_yet(self, api: TalosApi, call: str) -> None:
        api.add(111, WORKER)
        status, answer = api.call(WORKER, call)
        assert (status, answer["code"]) == (412, "FailedPrecondition")
        assert answer["message"] == f"{call} is not available yet"


class TestParameters:
    @pytest.mark.parametrize(
        ("body", "message"),
        [
            (b"{", "no JSON"),
            (b"[]", "no JSON object"),
            (b'{"config": "x"}', "unknown parameter config"),
            (b"{}", "configuration: expected a str"),
            (b'{"configuration": "x", "mode": "now"}', "mode 'now' is not one of auto"),
        ],
    )
    def test_wrong_ones_are_invalid_arguments(
        self, api: TalosApi, body: bytes, message: str
    ) -> None:
        api.add(111, WORKER)
        answer = api.post(f"/machines/{WORKER}/apply", body)
        assert answer.status_code == 400
        assert answer.json()["code"] == "InvalidArgument"
        assert message in answer.json()["message"]

    def test_an_unknown_call_is_named(self, api: TalosApi) -> None:
        api.add(111, WORKER)
        status, answer = api.call(WORKER, "explode")
        assert (status, answer["code"]) == (501, "Unimplemented")
        assert "apply, bootstrap" in answer["message"]


class TestCertificates:
    def test_an_administrator_may_call(self, api: TalosApi, secrets: Secrets) -> None:
        administrator = running(api, secrets)
        assert api.call(CONTROL_PLANE, "bootstrap", administrator)[0] == 200

    def refused(self, api: TalosApi, caller: Pair | None) -> tuple[str, str]:
        _, answer = api.call(CONTROL_PLANE, "bootstrap", caller)
        machine = api.rack.world.vms[101].machine
        assert machine is not None
        assert not machine.etcd
        return answer["code"], answer["message"]

    def test_nobody_calls_without_a_certificate(self, api: TalosApi, secrets: Secrets) -> None:
        running(api, secrets)
        code, message = self.refused(api, None)
        assert code == "Unauthenticated"
        assert "didn't provide a certificate" in message

    def test_another_clusters_administrator_is_a_stranger(
        self, api: TalosApi, secrets: Secrets
    ) -> None:
        running(api, secrets)
        code, message = self.refused(api, Secrets().administrator)
        assert code == "Unauthenticated"
        assert "x509: certificate signed by unknown authority" in message

    def test_an_accepted_authority_counts_as_well(self, api: TalosApi, secrets: Secrets) -> None:
        other = Secrets()
        api.add(101, CONTROL_PLANE)
        accepted = {"machine__acceptedCAs": [{"crt": other.talos.crt}]}
        text = secrets.configuration("controlplane", **accepted)
        api.call(CONTROL_PLANE, "apply", configuration=text)
        assert api.call(CONTROL_PLANE, "bootstrap", other.administrator)[0] == 200

    def test_a_reader_may_not(self, api: TalosApi, secrets: Secrets) -> None:
        running(api, secrets)
        reader = issue("os:reader", ed25519_key(), secrets.talos)
        assert self.refused(api, reader) == ("PermissionDenied", "not authorized")

    def test_an_expired_certificate_is_refused(self, api: TalosApi, secrets: Secrets) -> None:
        running(api, secrets)
        start = datetime.now(UTC) - 5 * DAY
        old = issue("os:admin", ed25519_key(), secrets.talos, start=start)
        assert "expired or is not yet valid" in self.refused(api, old)[1]

    def test_a_servers_certificate_is_refused(self, api: TalosApi, secrets: Secrets) -> None:
        running(api, secrets)
        server = issue(
            "os:admin", ed25519_key(), secrets.talos, usage=ExtendedKeyUsageOID.SERVER_AUTH
        )
        assert "incompatible key usage" in self.refused(api, server)[1]

    def test_a_certificate_without_its_key_is_refused(
        self, api: TalosApi, secrets: Secrets
    ) -> None:
        administrator = running(api, secrets)
        thief = Pair(administrator.certificate, ed25519_key())
        assert "invalid signature" in self.refused(api, thief)[1]

    def test_a_signature_of_another_body_is_refused(self, api: TalosApi, secrets: Secrets) -> None:
        administrator = running(api, secrets)
        headers = administrator.sign(b'{"graceful": true}')
        answer = api.post(f"/machines/{CONTROL_PLANE}/reset", b'{"graceful": false}', headers)
        assert answer.status_code == 401

    @pytest.mark.parametrize("text", ["no base64!", b64("no certificate")])
    def test_garbage_is_refused(self, api: TalosApi, secrets: Secrets, text: str) -> None:
        running(api, secrets)
        headers = {"X-Talos-Certificate": text, "X-Talos-Signature": "AA=="}
        answer = api.post(f"/machines/{CONTROL_PLANE}/bootstrap", b"{}", headers)
        assert answer.status_code == 401
        assert "failed to parse certificate" in answer.json()["message"]

    def test_a_second_configuration_needs_one(self, api: TalosApi, secrets: Secrets) -> None:
        administrator = running(api, secrets)
        text = secrets.configuration("controlplane", machine__nodeLabels={"a": "b"})
        assert api.call(CONTROL_PLANE, "apply", configuration=text)[0] == 401
        assert api.call(CONTROL_PLANE, "apply", administrator, configuration=text)[0] == 200


class TestBootstrap:
    def test_it_happens_once(self, api: TalosApi, secrets: Secrets) -> None:
        administrator = running(api, secrets)
        assert api.rack.world.cluster is None
        assert api.call(CONTROL_PLANE, "bootstrap", administrator) == (200, {})
        assert api.rack.world.cluster is not None
        status, answer = api.call(CONTROL_PLANE, "bootstrap", administrator)
        assert (status, answer["code"]) == (409, "AlreadyExists")

    def test_another_member_of_the_cluster_has_joined_by_itself(
        self, api: TalosApi, secrets: Secrets
    ) -> None:
        administrator = running(api, secrets)
        api.call(CONTROL_PLANE, "bootstrap", administrator)
        api.add(102, "127.0.0.3")
        api.call("127.0.0.3", "apply", configuration=secrets.configuration("controlplane"))
        assert api.call("127.0.0.3", "bootstrap", administrator)[1]["code"] == "AlreadyExists"

    def test_another_cluster_is_none_of_its_business(self, api: TalosApi, secrets: Secrets) -> None:
        api.call(CONTROL_PLANE, "bootstrap", running(api, secrets))
        other = Secrets()
        api.add(102, "127.0.0.3")
        api.call("127.0.0.3", "apply", configuration=other.configuration("controlplane"))
        assert api.call("127.0.0.3", "bootstrap", other.administrator)[0] == 200

    def test_a_worker_has_none(self, api: TalosApi, secrets: Secrets) -> None:
        administrator = running(api, secrets, "worker")
        assert api.call(CONTROL_PLANE, "bootstrap", administrator)[0] == 501


class TestKubeconfig:
    def read(self, api: TalosApi, administrator: Pair) -> dict[str, Any]:
        status, answer = api.call(CONTROL_PLANE, "kubeconfig", administrator)
        assert status == 200
        found: dict[str, Any] = YAML(typ="safe", pure=True).load(io.StringIO(answer["kubeconfig"]))
        return found

    def test_it_names_cluster_context_and_endpoint(self, api: TalosApi, secrets: Secrets) -> None:
        found = self.read(api, running(api, secrets))
        assert found["current-context"] == "admin@rack"
        (context,) = found["contexts"]
        assert context["context"] == {
            "cluster": "rack",
            "namespace": "default",
            "user": "admin@rack",
        }
        (cluster,) = found["clusters"]
        assert cluster["cluster"]["server"] == "https://127.0.0.1:6443"
        assert cluster["cluster"]["certificate-authority-data"] == secrets.kubernetes.crt

    def test_its_certificate_is_a_masters_signed_by_the_clusters_authority(
        self, api: TalosApi, secrets: Secrets
    ) -> None:
        user = self.read(api, running(api, secrets))["users"][0]["user"]
        certificate = x509.load_pem_x509_certificate(
            base64.b64decode(user["client-certificate-data"])
        )
        certificate.verify_directly_issued_by(secrets.kubernetes.certificate)
        subject = certificate.subject
        names = {
            oid: [entry.value for entry in subject.get_attributes_for_oid(oid)]
            for oid in (NameOID.ORGANIZATION_NAME, NameOID.COMMON_NAME)
        }
        assert names == {
            NameOID.ORGANIZATION_NAME: ["system:masters"],
            NameOID.COMMON_NAME: ["admin"],
        }
        key = serialization.load_pem_private_key(
            base64.b64decode(user["client-key-data"]), password=None
        )
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        assert key.public_key() == certificate.public_key()
        lifetime = certificate.not_valid_after_utc - datetime.now(UTC)
        assert 364 * DAY < lifetime < 366 * DAY

    def test_its_lifetime_is_the_configurations(self, api: TalosApi, secrets: Secrets) -> None:
        api.add(101, CONTROL_PLANE)
        lifetime = {"cluster__adminKubeconfig": {"certLifetime": "48h0m0s"}}
        text = secrets.configuration("controlplane", **lifetime)
        api.call(CONTROL_PLANE, "apply", configuration=text)
        user = self.read(api, secrets.administrator)["users"][0]["user"]
        certificate = x509.load_pem_x509_certificate(
            base64.b64decode(user["client-certificate-data"])
        )
        assert certificate.not_valid_after_utc - datetime.now(UTC) < 3 * DAY

    @pytest.mark.parametrize("wrong", ["garbage", "other key"])
    def test_a_broken_authority_signs_nothing(
        self, api: TalosApi, secrets: Secrets, wrong: str
    ) -> None:
        key = b64("garbage") if wrong == "garbage" else Secrets().kubernetes.key_text
        api.add(101, CONTROL_PLANE)
        authority = {"cluster__ca": {"crt": secrets.kubernetes.crt, "key": key}}
        text = secrets.configuration("controlplane", **authority)
        api.call(CONTROL_PLANE, "apply", configuration=text)
        status, answer = api.call(CONTROL_PLANE, "kubeconfig", secrets.administrator)
        assert status == 412
        assert "error getting Kubernetes CA: cluster.ca" in answer["message"]

    def test_a_worker_has_none(self, api: TalosApi, secrets: Secrets) -> None:
        _, answer = api.call(CONTROL_PLANE, "kubeconfig", running(api, secrets, "worker"))
        assert answer["message"] == "kubeconfig is only available on control plane nodes"


class TestReset:
    def test_the_last_member_cannot_leave_gracefully(self, api: TalosApi, secrets: Secrets) -> None:
        administrator = running(api, secrets)
        api.call(CONTROL_PLANE, "bootstrap", administrator)
        status, answer = api.call(CONTROL_PLANE, "reset", administrator)
        assert (status, answer["code"]) == (412, "FailedPrecondition")
        assert "graceful: false" in answer["message"]
        parameters = {"graceful": False, "reboot": True, "wipe": ["STATE", "EPHEMERAL"]}
        assert api.call(CONTROL_PLANE, "reset", administrator, **parameters)[0] == 200
        assert api.get(f"/machines/{CONTROL_PLANE}").json()["stage"] == "maintenance"
        assert api.rack.world.cluster is None

    def test_a_member_among_others_can(self, api: TalosApi, secrets: Secrets) -> None:
        administrator = running(api, secrets)
        api.call(CONTROL_PLANE, "bootstrap", administrator)
        api.add(102, "127.0.0.3")
        api.call("127.0.0.3", "apply", configuration=secrets.configuration("controlplane"))
        assert api.call(CONTROL_PLANE, "reset", administrator, reboot=True)[0] == 200

    def test_without_reboot_the_vm_is_off(self, api: TalosApi, secrets: Secrets) -> None:
        administrator = running(api, secrets, "worker")
        assert api.call(CONTROL_PLANE, "reset", administrator)[0] == 200
        assert not api.rack.world.vms[101].is_running
        assert api.get(f"/machines/{CONTROL_PLANE}").status_code == 503

    def test_only_the_two_partitions_are_wiped(self, api: TalosApi, secrets: Secrets) -> None:
        administrator = running(api, secrets, "worker")
        _, answer = api.call(CONTROL_PLANE, "reset", administrator, wipe=["STATE"])
        assert answer["code"] == "InvalidArgument"


class TestUpgrade:
    def test_an_installer_brings_its_release_and_extensions(
        self, api: TalosApi, secrets: Secrets
    ) -> None:
        administrator = running(api, secrets, "worker")
        api.post("/schematics", schematic_text(*NONFREE_LTS).encode())
        image = f"factory.talos.dev/nocloud-installer/{NVIDIA}:v1.13.8"
        assert api.call(CONTROL_PLANE, "upgrade", administrator, image=image)[0] == 200
        found = api.get(f"/machines/{CONTROL_PLANE}").json()
        assert (found["version"], found["schematic"]) == ("v1.13.8", NVIDIA)

    def test_an_unknown_installer_is_not_found(self, api: TalosApi, secrets: Secrets) -> None:
        administrator = running(api, secrets, "worker")
        image = f"factory.talos.dev/nocloud-installer/{NVIDIA}:v1.13.8"
        status, answer = api.call(CONTROL_PLANE, "upgrade", administrator, image=image)
        assert (status, answer["code"]) == (404, "NotFound")
        assert api.get(f"/machines/{CONTROL_PLANE}").json()["version"] == "v1.13.9"


def test_a_reboot_changes_the_boot_and_nothing_else(api: TalosApi, secrets: Secrets) -> None:
    administrator = running(api, secrets, "worker")
    before = api.rack.world.nodes[0]
    assert api.call(CONTROL_PLANE, "reboot", administrator)[0] == 200
    after = api.rack.world.nodes[0]
    assert after.boot_id != before.boot_id
    assert after.model_copy(update={"boot_id": before.boot_id}) == before


def test_what_a_machine_knows_is_on_disk(api: TalosApi, secrets: Secrets, tmp_path: Path) -> None:
    api.call(CONTROL_PLANE, "bootstrap", running(api, secrets))
    again = Rack(Settings(home=tmp_path / "rack"))
    assert again.world.cluster == api.rack.world.cluster
    assert json.loads(again.world.model_dump_json()) == json.loads(api.rack.world.model_dump_json())
