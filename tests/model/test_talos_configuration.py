"""Machine configurations: what Talos accepts, and its words for the rest."""

from __future__ import annotations

from typing import Any

import pytest

from rack.world.machine_config import InvalidConfiguration, MachineConfig, load
from rack.world.machine_config_rules import validate
from rack.world.releases import releases
from tests.model.talosworld import b64, changed, documents, text


def check(yaml: str, version: str = "v1.13.9") -> MachineConfig:
    config = load(yaml, releases()[version])
    validate(config, releases()[version])
    return config


def refusal(yaml: str, version: str = "v1.13.9") -> str:
    with pytest.raises(InvalidConfiguration) as error:
        check(yaml, version)
    return str(error.value)


@pytest.mark.parametrize("role", ["controlplane", "worker"])
def test_a_generated_configuration_is_accepted(role: str) -> None:
    assert check(text(documents(role))).role == role


def test_an_unknown_key_is_refused_with_its_path() -> None:
    found = refusal(text(changed(documents(), "machine.kernel.module", [])))
    assert found.endswith(
        "unknown keys found during decoding:\nmachine:\n    kernel:\n        module: []\n"
    )
    assert "error decoding document /v1alpha1/ (line 1)" in found


def test_an_unknown_key_inside_a_list_is_refused() -> None:
    modules = [{"name": "nvidia", "options": ["x"]}]
    found = refusal(text(changed(documents(), "machine.kernel.modules", modules)))
    assert "modules:\n            - options:\n" in found
    assert "nvidia" not in found.replace("options", "")


@pytest.mark.parametrize(
    "path",
    ["machine.kubelet.extraConfig", "cluster.apiServer.extraArgs", "machine.sysctls"],
)
def test_free_parts_take_any_key(path: str) -> None:
    check(text(changed(documents("controlplane"), path, {"net.core.bpf_jit_harden": "1"})))


def test_keys_that_talos_deprecated_are_still_read() -> None:
    network = {"nameservers": ["127.0.0.254"], "interfaces": [{"interface": "eth0", "dhcp": True}]}
    check(text(changed(documents(), "machine.network", network)))
    check(text(changed(documents(), "machine.registries", {"mirrors": {"docker.io": {}}})))


def test_a_key_of_a_newer_talos_is_unknown_to_an_older_one() -> None:
    found = changed(documents(), "machine.install.grubUseUKICmdline", True)
    check(text(found), "v1.13.9")
    assert "grubUseUKICmdline: true" in refusal(text(found[:1]), "v1.11.6")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("machine.kernel", [], "cannot unmarshal !!seq into a mapping"),
        ("machine.kernel.modules", {}, "cannot unmarshal !!map into a list"),
        (
            "machine.features",
            {"diskQuotaSupport": "maybe"},
            "cannot unmarshal !!str `maybe` into bool",
        ),
        ("machine.features", {"kubePrism": {"port": "high"}}, "into int"),
        ("machine.token", {"a": 1}, "cannot unmarshal !!map into string"),
        ("machine.ca", {"crt": "no base64!"}, "illegal base64 data"),
    ],
)
def test_a_wrong_type_is_refused(path: str, value: Any, message: str) -> None:
    found = refusal(text(changed(documents(), path, value)))
    assert "yaml: unmarshal errors:\n  line " in found
    assert message in found


def test_a_secret_with_a_wrong_form_is_not_repeated() -> None:
    found = refusal(text(changed(documents(), "cluster.ca", {"crt": "top secret key"})))
    assert "secret" not in found


def test_what_is_no_yaml_is_refused_without_its_text() -> None:
    found = refusal("machine: {token: hunter2\n")
    assert found.startswith("decode error: yaml: line ")
    assert "hunter2" not in found


