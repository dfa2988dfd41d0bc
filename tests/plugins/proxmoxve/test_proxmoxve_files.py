"""PCI mappings and downloaded files."""

from __future__ import annotations

import pytest

from rack.plugins.contract import PluginError
from tests.plugins.proxmoxve.driver import Engine
from tests.plugins.proxmoxve.fakepve import GIB, FakePve
from tests.plugins.proxmoxve.inputs import FILE, IMAGE, MAPPING, PCI


def test_mapping_life(engine: Engine, fake: FakePve) -> None:
    resource_id, state = engine.create(PCI, MAPPING)
    assert resource_id == "gpu0"
    sent = "id=10de:2204,node=pve,path=0000:01:00,iommugroup=14,subsystem-id=10de:1467"
    assert fake.mappings["gpu0"] == {"map": sent}
    assert engine.read(PCI, "gpu0")[1] == state
    assert engine.diff(PCI, state, MAPPING) == {}
    moved = {**MAPPING, "maps": [{**MAPPING["maps"][0], "iommuGroup": 15}], "comment": "moved"}
    assert engine.diff(PCI, state, moved) == {"comment": "ADD", "maps[0].iommuGroup": "UPDATE"}
    state = engine.update(PCI, resource_id, state, moved)
    assert engine.diff(PCI, state, moved) == {}
    state = engine.update(PCI, resource_id, state, MAPPING)
    assert "description" not in fake.mappings["gpu0"]
    engine.delete(PCI, resource_id, state)
    assert engine.read(PCI, resource_id, state)[0] == ""
    engine.delete(PCI, resource_id, state)


def test_an_existing_mapping_is_an_error(engine: Engine, fake: FakePve) -> None:
    engine.create(PCI, MAPPING)
    with pytest.raises(PluginError, match='Could not create PCI hardware mapping "gpu0".*already'):
        engine.create(PCI, MAPPING)


def test_file_life(engine: Engine, fake: FakePve) -> None:
    resource_id, state = engine.create(FILE, IMAGE)
    assert (resource_id, state["size"]) == ("local:import/talos.qcow2", GIB)
    assert engine.read(FILE, resource_id, state, engine.check(FILE, IMAGE))[1] == state
    assert engine.diff(FILE, state, IMAGE) == {}
    assert engine.diff(FILE, state, {**IMAGE, "fileName": "b.qcow2", "uploadTimeout": 9}) == {
        "fileName": "UPDATE_REPLACE",
        "uploadTimeout": "UPDATE",
    }
    engine.delete(FILE, resource_id, state)
    assert engine.read(FILE, resource_id, state)[0] == ""
    engine.delete(FILE, resource_id, state)


def test_a_file_without_a_name_is_called_as_its_url(engine: Engine) -> None:
    unnamed = {name: value for name, value in IMAGE.items() if name != "fileName"}
    resource_id, state = engine.create(FILE, unnamed)
    assert resource_id == "local:import/nocloud-amd64.qcow2"
    assert engine.diff(FILE, state, unnamed) == {}


def test_an_existing_file_is_replaced_only_when_told_to(engine: Engine, fake: FakePve) -> None:
    fake.files["local:import/talos.qcow2"] = 5
    with pytest.raises(PluginError, match="File already exists in the datastore"):
        engine.create(FILE, IMAGE)
    assert fake.files["local:import/talos.qcow2"] == 5
    engine.create(FILE, {**IMAGE, "overwriteUnmanaged": True})
    assert fake.files["local:import/talos.qcow2"] == GIB


@pytest.mark.parametrize(
    ("overwrite", "expected"), [(True, {"size": "UPDATE_REPLACE"}), (False, {})]
)
def test_a_file_of_another_size_is_replaced_unless_told_not_to(
    engine: Engine, fake: FakePve, overwrite: bool, expected: dict[str, str]
) -> None:
    inputs = {**IMAGE, "overwrite": overwrite}
    resource_id, state = engine.create(FILE, inputs)
    fake.files[resource_id] = 7
    _, state, _ = engine.read(FILE, resource_id, state, engine.check(FILE, inputs))
    assert state["size"] == 7
    assert engine.diff(FILE, state, inputs) == expected


@pytest.mark.parametrize("prefix", ["", "pve/"])
def test_import_of_a_file(engine: Engine, fake: FakePve, prefix: str) -> None:
    fake.files["local:import/talos.qcow2"] = 5
    resource_id, state, _ = engine.read(FILE, f"{prefix}local:import/talos.qcow2")
    assert resource_id == "local:import/talos.qcow2"
    assert (state["nodeName"], state["fileName"], state["size"]) == ("pve", "talos.qcow2", 5)
