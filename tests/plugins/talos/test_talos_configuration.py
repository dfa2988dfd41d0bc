"""getConfiguration of machine and client, and the functions that only compute."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rack.plugins.contract import UNKNOWN, PluginError
from rack.plugins.talos import documents, machine_secrets, yamltext
from rack.plugins.talos.provider import TalosProvider
from rack.world.machine_config import load
from rack.world.machine_config_rules import validate
from rack.world.releases import releases
from tests.plugins.proxmoxve.driver import CheckFailedError, Engine

MACHINE = "talos:machine/getConfiguration:getConfiguration"
CLIENT = "talos:client/getConfiguration:getConfiguration"
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def secrets() -> dict[str, Any]:
    return machine_secrets.generate(NOW)


@pytest.fixture
def engine() -> Engine:
    return Engine(TalosProvider())


@pytest.fixture
def arguments(secrets: dict[str, Any]) -> dict[str, Any]:
    return {
        "clusterName": "rack",
        "clusterEndpoint": "https://127.0.0.1:6443",
        "machineType": "controlplane",
        "machineSecrets": secrets,
        "kubernetesVersion": "v1.34.4",
        "talosVersion": "v1.13.9",
    }


def generated(engine: Engine, arguments: dict[str, Any], **changes: Any) -> list[dict[str, Any]]:
    text = engine.invoke(MACHINE, {**arguments, **changes})["machineConfiguration"]
    documents.read(text, "generated")
    return yamltext.load(text)


def test_a_control_plane_holds_every_authority_with_its_key(
    engine: Engine, arguments: dict[str, Any], secrets: dict[str, Any]
) -> None:
    main = generated(engine, arguments)[0]
    certs = secrets["certs"]
    expected = {"crt": certs["k8s"]["cert"], "key": certs["k8s"]["key"]}
    assert main["machine"]["type"] == "controlplane"
    assert main["cluster"]["ca"] == expected
    assert main["cluster"]["etcd"]["ca"]["key"] == certs["etcd"]["key"]
    assert main["cluster"]["serviceAccount"] == {"key": certs["k8sServiceaccount"]["key"]}
    assert main["machine"]["ca"]["key"] == certs["os"]["key"]
    assert main["cluster"]["secretboxEncryptionSecret"]


def test_a_worker_holds_no_key(engine: Engine, arguments: dict[str, Any]) -> None:
    main = generated(engine, arguments, machineType="worker")[0]
    assert main["machine"]["ca"]["key"] == main["cluster"]["ca"]["key"] == ""
    assert not {"etcd", "aggregatorCA", "serviceAccount", "apiServer"} & main["cluster"].keys()
    assert main["cluster"]["clusterName"] == "rack"


def test_images_follow_the_kubernetes_version_with_and_without_v(
    engine: Engine, arguments: dict[str, Any]
) -> None:
    for version in ("v1.34.4", "1.34.4"):
        main = generated(engine, arguments, kubernetesVersion=version)[0]
        assert main["machine"]["kubelet"]["image"] == "ghcr.io/siderolabs/kubelet:v1.34.4"
        images = {name: part["image"] for name, part in main["cluster"].items() if "image" in part}
        assert images == {
            "apiServer": "registry.k8s.io/kube-apiserver:v1.34.4",
            "controllerManager": "registry.k8s.io/kube-controller-manager:v1.34.4",
            "proxy": "registry.k8s.io/kube-proxy:v1.34.4",
            "scheduler": "registry.k8s.io/kube-scheduler:v1.34.4",
        }


def test_pod_security_enforces_baseline_outside_kube_system(
    engine: Engine, arguments: dict[str, Any]
) -> None:
    (plugin,) = generated(engine, arguments)[0]["cluster"]["apiServer"]["admissionControl"]
    assert plugin["name"] == "PodSecurity"
    assert plugin["configuration"]["defaults"]["enforce"] == "baseline"
    assert plugin["configuration"]["exemptions"]["namespaces"] == ["kube-system"]


def test_from_1_12_on_the_hostname_is_a_document(engine: Engine, arguments: dict[str, Any]) -> None:
    main, hostname = generated(engine, arguments, talosVersion="v1.12")
    assert hostname == {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "stable"}
    assert "stableHostname" not in main["machine"]["features"]
    assert main["machine"]["install"]["grubUseUKICmdline"] is True
    (old,) = generated(engine, arguments, talosVersion="1.11.6")
    assert old["machine"]["features"]["stableHostname"] is True
    assert old["machine"]["features"]["rbac"] is True
    assert old["cluster"]["apiServer"]["certSANs"] == ["127.0.0.1"]
    assert "grubUseUKICmdline" not in old["machine"]["install"]


def test_machine_network_is_written_up_to_1_12(engine: Engine, arguments: dict[str, Any]) -> None:
    assert "network" in generated(engine, arguments, talosVersion="v1.12")[0]["machine"]
    assert "network" not in generated(engine, arguments, talosVersion="v1.13")[0]["machine"]


def test_patches_are_applied_in_order(engine: Engine, arguments: dict[str, Any]) -> None:
    patches = [
        "machine: {install: {image: first}, kernel: {modules: [{name: nvidia}]}}",
        "machine: {install: {image: second}}",
        "apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: k8s-cp-1\nauto: 'off'\n",
    ]
    main, hostname = generated(engine, arguments, configPatches=patches)
    assert main["machine"]["install"]["image"] == "second"
    assert main["machine"]["kernel"] == {"modules": [{"name": "nvidia"}]}
    assert (hostname["auto"], hostname["hostname"]) == ("off", "k8s-cp-1")


def test_defaults_are_those_of_the_official_plugin(
    engine: Engine, arguments: dict[str, Any]
) -> None:
    del arguments["kubernetesVersion"], arguments["talosVersion"]
    answer = engine.invoke(MACHINE, arguments)
    assert (answer["talosVersion"], answer["kubernetesVersion"]) == ("v1.13", "1.36.0")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"configPatches": ["machine: {kernl: {}}"]}, "machine.kernl"),
        ({"clusterEndpoint": "127.0.0.1:6443"}, "clusterEndpoint"),
        ({"clusterEndpoint": "http://127.0.0.1:6443"}, "clusterEndpoint"),
        ({"talosVersion": "latest"}, "talosVersion"),
        ({"talosVersion": "v1.7"}, "from v1.8 on"),
    ],
)
def test_wrong_arguments_are_refused_by_name(
    engine: Engine, arguments: dict[str, Any], changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(PluginError, match=named):
        engine.invoke(MACHINE, {**arguments, **changes})


def test_another_machine_type_is_refused(engine: Engine, arguments: dict[str, Any]) -> None:
    with pytest.raises(CheckFailedError, match="machineType"):
        engine.invoke(MACHINE, {**arguments, "machineType": "init"})


def test_secrets_in_snake_case_are_refused_by_name(
    engine: Engine, arguments: dict[str, Any], secrets: dict[str, Any]
) -> None:
    snake = {
        **secrets,
        "secrets": {
            "bootstrap_token": secrets["secrets"]["bootstrapToken"],
            "secretbox_encryption_secret": secrets["secrets"]["secretboxEncryptionSecret"],
        },
    }
    with pytest.raises(CheckFailedError) as refused:
        engine.invoke(MACHINE, {**arguments, "machineSecrets": snake})
    assert "machineSecrets.secrets.bootstrap_token" in refused.value.failures
    assert "machineSecrets.secrets.bootstrapToken" in refused.value.failures
    assert secrets["secrets"]["bootstrapToken"] not in str(refused.value)


def test_certificates_that_are_not_base64_are_refused_without_showing_them(
    engine: Engine, arguments: dict[str, Any], secrets: dict[str, Any]
) -> None:
    certs = {**secrets["certs"], "os": {"cert": "x", "key": "-----BEGIN hunter2"}}
    broken = {**secrets, "certs": certs}
    with pytest.raises(PluginError, match=r"machineSecrets\.certs\.os\.cert") as refused:
        engine.invoke(MACHINE, {**arguments, "machineSecrets": broken})
    assert "hunter2" not in str(refused.value)


def test_with_unknown_arguments_there_is_no_result(
    engine: Engine, arguments: dict[str, Any]
) -> None:
    assert engine.invoke(MACHINE, {**arguments, "machineSecrets": UNKNOWN}) == {}


def test_a_talosconfig_carries_the_client_certificate(
    engine: Engine, secrets: dict[str, Any]
) -> None:
    client = machine_secrets.client_configuration(secrets, NOW)
    given = {"clusterName": "rack", "clientConfiguration": client}
    answer = engine.invoke(CLIENT, {**given, "endpoints": ["127.0.0.1"], "nodes": ["127.0.0.2"]})
    (config,) = yamltext.load(answer["talosConfig"])
    assert config == {
        "context": "rack",
        "contexts": {
            "rack": {
                "endpoints": ["127.0.0.1"],
                "nodes": ["127.0.0.2"],
                "ca": client["caCertificate"],
                "crt": client["clientCertificate"],
                "key": client["clientKey"],
            }
        },
    }


def test_urls_are_made_from_the_factory(engine: Engine) -> None:
    engine.configure(imageFactoryUrl="http://127.0.0.1:8480/")
    given = {"talosVersion": "v1.13.9", "schematicId": "abc", "platform": "nocloud"}
    urls = engine.invoke("talos:imageFactory/getUrls:getUrls", given)["urls"]
    base = "http://127.0.0.1:8480/image/abc/v1.13.9"
    assert urls["diskImage"] == f"{base}/nocloud-amd64.raw.xz"
    assert urls["installer"] == "127.0.0.1:8480/nocloud-installer/abc:v1.13.9"
    with pytest.raises(PluginError, match="metal and nocloud, not of aws"):
        engine.invoke("talos:imageFactory/getUrls:getUrls", {**given, "platform": "aws"})


@pytest.mark.parametrize("machine_type", ["controlplane", "worker"])
@pytest.mark.parametrize("talos", ["v1.9.6", "v1.11.6", "v1.12.6", "v1.13.9"])
def test_a_machine_accepts_what_the_plugin_generates(
    engine: Engine, arguments: dict[str, Any], machine_type: str, talos: str
) -> None:
    release = releases()[talos]
    changes = {"machineType": machine_type, "talosVersion": talos}
    versions = {"kubernetesVersion": release.kubernetes_default}
    text = engine.invoke(MACHINE, {**arguments, **changes, **versions})["machineConfiguration"]
    config = load(text, release)
    validate(config, release)
    assert config.role == machine_type
