"""A site of several hosts: each of its settings reaches the machines that it is meant for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_passthrough.judging import judge
from gpu_passthrough.load import load_stack_file
from gpu_passthrough.stackfile import read
from tests.program.recorder import PROGRAM, Recorder, run_program

HOMELAB = PROGRAM.parent / "Pulumi.homelab.yaml"
SITE = Path(__file__).parent / "site.yaml"


@pytest.fixture(scope="module")
def site() -> Recorder:
    """Three hosts, a virtual address, a VLAN, and a worker with two cards."""
    stack = judge(read(SITE).values)
    return run_program(lambda: stack)


def vm(site: Recorder, name: str) -> dict[str, Any]:
    return site.inputs("VmLegacy", f"{name}-vm")


def test_every_machine_is_on_its_host_and_boots_that_hosts_image(site: Recorder) -> None:
    hosts = {one.name: one.inputs["nodeName"] for one in site.of("VmLegacy")}
    assert hosts == {"cp1-vm": "pve1", "cp2-vm": "pve2", "cp3-vm": "pve3", "gpu-vm": "pve2"}
    assert vm(site, "gpu")["disks"][0]["importFrom"] == "id-of-talos-nvidia-on-pve2"
    assert vm(site, "cp3")["disks"][0]["importFrom"] == "id-of-talos-on-pve3"
    files = {(one.inputs["nodeName"], one.name) for one in site.of("File")}
    assert {host for host, _ in files} == {"pve1", "pve2", "pve3"}
    assert {one.inputs["datastoreId"] for one in site.of("File")} == {"isos"}


def test_both_cards_of_the_worker_go_in_by_mappings_of_its_host(site: Recorder) -> None:
    passed = [one["mapping"] for one in vm(site, "gpu")["hostpcis"]]
    assert passed == ["gpu-gpu0", "gpu-gpu1"]
    for number, path in enumerate(("0000:01:00", "0000:41:00")):
        (entry,) = site.inputs("Pci", f"gpu-gpu{number}")["maps"]
        assert (entry["node"], entry["path"]) == ("pve2", path)


def test_the_network_reaches_every_machine(site: Recorder) -> None:
    for one in site.of("VmLegacy"):
        assert one.inputs["networkDevices"] == [
            {"bridge": "vmbr1", "model": "virtio", "vlanId": 30}
        ]
        given = one.inputs["initialization"]
        assert given["dns"] == {"servers": ["10.30.0.1", "9.9.9.9"]}
        assert given["ipConfigs"][0]["ipv4"]["gateway"] == "10.30.0.1"
    address = vm(site, "gpu")["initialization"]["ipConfigs"][0]["ipv4"]["address"]
    assert address == "10.30.0.21/23"
    assert vm(site, "gpu")["efiDisk"]["datastoreId"] == "tank"


def test_the_control_planes_share_an_address_and_workers_do_not(site: Recorder) -> None:
    for name in ("cp1", "cp2", "cp3", "gpu"):
        patches = site.inputs("ConfigurationApply", f"{name}-configuration")["configPatches"]
        kinds = [json.loads(text).get("kind") for text in patches]
        assert ("Layer2VIPConfig" in kinds) is (name != "gpu")
    calls = site.calls["talos:machine/getConfiguration:getConfiguration"]
    assert {call["clusterEndpoint"] for call in calls} == {"https://10.30.0.10:6443"}
    assert site.inputs("Bootstrap")["node"] == "10.30.0.11"


def test_what_holds_data_is_protected(site: Recorder) -> None:
    protected = {one.name for one in site.resources if one.request.protect}
    assert protected == {"site-secrets", *(one.name for one in site.of("VmLegacy")), "ml-data"}


def test_the_documents_site_is_the_document() -> None:
    stack = load_stack_file(HOMELAB)
    assert stack.proxmox is not None
    assert stack.proxmox.endpoint == "https://192.168.20.10:8006"
    assert stack.protect
    cards = [gpu.card for node in stack.nodes.values() for gpu in node.gpus]
    assert cards == ["RTX 3090", "RTX 4070 Ti Super"]
