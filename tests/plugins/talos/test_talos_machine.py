"""Resources that act on machines, driven as the engine drives them, against a scripted rack."""

from __future__ import annotations

import base64
import threading
import time
from datetime import datetime, timedelta
from typing import Any

import pytest

from rack.plugins.contract import PluginError
from rack.plugins.talos import pki, yamltext
from tests.plugins.proxmoxve.driver import CheckFailedError, Engine, run
from tests.plugins.talos.fakerack import UNAVAILABLE, FakeRack, answers
from tests.plugins.talos.inputs import (
    APPLY,
    BOOTSTRAP,
    CONFIGURATION,
    KUBECONFIG,
    START,
    Clock,
)

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
