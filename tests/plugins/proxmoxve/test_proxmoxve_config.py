"""Provider configuration: strict, lazy, and only for a simulated rack."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi.provider.experimental import provider as protocol

from rack.plugins.contract import UNKNOWN, PluginError
from rack.plugins.proxmoxve.provider import ProxmoxVe
from tests.plugins.proxmoxve.driver import Engine, encode_map, run
from tests.plugins.proxmoxve.fakepve import FakePve
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


def test_a_missing_token_is_named(fake: FakePve) -> None:
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
