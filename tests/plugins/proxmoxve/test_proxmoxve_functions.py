"""Functions of the plugin, on answers as a host gives them."""

from __future__ import annotations

from typing import Any

import pytest

from rack.plugins.contract import Plain, PluginError
from tests.plugins.proxmoxve.driver import CheckFailedError, Engine
from tests.plugins.proxmoxve.fakepve import ROUTES, FakePve
from tests.plugins.proxmoxve.inputs import MAPPING, PCI

CARD: Plain = {
    "id": "0000:01:00.0",
    "class": "0x030000",
    "vendor": "0x10de",
    "device": "0x2204",
    "iommugroup": 14,
    "vendor_name": "NVIDIA Corporation",
}
NETWORK_CARD: Plain = {
    "id": "0000:04:00.0",
    "class": "0x020000",
    "vendor": "0x8086",
    "device": "0x15f3",
    "iommugroup": 16,
}


def answers(monkeypatch: pytest.MonkeyPatch, route: str, data: Any) -> None:
    monkeypatch.setitem(ROUTES, route, lambda fake, values: data)


def test_version(engine: Engine) -> None:
    assert engine.invoke("proxmoxve:index/getVersion:getVersion", {}) == {
        "id": "version",
        "version": "9.0.11",
        "release": "9.0",
        "repositoryId": "simulated-rack",
    }


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["0000:01:00.0", "0000:04:00.0"]),
        ({"vendorId": "10de"}, ["0000:01:00.0"]),
        ({"vendorId": "0x8086"}, ["0000:04:00.0"]),
        ({"class": "03"}, ["0000:01:00.0"]),
        ({"id": "0000:01:00"}, ["0000:01:00.0"]),
        ({"vendorId": "10de", "deviceId": "15f3"}, []),
    ],
)
def test_pci_devices(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, filters: Plain, expected: list[str]
) -> None:
    answers(monkeypatch, "GET /nodes/pve/hardware/pci", [CARD, NETWORK_CARD])
    arguments = {"nodeName": "pve", "filters": filters}
    found = engine.invoke("proxmoxve:hardware/getPci:getPci", arguments)
    assert [device["id"] for device in found["devices"]] == expected
    for device in found["devices"]:
        assert (device["mdev"], device["subsystemVendor"]) == (False, "")


def test_an_empty_blacklist_reaches_the_host(
    engine: Engine, fake: FakePve, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, "GET /nodes/pve/hardware/pci", [])
    engine.invoke("proxmoxve:hardware/getPci:getPci", {"nodeName": "pve"})
    arguments = {"nodeName": "pve", "pciClassBlacklists": []}
    engine.invoke("proxmoxve:hardware/getPci:getPci", arguments)
    assert [sent for _, sent in fake.calls("GET", "hardware/pci")] == [
        {},
        {"pci-class-blacklist": ""},
    ]


def test_nodes(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        {"node": "b", "status": "offline"},
        {"node": "a", "status": "online", "cpu": 0.126, "maxcpu": 16, "maxmem": 64, "mem": 8},
    ]
    answers(monkeypatch, "GET /nodes", nodes)
    found = engine.invoke("proxmoxve:index/getNodesLegacy:getNodesLegacy", {})
    assert (found["names"], found["onlines"]) == (["a", "b"], [True, False])
    assert (found["cpuCounts"], found["cpuUtilizations"]) == ([16, 1], [0.13, 0])


def test_node(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    status = {"cpuinfo": {"cores": 8, "cpus": 16}, "memory": {"free": 1, "used": 2, "total": 3}}
    answers(monkeypatch, "GET /nodes/pve/status", {**status, "cpu": 0.5, "uptime": 60})
    arguments = {"nodeName": "pve"}
    found = engine.invoke("proxmoxve:index/getNodeLegacy:getNodeLegacy", arguments)
    assert (found["cpuCores"], found["cpuCount"], found["cpuSockets"]) == (8, 16, 1)
    assert (found["memoryAvailable"], found["memoryTotal"], found["uptime"]) == (1, 3, 60)


def test_mappings_and_what_is_wrong_with_them(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    mappings = [
        {"id": "gpu1", "checks": [{"severity": "error", "message": "Invalid configuration\n"}]},
        {"id": "gpu0", "checks": []},
    ]
    answers(monkeypatch, "GET /cluster/mapping/pci", mappings)
    arguments = {"type": "pci", "checkNode": "pve"}
    found = engine.invoke("proxmoxve:hardware/getMappings:getMappings", arguments)
    assert found["ids"] == ["gpu0", "gpu1"]
    assert found["checks"] == [
        {"mappingId": "gpu1", "severity": "error", "message": "Invalid configuration"}
    ]


def test_one_mapping(engine: Engine) -> None:
    engine.create(PCI, {"name": "gpu0", "maps": [{"id": "1:2", **bare_map()}]})
    found = engine.invoke("proxmoxve:hardware/mapping/getPci:getPci", {"name": "gpu0"})
    assert found["maps"][0]["iommuGroup"] == -1
    assert found["mediatedDevices"] is False
    with pytest.raises(PluginError, match="mapping 'gpu9' not found"):
        engine.invoke("proxmoxve:hardware/mapping/getPci:getPci", {"name": "gpu9"})


def bare_map() -> Plain:
    required = ("id", "node", "path")
    return {name: value for name, value in MAPPING["maps"][0].items() if name in required}


def test_arguments_are_strict(engine: Engine, fake: FakePve) -> None:
    with pytest.raises(CheckFailedError) as caught:
        engine.invoke("proxmoxve:hardware/getPci:getPci", {"node": "pve"})
    assert list(caught.value.failures) == ["node", "nodeName"]
    with pytest.raises(PluginError, match="has no function proxmoxve:index/getVms:getVms"):
        engine.invoke("proxmoxve:index/getVms:getVms", {})