def test_a_number_may_stand_for_a_text() -> None:
    check(text(changed(documents(), "machine.sysctls", {"vm.nr_hugepages": 1024})))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"apiVersion": "v1alpha1", "kind": "HostName"}, '"HostName" "v1alpha1": not registered'),
        ({"apiVersion": "v1", "kind": "LinkConfig"}, '"LinkConfig" "v1": not registered'),
        ({"kind": "LinkConfig", "name": "eth0"}, "missing apiVersion"),
        ({"name": "eth0"}, "missing kind"),
        ({"apiVersion": "v1alpha1", "kind": "LinkConfig"}, "LinkConfig: name is required"),
        (
            {"apiVersion": "v1alpha1", "kind": "LinkConfig", "name": "eth0", "speed": 1},
            "unknown keys found during decoding:\nspeed: 1\n",
        ),
    ],
)
def test_other_documents_are_checked_as_well(document: dict[str, Any], message: str) -> None:
    assert message in refusal(text([*documents(), document]))


def test_a_good_document_passes() -> None:
    link = {
        "apiVersion": "v1alpha1",
        "kind": "LinkConfig",
        "name": "eth0",
        "addresses": [{"address": "127.0.0.9/24"}],
    }
    assert check(text([*documents(), link])).static_addresses == ["127.0.0.9"]


def test_the_same_document_twice_is_refused() -> None:
    found = documents()
    assert "duplicate document v1alpha1/HostnameConfig/ is not allowed" in refusal(
        text([*found, found[1]])
    )


def test_a_kind_of_a_newer_talos_is_not_registered_in_an_older_one() -> None:
    assert "not registered" in refusal(text(documents()), "v1.11.6")
    check(text(documents()[:1]), "v1.11.6")


class TestHostname:
    def test_a_static_hostname_conflicts_with_the_document(self) -> None:
        found = changed(documents(), "machine.network.hostname", "other")
        assert "static hostname is already set in v1alpha1 config" in refusal(text(found))
        assert check(text(found[:1])).static_hostname == "other"
        assert check(text(found[:1]), "v1.11.6").static_hostname == "other"

    def test_the_old_switch_conflicts_with_the_document(self) -> None:
        found = changed(documents(), "machine.features.stableHostname", True)
        assert "stable hostname is already set in v1alpha1 config" in refusal(text(found))
        check(text(found[:1]))

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"auto": "stable", "hostname": "a"}, "'auto' and 'hostname' cannot be set"),
            ({}, "either 'auto' or 'hostname' must be set"),
            ({"auto": False, "hostname": "a"}, "'false' is not one of stable, off"),
            ({"auto": "talos-addr"}, "'talos-addr' is not one of stable, off"),
            ({"hostname": "a" * 64}, "invalid hostname"),
        ],
    )
    def test_a_wrong_document_is_refused(self, fields: dict[str, Any], message: str) -> None:
        document = {"apiVersion": "v1alpha1", "kind": "HostnameConfig", **fields}
        assert message in refusal(text([documents()[0], document]))

    @pytest.mark.parametrize("fields", [{"hostname": "a"}, {"auto": "off", "hostname": "a"}])
    def test_a_name_goes_with_no_automatic_one(self, fields: dict[str, Any]) -> None:
        document = {"apiVersion": "v1alpha1", "kind": "HostnameConfig", **fields}
        assert check(text([documents()[0], document])).static_hostname == "a"


