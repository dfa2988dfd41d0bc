"""The plugin's configuration, its resources without a machine, and what it refuses."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pulumi.provider.experimental import provider as protocol

from rack.plugins.contract import UNKNOWN, PluginError
from rack.plugins.talos.provider import TalosProvider
from tests.plugins.proxmoxve.driver import CheckFailedError, Engine, encode_map, run
from tests.plugins.talos.fakerack import FakeRack, answers
from tests.plugins.talos.inputs import (
    APPLY,
    BOOTSTRAP,
    KUBECONFIG,
    SCHEMATIC,
    SECRETS,
    START,
    Clock,
)

# --- provider configuration


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"imageFactoryUrl": "factory"}, "http"),
        ({"imageFactoryUrl": "http://host/path"}, "http"),
        ({"imageFactoryUrl": "http://user:hunter2@host"}, "http"),
        ({"imageFactoryUrl": "http://host:99999"}, "URL"),
        ({"imageFactoryUrl": True}, "string"),
        ({"imageFactoryURL": "http://host"}, "unknown property"),
    ],
)
def test_wrong_provider_configuration_is_refused(values: dict[str, Any], named: str) -> None:
    request = protocol.CheckRequest("urn", {}, encode_map(values), b"")
    response = run(TalosProvider().check_config(request))
    assert [failure.property for failure in response.failures or []] == list(values)
    assert named in (response.failures or [])[0].reason
    assert "hunter2" not in (response.failures or [])[0].reason


@pytest.mark.parametrize("values", [{}, {"imageFactoryUrl": "http://127.0.0.1:8480/"}])
def test_good_provider_configuration_is_accepted(values: dict[str, Any]) -> None:
    engine_own = {"version": "0.8.1", "__internal": {}}
    request = protocol.CheckRequest("urn", {}, encode_map({**values, **engine_own}), b"")
    assert not run(TalosProvider().check_config(request)).failures


@pytest.mark.parametrize(
    "identity",
    [(404, {}), (200, {"simulated_rack": False}), (200, "<html>"), (200, ["simulated_rack"])],
)
def test_a_server_that_is_no_rack_is_refused_at_the_first_contact(
    rack: FakeRack, engine: Engine, identity: tuple[int, Any]
) -> None:
    rack.identity = identity
    assert engine.create(SCHEMATIC, {}, preview=True)
    with pytest.raises(PluginError, match="refusing to run against .*: not a simulated rack"):
        engine.create(SCHEMATIC, {})
    assert rack.requests == []


def test_without_a_url_the_official_factory_is_refused_unasked() -> None:
    engine = Engine(TalosProvider())
    engine.configure()
    with pytest.raises(PluginError, match=r"refusing to run against https://factory\.talos\.dev"):
        engine.create(SCHEMATIC, {})


def test_previews_of_a_new_stack_need_no_rack(
    offline: Engine, apply_inputs: dict[str, Any], client: dict[str, Any]
) -> None:
    access = {"node": UNKNOWN, "clientConfiguration": UNKNOWN}
    made = offline.create(SECRETS, {"talosVersion": "v1.13.9"}, preview=True)[1]
    assert made["machineSecrets"] is UNKNOWN
    assert made["clientConfiguration"] is UNKNOWN
    applied = offline.create(APPLY, {**access, "machineConfigurationInput": UNKNOWN}, preview=True)[
        1
    ]
    assert applied["machineConfiguration"] is UNKNOWN
    assert applied["machineConfigurationHash"] is UNKNOWN
    assert offline.create(BOOTSTRAP, access, preview=True)[1]["node"] is UNKNOWN
    fetched = offline.create(KUBECONFIG, {"node": "n", "clientConfiguration": client}, preview=True)
    assert fetched[1]["kubeconfigRaw"] is UNKNOWN
    with pytest.raises(PluginError, match="Is the simulated rack running"):
        offline.create(APPLY, apply_inputs)


# --- machine:Secrets


def test_secrets_are_made_kept_on_raise_and_replaced_on_lowering(engine: Engine) -> None:
    _, made = engine.create(SECRETS, {"talosVersion": "v1.12.6"})
    assert engine.diff(SECRETS, made, {"talosVersion": "v1.12.6"}) == {}
    assert engine.diff(SECRETS, made, {}) == {}
    raised = {"talosVersion": "v1.13.9"}
    assert engine.diff(SECRETS, made, raised) == {"talosVersion": "UPDATE"}
    assert engine.update(SECRETS, "machine_secrets", made, raised) == {**made, **raised}
    assert engine.diff(SECRETS, made, {"talosVersion": "v1.12.5"}) == {
        "talosVersion": "UPDATE_REPLACE"
    }
    assert engine.diff(SECRETS, made, {"talosVersion": "1.9"}) == {"talosVersion": "UPDATE_REPLACE"}


def test_a_real_site_gets_no_secrets_of_the_stand_in(offline: Engine) -> None:
    with pytest.raises(PluginError, match="Is the simulated rack running"):
        offline.create(SECRETS, {})
    official = Engine(TalosProvider())
    with pytest.raises(PluginError, match="not a simulated rack"):
        official.create(SECRETS, {})


def test_keys_among_the_outputs_are_secret_and_certificates_are_not(engine: Engine) -> None:
    request = protocol.CreateRequest(engine.urn(SECRETS), {}, 0, False)
    outputs = run(engine.provider.create(request)).properties
    client: Any = outputs["clientConfiguration"].value
    assert client["clientKey"].is_secret
    assert not client["caCertificate"].is_secret
    etcd: Any = outputs["machineSecrets"].value
    assert etcd["certs"].value["etcd"].value["key"].is_secret
    assert etcd["cluster"].value["secret"].is_secret
    assert not etcd["cluster"].value["id"].is_secret


def test_the_client_certificate_is_renewed_a_month_before_its_end(
    engine: Engine, clock: Clock
) -> None:
    _, made = engine.create(SECRETS, {"talosVersion": "v1.13"})
    clock.now = START + timedelta(days=300)
    assert engine.diff(SECRETS, made, {}) == {}
    clock.now = START + timedelta(days=340)
    assert engine.diff(SECRETS, made, {}) == {"clientConfiguration": "UPDATE"}
    renewed = engine.update(SECRETS, "machine_secrets", made, {})
    assert renewed["machineSecrets"] == made["machineSecrets"]
    assert renewed["clientConfiguration"] != made["clientConfiguration"]
    assert engine.diff(SECRETS, renewed, {}) == {}


@pytest.mark.parametrize(("version", "named"), [("latest", "v1.13.9"), ("v1.7.0", "from v1.8 on")])
def test_unknown_talos_versions_are_refused(offline: Engine, version: str, named: str) -> None:
    with pytest.raises(CheckFailedError, match=named):
        offline.create(SECRETS, {"talosVersion": version})


# --- imageFactory:Schematic


def test_the_schematic_id_is_the_factorys(rack: FakeRack, engine: Engine) -> None:
    answers(rack, "/schematics", (201, {"id": "aaa"}), (201, {"id": "bbb"}))
    text = "customization:\n  extraKernelArgs: [quiet]\n"
    made, state = engine.create(SCHEMATIC, {"schematic": text})
    assert (made, state["schematic"]) == ("aaa", text)
    assert rack.asked("/schematics") == [text]
    changed = {"schematic": "customization: {}\n"}
    assert engine.diff(SCHEMATIC, state, changed) == {"schematic": "UPDATE"}
    updated = engine.update(SCHEMATIC, "aaa", state, changed)
    # The engine keeps the old id until a refresh: the trap of the official plugin.
    assert engine.read(SCHEMATIC, "aaa", updated, changed)[0] == "bbb"
    engine.delete(SCHEMATIC, "bbb", updated)
    assert len(rack.requests) == 2


def test_no_schematic_is_the_vanilla_one(rack: FakeRack, engine: Engine) -> None:
    answers(rack, "/schematics", (201, {"id": "376567"}))
    engine.create(SCHEMATIC, {})
    assert rack.asked("/schematics") == ["customization: {}\n"]


def test_a_schematic_that_the_factory_refuses_is_an_error(rack: FakeRack, engine: Engine) -> None:
    answers(rack, "/schematics", (400, "yaml: field foo not found"))
    with pytest.raises(PluginError, match="field foo not found"):
        engine.create(SCHEMATIC, {"schematic": "foo: 1"})


# --- everything else


@pytest.mark.parametrize("token", [SECRETS, SCHEMATIC, APPLY, KUBECONFIG])
def test_import_is_refused_with_a_reason(offline: Engine, token: str) -> None:
    with pytest.raises(PluginError, match="import"):
        offline.read(token, "some-id")


def test_a_refresh_keeps_the_state_as_the_official_plugin_does(
    offline: Engine, apply_inputs: dict[str, Any]
) -> None:
    assert offline.read(APPLY, "id", apply_inputs, apply_inputs) == (
        "id",
        apply_inputs,
        apply_inputs,
    )


def test_unknown_resources_and_functions_are_refused(offline: Engine) -> None:
    with pytest.raises(PluginError, match="no resource"):
        offline.check("talos:machine/nope:Nope", {})
    client = {"caCertificate": "", "clientCertificate": "", "clientKey": ""}
    given = {"node": "n", "clientConfiguration": client}
    with pytest.raises(PluginError, match="not part of the simulated rack"):
        offline.invoke("talos:machine/getDisks:getDisks", given)


def test_the_factory_is_asked_for_versions_and_extensions(rack: FakeRack, engine: Engine) -> None:
    def script(method: str, path: str, body: bytes) -> tuple[int, Any]:
        del method, body
        if path == "/versions":
            return 200, ["v1.13.9", "v1.14.0-rc.1"]
        return 200, [{"name": "siderolabs/nvidia-a"}, {"name": "siderolabs/qemu-guest-agent"}]

    rack.script = script
    versions = "talos:imageFactory/getVersions:getVersions"
    assert len(engine.invoke(versions, {})["talosVersions"]) == 2
    stable = engine.invoke(versions, {"filters": {"stableVersionsOnly": True}})
    assert stable["talosVersions"] == ["v1.13.9"]
    extensions = "talos:imageFactory/getExtensionsVersions:getExtensionsVersions"
    found = engine.invoke(extensions, {"talosVersion": "1.13.9", "filters": {"names": ["nvidia"]}})
    assert [info["name"] for info in found["extensionsInfos"]] == ["siderolabs/nvidia-a"]
    assert rack.requests[-1][1] == "/version/v1.13.9/extensions/official"
