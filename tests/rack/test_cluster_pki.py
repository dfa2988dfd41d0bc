"""Certificates of the control plane come from the cluster's own authorities."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from ruamel.yaml import YAML

from rack.authority import AuthorityError
from rack.cluster.pki import SUBJECTS, Pki
from rack.settings import Settings
from rack.world.nodefacts import ClusterFacts
from tests.rack.clusterfacts import cluster_facts


@pytest.fixture(scope="module")
def facts() -> ClusterFacts:
    return cluster_facts()


@pytest.fixture
def pki(facts: ClusterFacts, tmp_path: Path) -> Pki:
    made = Pki(Settings(home=tmp_path), facts)
    made.write()
    return made


def read(pki: Pki, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((pki.folder / f"{name}.crt").read_bytes())


@pytest.mark.parametrize("name", SUBJECTS)
def test_each_certificate_is_its_own_authoritys(pki: Pki, facts: ClusterFacts, name: str) -> None:
    texts = {
        "kubernetes": facts.kubernetes_ca,
        "aggregator": facts.aggregator_ca,
        "etcd": facts.etcd_ca,
    }
    own = SUBJECTS[name].authority
    for other, text in texts.items():
        issuer = x509.load_pem_x509_certificate(text.encode())
        if other == own:
            read(pki, name).verify_directly_issued_by(issuer)
        else:
            with pytest.raises(ValueError, match="[Ii]ssuer"):
                read(pki, name).verify_directly_issued_by(issuer)


@pytest.mark.parametrize("name", SUBJECTS)
def test_only_servers_serve(pki: Pki, name: str) -> None:
    usage = read(pki, name).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert (ExtendedKeyUsageOID.SERVER_AUTH in usage) == SUBJECTS[name].is_server


def test_the_api_server_is_reached_by_its_service_and_the_endpoint(pki: Pki) -> None:
    names = read(pki, "apiserver").extensions.get_extension_for_class(x509.SubjectAlternativeName)
    found = {str(name.value) for name in names.value}
    assert found >= {"127.0.0.1", "10.96.0.1", "cluster.example", "kubernetes.default.svc"}


def test_files_are_for_their_owner_only(pki: Pki) -> None:
    assert {file.stat().st_mode & 0o077 for file in pki.folder.iterdir()} == {0}
    assert pki.folder.stat().st_mode & 0o077 == 0


def test_the_administrators_kubeconfig(pki: Pki, facts: ClusterFacts, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    pki.write_administrator(file)
    document = YAML(typ="safe", pure=True).load(file.read_text())
    assert document["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    encoded = document["users"][0]["user"]["client-certificate-data"]
    subject = x509.load_pem_x509_certificate(base64.b64decode(encoded)).subject
    groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert [group.value for group in groups] == ["system:masters"]


def test_secrets_that_do_not_fit_make_no_cluster(facts: ClusterFacts, tmp_path: Path) -> None:
    wrong = facts.model_copy(update={"etcd_ca_key": facts.kubernetes_ca_key})
    with pytest.raises(AuthorityError, match="does not belong"):
        Pki(Settings(home=tmp_path), wrong).write()