@pytest.mark.parametrize(
    ("role", "path", "value", "message"),
    [
        ("worker", "machine.type", "node", 'unknown machine type "node"'),
        ("worker", "machine.ca", None, "issuing CA or some accepted CAs are required"),
        (
            "worker",
            "machine.ca",
            {"crt": b64("c"), "key": b64("k")},
            "Talos API CA key is not allowed",
        ),
        ("controlplane", "machine.ca", {"crt": b64("c")}, "issuing CA key is required"),
        (
            "worker",
            "cluster.ca",
            {"crt": b64("c"), "key": b64("k")},
            "cluster CA key is not allowed",
        ),
        ("worker", "cluster.etcd", {"image": "x"}, "etcd config is only allowed on control plane"),
        (
            "controlplane",
            "cluster.etcd",
            {"image": "x"},
            "key/cert combination should not be empty",
        ),
        ("worker", "cluster.controlPlane", {}, "cluster controlplane endpoint is required"),
        ("worker", "cluster.controlPlane.endpoint", "127.0.0.1", "invalid controlplane endpoint"),
        ("controlplane", "cluster.network.cni", {"name": "calico"}, "cni name should be one of"),
        ("worker", "machine.nodeLabels", {"bad key": "x"}, 'name "bad key" is invalid'),
        ("worker", "machine.nodeLabels", {"a": "x" * 64}, "label value"),
        ("worker", "machine.nodeTaints", {"a": "x:Never"}, 'invalid taint effect "Never"'),
        ("worker", "machine.nodeAnnotations", {"talos.dev/owned-labels": "[]"}, "is reserved"),
        ("worker", "machine.kubelet.extraConfig", {"port": 1}, 'field "port" can\'t be overridden'),
        ("worker", "persist", False, ".persist should be enabled"),
        (
            "worker",
            "machine.features.hostDNS",
            {"forwardKubeDNSToHost": True},
            "requires hostDNS.enabled to be true",
        ),
        (
            "worker",
            "machine.features.kubernetesTalosAPIAccess",
            {"enabled": True},
            "can only be enabled on control plane machines",
        ),
        (
            "worker",
            "machine.network",
            {"interfaces": [{"interface": "eth0", "vip": {"ip": "127.0.0.9"}}]},
            "virtual (shared) IP is not allowed",
        ),
    ],
)
def test_rules_of_roles_and_values(role: str, path: str, value: Any, message: str) -> None:
    found = refusal(text(changed(documents(role), path, value)))
    assert message in found
    assert found.startswith("1 error occurred:\n\t* v1alpha1.Config: 1 error occurred:\n\t* ")


@pytest.mark.parametrize(
    ("role", "path", "value"),
    [
        ("worker", "machine.nodeLabels", {"example.org/a_b.c": "x-1", "empty": ""}),
        ("worker", "machine.nodeTaints", {"gpu": "NoSchedule", "other": "x:NoExecute"}),
        ("worker", "machine.features.hostDNS", {"enabled": True, "forwardKubeDNSToHost": True}),
        ("controlplane", "cluster.network.cni", {"name": "none"}),
        ("worker", "machine.install", {"wipe": False}),
        ("controlplane", "machine.type", "init"),
    ],
)
def test_their_neighbours_are_accepted(role: str, path: str, value: Any) -> None:
    check(text(changed(documents(role), path, value)))


def test_several_problems_are_said_at_once() -> None:
    found = changed(changed(documents(), "machine.type", "x"), "persist", False)
    said = refusal(text(found))
    assert "2 errors occurred" in said
    assert 'unknown machine type "x"' in said
    assert ".persist should be enabled" in said


@pytest.mark.parametrize(
    ("path", "image", "message"),
    [
        (
            "machine.kubelet.image",
            "kubelet:v1.37.0",
            "kubelet image is not valid: version of Kubernetes 1.37.0 is too new to be used with"
            " Talos 1.13.9",
        ),
        ("machine.kubelet.image", "kubelet:v1.30.1", "too old"),
        ("machine.kubelet.image", "kubelet:latest", "invalid image reference"),
        ("cluster.apiServer.image", "kube-apiserver:v1.37.0", "kube-apiserver image is not valid"),
    ],
)
def test_kubernetes_must_fit_talos(path: str, image: str, message: str) -> None:
    assert message in refusal(text(changed(documents("controlplane"), path, image)))


@pytest.mark.parametrize(
    "image", ["kubelet:v1.31.0", "kubelet:v1.36.3", "kubelet:v1.34.4@sha256:ab"]
)
def test_kubernetes_of_the_range_fits(image: str) -> None:
    check(text(changed(documents(), "machine.kubelet.image", image)))


def test_what_a_machine_reads_from_its_configuration() -> None:
    config = check(text(documents("controlplane")))
    assert config.pem("cluster", "ca", "crt") == "kubernetes ca"
    assert config.accepted_certificates("machine") == "talos ca"
    assert config.image_version("machine", "kubelet", "image") == "1.34.4"
    assert config.endpoint == "https://127.0.0.1:6443"
    assert config.cluster_name == "rack"
    assert config.pod_security_default == "privileged"
    plugin = [{"name": "PodSecurity", "configuration": {"defaults": {"enforce": "baseline"}}}]
    strict = text(changed(documents("controlplane"), "cluster.apiServer.admissionControl", plugin))
    assert check(strict).pod_security_default == "baseline"
