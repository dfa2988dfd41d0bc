"""Every document of Talos and of the image factory that the program may write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tests.contract import documents
from tests.contract.schema import FACTS, number
from tests.contract.stacks import OPTIONS, recorded

SCHEMA: dict[str, dict[str, str]] = json.loads((FACTS / "talos_documents_v1.13.9.json").read_text())
MODELS: dict[str, type[BaseModel]] = {
    "v1alpha1.Config": documents.Main,
    "v1alpha1.MachineConfig": documents.Machine,
    "v1alpha1.ClusterConfig": documents.Cluster,
    "v1alpha1.InstallConfig": documents.Install,
    "v1alpha1.KernelConfig": documents.Kernel,
    "v1alpha1.KernelModuleConfig": documents.Module,
    "network.HostnameConfigV1Alpha1": documents.HostnameConfig,
    "network.LinkAliasConfigV1Alpha1": documents.LinkAliasConfig,
    "network.LinkSelector": documents.LinkSelector,
    "network.Layer2VIPConfigV1Alpha1": documents.Layer2VIPConfig,
}
GONE = {"network"}
"""Keys that Talos' schema of 1.13 no longer names; the program writes them up to 1.11."""


def written(option: str) -> list[dict[str, Any]]:
    texts = [
        text
        for one in recorded(option).of("ConfigurationApply")
        for text in one.inputs["configPatches"]
    ]
    return [json.loads(text) for text in texts]


@pytest.mark.parametrize("option", OPTIONS)
def test_every_document_is_one_that_this_version_of_talos_takes(option: str) -> None:
    cluster = OPTIONS[option].cluster
    for document in written(option):
        assert cluster is not None
        major, minor = number(cluster.talos_version)[:2]
        documents.check(document, (major, minor))


@pytest.mark.parametrize("option", OPTIONS)
def test_every_schematic_is_one_that_the_image_factory_takes(option: str) -> None:
    for one in recorded(option).of("Schematic"):
        documents.Schematic.model_validate(json.loads(one.inputs["schematic"]))


def test_the_options_write_every_kind_of_document() -> None:
    found = {one.get("kind", "") for option in OPTIONS for one in written(option)}
    assert found == {"", "HostnameConfig", "LinkAliasConfig", "Layer2VIPConfig"}


@pytest.mark.parametrize("name", MODELS)
def test_the_models_know_no_key_that_talos_does_not(name: str) -> None:
    keys = {str(field.alias) for field in MODELS[name].model_fields.values()}
    assert keys - GONE <= SCHEMA[name].keys()
    required = {key for key, kind in SCHEMA[name].items() if kind.endswith("!")}
    assert required <= keys


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ({"machine": {"network": {"hostname": "a"}}}, (1, 12)),
        (
            {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "off", "hostname": "a"},
            (1, 11),
        ),
        (
            {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": False, "hostname": "a"},
            (1, 13),
        ),
        ({"apiVersion": "v1alpha1", "kind": "HostnameConfig", "hostname": "a"}, (1, 13)),
        ({"apiVersion": "v1alpha1", "kind": "HostConfig", "hostname": "a"}, (1, 13)),
        ({"machine": {"kernel": {"modules": ["nvidia"]}}}, (1, 13)),
        ({"machine": {"sysctls": {"a": 1}}}, (1, 13)),
        ({"machine": {"nodeTaints": {"a": "b"}}}, (1, 13)),
        ({"machine": {"install": {"image": "factory.talos.dev/installer/abc:v1.13.9"}}}, (1, 13)),
        ({"allowSchedulingOnControlPlanes": True}, (1, 13)),
    ],
)
def test_a_wrong_document_is_found(document: dict[str, Any], line: tuple[int, int]) -> None:
    with pytest.raises((ValidationError, AssertionError)):
        documents.check(document, line)
