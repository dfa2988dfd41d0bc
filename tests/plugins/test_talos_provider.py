"""The plugin's resources, driven as the engine drives them, against a scripted rack."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pulumi.provider.experimental import provider as protocol

from rack.plugins.contract import UNKNOWN, PluginError
from rack.plugins.talos import machine_secrets, pki, yamltext
from rack.plugins.talos.provider import TalosProvider
from tests.plugins.proxmoxve.driver import CheckFailedError, Engine, encode_map, run
from tests.plugins.talosrack import FakeRack, serve

SECRETS = "talos:machine/secrets:Secrets"
SCHEMATIC = "talos:imageFactory/schematic:Schematic"
APPLY = "talos:machine/configurationApply:ConfigurationApply"
BOOTSTRAP = "talos:machine/bootstrap:Bootstrap"
KUBECONFIG = "talos:cluster/kubeconfig:Kubeconfig"
START = datetime(2026, 3, 1, tzinfo=UTC)
CONFIGURATION = "version: v1alpha1\nmachine: {type: worker, token: hunter2}\n"


@dataclass
class Clock:
    now: datetime = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rack() -> Iterator[FakeRack]:
    with serve(FakeRack()) as fake:
        yield fake


@pytest.fixture
def engine(rack: FakeRack, clock: Clock) -> Engine:
    engine = Engine(TalosProvider(now=clock))
    engine.configure(imageFactoryUrl=rack.url)
    return engine


@pytest.fixture
def offline(clock: Clock) -> Engine:
    """A plugin whose rack cannot be reached."""
    engine = Engine(TalosProvider(now=clock))
    engine.configure(imageFactoryUrl="http://127.0.0.1:9")
    return engine


@pytest.fixture(scope="module")
def client() -> dict[str, Any]:
    return machine_secrets.client_configuration(
        {"certs": {"os": _encoded(pki.talos_authority(START))}}, START
    )


@pytest.fixture
def apply_inputs(client: dict[str, Any]) -> dict[str, Any]:
    return {
        "node": "127.0.0.2",
        "clientConfiguration": client,
        "machineConfigurationInput": CONFIGURATION,
        "timeouts": {"create": "5s", "update": "5s", "delete": "5s"},
    }


def _encoded(pair: pki.Pair) -> dict[str, str]:
    return {"cert": pki.encode(pair.certificate), "key": pki.encode(pair.key)}


def answers(rack: FakeRack, ending: str, *given: tuple[int, Any]) -> None:
    """Answer requests to a path in turn; the last answer stays."""
    left = list(given)

    def script(method: str, path: str, body: bytes) -> tuple[int, Any] | None:
        del method, body
        if not path.endswith(ending):
            return None
        return left.pop(0) if len(left) > 1 else left[0]

    rack.script = script


UNAVAILABLE = (503, {"code": "Unavailable", "message": "connection refused"})


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


def test_secrets_are_made_kept_on_raise_and_replaced_on_lowering(offline: Engine) -> None:
    _, made = offline.create(SECRETS, {"talosVersion": "v1.12.6"})
    assert offline.diff(SECRETS, made, {"talosVersion": "v1.12.6"}) == {}
    assert offline.diff(SECRETS, made, {}) == {}
    raised = {"talosVersion": "v1.13.9"}
    assert offline.diff(SECRETS, made, raised) == {"talosVersion": "UPDATE"}
    assert offline.update(SECRETS, "machine_secrets", made, raised) == {**made, **raised}
    assert offline.diff(SECRETS, made, {"talosVersion": "v1.12.5"}) == {
        "talosVersion": "UPDATE_REPLACE"
    }
    assert offline.diff(SECRETS, made, {"talosVersion": "1.9"}) == {
        "talosVersion": "UPDATE_REPLACE"
    }


def test_keys_among_the_outputs_are_secret_and_certificates_are_not(clock: Clock) -> None:
    provider = TalosProvider(now=clock)
    request = protocol.CreateRequest(Engine(provider).urn(SECRETS), {}, 0, False)
    outputs = run(provider.create(request)).properties
    client: Any = outputs["clientConfiguration"].value
    assert client["clientKey"].is_secret
    assert not client["caCertificate"].is_secret
    etcd: Any = outputs["machineSecrets"].value
    assert etcd["certs"].value["etcd"].value["key"].is_secret
    assert etcd["cluster"].value["secret"].is_secret
    assert not etcd["cluster"].value["id"].is_secret


def test_the_client_certificate_is_renewed_a_month_before_its_end(
    offline: Engine, clock: Clock
) -> None:
    _, made = offline.create(SECRETS, {"talosVersion": "v1.13"})
    clock.now = START + timedelta(days=300)
    assert offline.diff(SECRETS, made, {}) == {}
    clock.now = START + timedelta(days=340)
    assert offline.diff(SECRETS, made, {}) == {"clientConfiguration": "UPDATE"}
    renewed = offline.update(SECRETS, "machine_secrets", made, {})
    assert renewed["machineSecrets"] == made["machineSecrets"]
    assert renewed["clientConfiguration"] != made["clientConfiguration"]
    assert offline.diff(SECRETS, renewed, {}) == {}


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


# --- machine:ConfigurationApply


def test_a_configuration_is_applied_signed_and_kept_in_the_state(
    rack: FakeRack, engine: Engine, apply_inputs: dict[str, Any]
) -> None:
    answers(rack, "/machines/127.0.0.2/apply", (200, {}))
    made, state = engine.create(
        APPLY, {**apply_inputs, "configPatches": ["machine: {install: {disk: /dev/vda}}"]}
    )
    (sent,) = rack.asked("/apply")
    (applied,) = yamltext.load(sent["configuration"])
    assert made == "machine_configuration_apply"
    assert applied["machine"]["install"] == {"disk": "/dev/vda"}
    assert sent["mode"] == state["resolvedApplyMode"] == "auto"
    assert state["machineConfiguration"] == sent["configuration"]
    assert len(state["machineConfigurationHash"]) == 64
    assert state["endpoint"] == "127.0.0.2"
    assert rack.bad_signatures == 0
    key = base64.b64decode(apply_inputs["clientConfiguration"]["clientKey"]).decode()
    assert key.splitlines()[1] not in str(rack.requests)


def test_apply_is_tried_again_until_the_machine_is_there(
    rack: FakeRack, engine: Engine, apply_inputs: dict[str, Any]
) -> None:
    answers(rack, "/apply", UNAVAILABLE, UNAVAILABLE, (200, {}))
    engine.create(APPLY, apply_inputs)
    assert len(rack.asked("/apply")) == 3


def test_apply_gives_up_at_its_timeout_with_the_last_error(
    rack: FakeRack, engine: Engine, apply_inputs: dict[str, Any]
) -> None:
    answers(rack, "/apply", UNAVAILABLE)
    started = time.monotonic()
    expected = r"applying configuration to node 127\.0\.0\.2: gave up after 0\.2 s: .*refused"
    with pytest.raises(PluginError, match=expected):
        engine.create(APPLY, {**apply_inputs, "timeouts": {"create": "200ms"}})
    assert time.monotonic() - started < 3
    assert len(rack.asked("/apply")) > 1


def test_an_invalid_configuration_is_not_tried_again_nor_shown(
    rack: FakeRack, engine: Engine, apply_inputs: dict[str, Any]
) -> None:
    invalid = (400, {"code": "InvalidArgument", "message": "static hostname is already set"})
    answers(rack, "/apply", invalid)
    with pytest.raises(PluginError, match="static hostname is already set") as refused:
        engine.create(APPLY, apply_inputs)
    assert len(rack.asked("/apply")) == 1
    assert "hunter2" not in str(refused.value)


def test_a_cancelled_apply_ends_at_once(
    rack: FakeRack, engine: Engine, apply_inputs: dict[str, Any]
) -> None:
    answers(rack, "/apply", UNAVAILABLE)
    threading.Timer(0.2, lambda: run(engine.provider.cancel())).start()
    with pytest.raises(PluginError, match="cancelled"):
        engine.create(APPLY, {**apply_inputs, "timeouts": {"create": "1m"}})


def test_a_preview_shows_what_patches_render_to_and_bad_ones_fail(
    offline: Engine, apply_inputs: dict[str, Any]
) -> None:
    patch = {"configPatches": ["machine: {install: {disk: /dev/vda}}"]}
    _, previewed = offline.create(APPLY, {**apply_inputs, **patch}, preview=True)
    assert "/dev/vda" in previewed["machineConfiguration"]
    with pytest.raises(PluginError, match="machine.instal"):
        offline.create(
            APPLY, {**apply_inputs, "configPatches": ["machine: {instal: {}}"]}, preview=True
        )


def test_only_a_change_of_the_configuration_is_applied_again(
    rack: FakeRack, engine: Engine, apply_inputs: dict[str, Any]
) -> None:
    answers(rack, "/apply", (200, {}))
    _, state = engine.create(APPLY, apply_inputs)
    assert engine.diff(APPLY, state, apply_inputs) == {}
    changed = {**apply_inputs, "machineConfigurationInput": CONFIGURATION + "debug: true\n"}
    assert engine.diff(APPLY, state, changed) == {"machineConfigurationInput": "UPDATE"}
    updated = engine.update(APPLY, "id", state, changed)
    assert updated["machineConfigurationHash"] != state["machineConfigurationHash"]
    assert len(rack.asked("/apply")) == 2


def test_write_only_inputs_stay_out_of_the_state_and_differ_by_hash(
    rack: FakeRack, engine: Engine, apply_inputs: dict[str, Any]
) -> None:
    answers(rack, "/apply", (200, {}))
    given = {
        "node": "127.0.0.2",
        "clientConfigurationWo": apply_inputs["clientConfiguration"],
        "machineConfigurationInputWo": CONFIGURATION,
    }
    _, state = engine.create(APPLY, given)
    assert "hunter2" not in str(state)
    assert not {"clientConfigurationWo", "machineConfigurationInputWo"} & state.keys()
    assert engine.diff(APPLY, state, given) == {}
    other = {**given, "machineConfigurationInputWo": CONFIGURATION + "debug: true\n"}
    assert engine.diff(APPLY, state, other) == {"machineConfigurationHash": "UPDATE"}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"applyMode": "try"}, "applyMode"),
        ({"node": None}, "node"),
        ({"nod": "x"}, "nod"),
        ({"clientConfiguration": None}, "clientConfiguration"),
        ({"machineConfigurationInput": None}, "machineConfigurationInput"),
        ({"machineConfigurationInputWo": "x"}, "machineConfigurationInput"),
        ({"timeouts": {"create": "soon"}}, "timeouts.create"),
        ({"onDestroy": {"reset": "yes"}}, "onDestroy.reset"),
        ({"clientConfiguration": {"clientKey": "k"}}, "clientConfiguration.caCertificate"),
    ],
)
def test_wrong_inputs_of_apply_are_refused_by_name(
    offline: Engine, apply_inputs: dict[str, Any], changes: dict[str, Any], path: str
) -> None:
    with pytest.raises(CheckFailedError) as refused:
        offline.check(APPLY, {**apply_inputs, **changes})
    assert path in refused.value.failures


def test_destroy_leaves_the_machine_alone_unless_told_to_reset(
    rack: FakeRack, engine: Engine, apply_inputs: dict[str, Any]
) -> None:
    stages = iter(["running", "maintenance"])

    def script(method: str, path: str, body: bytes) -> tuple[int, Any]:
        del body, path
        return (200, {"stage": next(stages)}) if method == "GET" else (200, {})

    rack.script = script
    engine.delete(APPLY, "id", apply_inputs)
    assert rack.requests == []
    engine.delete(APPLY, "id", {**apply_inputs, "onDestroy": {"reset": True, "reboot": True}})
    assert rack.asked("/reset") == [
        {"graceful": True, "reboot": True, "wipe": ["STATE", "EPHEMERAL"]}
    ]
    assert next(stages, None) is None


def test_a_key_that_is_not_base64_is_refused_without_showing_it(
    engine: Engine, apply_inputs: dict[str, Any]
) -> None:
    client = {**apply_inputs["clientConfiguration"], "clientKey": "-----BEGIN hunter2"}
    with pytest.raises(PluginError, match=r"clientConfiguration\.clientKey") as refused:
        engine.create(APPLY, {**apply_inputs, "clientConfiguration": client})
    assert "hunter2" not in str(refused.value)


# --- machine:Bootstrap


def test_bootstrap_happens_once_and_deleting_it_does_nothing(
    rack: FakeRack, engine: Engine, client: dict[str, Any]
) -> None:
    answers(rack, "/bootstrap", UNAVAILABLE, (200, {}))
    inputs = {"node": "127.0.0.1", "clientConfiguration": client}
    made, state = engine.create(BOOTSTRAP, inputs)
    assert (made, state["endpoint"]) == ("machine_bootstrap", "127.0.0.1")
    assert engine.diff(BOOTSTRAP, state, inputs) == {}
    engine.update(BOOTSTRAP, made, state, {**inputs, "node": "127.0.0.9"})
    engine.delete(BOOTSTRAP, made, state)
    assert len(rack.asked("/bootstrap")) == 2
    assert rack.bad_signatures == 0


def test_a_cluster_that_exists_is_retried_like_any_error(
    rack: FakeRack, engine: Engine, client: dict[str, Any]
) -> None:
    exists = (409, {"code": "AlreadyExists", "message": "etcd data directory is not empty"})
    answers(rack, "/bootstrap", exists)
    inputs = {"node": "n", "clientConfiguration": client, "timeouts": {"create": "200ms"}}
    with pytest.raises(PluginError, match="gave up after .*AlreadyExists.*not empty"):
        engine.create(BOOTSTRAP, inputs)
    assert len(rack.asked("/bootstrap")) > 1


# --- cluster:Kubeconfig


def _kubeconfig(not_before: datetime) -> str:
    admin = pki.admin_certificate(pki.talos_authority(not_before), not_before)
    user = {
        "client-certificate-data": pki.encode(admin.certificate),
        "client-key-data": pki.encode(admin.key),
    }
    cluster = {"server": "https://127.0.0.1:6443", "certificate-authority-data": "Y2E="}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rack", "cluster": cluster}],
        "users": [{"name": "admin@rack", "user": user}],
        "contexts": [{"name": "admin@rack", "context": {"cluster": "rack", "user": "admin@rack"}}],
        "current-context": "admin@rack",
    }
    return yamltext.dump([document])


def test_a_kubeconfig_is_fetched_and_renewed_before_its_certificate_ends(
    rack: FakeRack, engine: Engine, client: dict[str, Any], clock: Clock
) -> None:
    texts = [_kubeconfig(START), _kubeconfig(START + timedelta(days=340))]
    answers(rack, "/kubeconfig", UNAVAILABLE, *((200, {"kubeconfig": text}) for text in texts))
    inputs = {"node": "127.0.0.1", "clientConfiguration": client}
    made, state = engine.create(KUBECONFIG, inputs)
    assert (made, state["kubeconfigRaw"]) == ("rack", texts[0])
    assert state["kubernetesClientConfiguration"]["host"] == "https://127.0.0.1:6443"
    assert state["certificateRenewalDuration"] == "720h"
    assert engine.diff(KUBECONFIG, state, inputs) == {}
    clock.now = START + timedelta(days=340)
    assert engine.diff(KUBECONFIG, state, inputs).keys() == {
        "kubeconfigRaw",
        "kubernetesClientConfiguration",
    }
    assert engine.update(KUBECONFIG, made, state, inputs)["kubeconfigRaw"] == texts[1]


def test_another_endpoint_alone_fetches_nothing(
    rack: FakeRack, engine: Engine, client: dict[str, Any]
) -> None:
    answers(rack, "/kubeconfig", (200, {"kubeconfig": _kubeconfig(START)}))
    inputs = {"node": "127.0.0.1", "clientConfiguration": client}
    made, state = engine.create(KUBECONFIG, inputs)
    changed = {**inputs, "endpoint": "127.0.0.5"}
    assert engine.diff(KUBECONFIG, state, changed) == {"endpoint": "UPDATE"}
    assert (
        engine.update(KUBECONFIG, made, state, changed)["kubeconfigRaw"] == state["kubeconfigRaw"]
    )
    assert len(rack.asked("/kubeconfig")) == 1


def test_something_that_is_no_kubeconfig_is_refused_without_showing_it(
    rack: FakeRack, engine: Engine, client: dict[str, Any]
) -> None:
    answers(rack, "/kubeconfig", (200, {"kubeconfig": "hunter2: x"}))
    with pytest.raises(PluginError, match="no kubeconfig") as refused:
        engine.create(KUBECONFIG, {"node": "n", "clientConfiguration": client})
    assert "hunter2" not in str(refused.value)


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
