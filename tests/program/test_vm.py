"""Layer 1: the VM that owns the cards."""

from __future__ import annotations

from typing import Any

import pytest

from components.proxmox_gpu_vm import ProxmoxGpuVm, ProxmoxGpuVmArgs
from gpu_passthrough.config import Node, Proxmox
from tests.program.recorder import Recorder, record
from tests.program.stacks import DOCUMENT, NODES, RTX_3090, RTX_4070, merged

IMAGE = "local:import/talos.qcow2"


def build(node: str = "k8s-worker-1", site: dict[str, Any] | None = None, **more: Any) -> Recorder:
    """One VM; `more` changes the node."""
    args = ProxmoxGpuVmArgs(
        node=Node.model_validate(merged(NODES[node], more)),
        site=Proxmox.model_validate(merged(DOCUMENT["proxmox"], site or {})),
        image=IMAGE,
        timeout_s=77,
    )
    return record(lambda: ProxmoxGpuVm(node, args))


def vm(node: str = "k8s-worker-1", **more: Any) -> dict[str, Any]:
    return build(node, **more).inputs("VmLegacy")


def test_the_hardware_is_what_passthrough_needs() -> None:
    found = vm()
    assert (found["machine"], found["bios"], found["cpu"]["type"]) == ("q35", "ovmf", "host")
    assert found["efiDisk"] == {
        "datastoreId": "local-lvm",
        "type": "4m",
        "preEnrolledKeys": False,
    }
    assert found["memory"] == {"dedicated": 24576, "floating": 0}
    assert found["scsiHardware"] == "virtio-scsi-pci"
    assert found["agent"] == {"enabled": False}
    assert found["operatingSystem"] == {"type": "l26"}


def test_a_card_goes_in_by_its_mapping_with_all_that_proxmox_compares() -> None:
    found = build()
    assert found.inputs("Pci") == {
        "name": "k8s-worker-1-gpu0",
        "comment": "RTX 3090",
        "maps": [
            {
                "node": "pve",
                "path": "0000:01:00",
                "id": "10de:2204",
                "subsystemId": "10de:1467",
                "iommuGroup": 14,
            }
        ],
    }
    assert found.inputs("VmLegacy")["hostpcis"] == [
        {"device": "hostpci0", "mapping": "k8s-worker-1-gpu0", "pcie": True, "rombar": True}
    ]
    assert found.one("Pci").urn in found.waits_for(found.one("VmLegacy"))


def test_the_order_of_the_cards_in_the_stack_file_changes_nothing() -> None:
    one, other = build(gpus=[RTX_3090, RTX_4070]), build(gpus=[RTX_4070, RTX_3090])
    by_name = [sorted((r.name, str(r.inputs)) for r in it.resources) for it in (one, other)]
    assert by_name[0] == by_name[1]
    passed = one.inputs("VmLegacy")["hostpcis"]
    assert [p["mapping"] for p in passed] == ["k8s-worker-1-gpu0", "k8s-worker-1-gpu1"]
    first = one.inputs("Pci", "k8s-worker-1-gpu0")
    assert first["maps"][0]["path"] == "0000:01:00"


def test_another_card_is_another_mapping() -> None:
    """The neighbour: not the order, but the card itself differs."""
    moved = build(gpus=[{**RTX_3090, "path": "0000:0a:00"}])
    assert moved.inputs("Pci")["maps"][0]["path"] == "0000:0a:00"


def test_a_node_without_gpus_is_an_ordinary_vm() -> None:
    found = build("k8s-cp-1")
    assert found.of("Pci") == []
    assert found.inputs("VmLegacy").get("hostpcis") in (None, [])
    assert found.inputs("VmLegacy")["tags"] == ["pulumi", "talos"]
    assert vm()["tags"] == ["gpu", "pulumi", "talos"]


def test_size_place_and_number_come_from_the_stack() -> None:
    found = vm()
    assert (found["name"], found["nodeName"], found["vmId"]) == ("k8s-worker-1", "pve", 111)
    assert found["cpu"]["cores"] == 8
    assert found["disks"] == [
        {
            "interface": "scsi0",
            "datastoreId": "local-lvm",
            "importFrom": IMAGE,
            "size": 100,
            "discard": "on",
            "ssd": True,
        }
    ]
    other = vm(site={"diskDatastore": "tank"})
    places = (other["disks"][0], other["efiDisk"], other["initialization"])
    assert {place["datastoreId"] for place in places} == {"tank"}


@pytest.mark.parametrize(("cidr", "prefix"), [("10.0.0.0/16", 16), ("10.0.0.0/24", 24)])
def test_the_address_is_there_before_any_configuration(cidr: str, prefix: int) -> None:
    given = vm(site={"network": {"cidr": cidr}})["initialization"]
    assert given == {
        "type": "nocloud",
        "datastoreId": "local-lvm",
        "ipConfigs": [{"ipv4": {"address": f"10.0.0.21/{prefix}", "gateway": "10.0.0.1"}}],
        "dns": {"servers": ["10.0.0.1", "9.9.9.9"]},
    }


def test_the_network_card_is_on_the_bridge_and_on_a_vlan_only_where_there_is_one() -> None:
    assert vm()["networkDevices"] == [{"bridge": "vmbr0", "model": "virtio"}]
    tagged = vm(site={"network": {"bridge": "vmbr1", "vlan": 20}})["networkDevices"]
    assert tagged == [{"bridge": "vmbr1", "model": "virtio", "vlanId": 20}]


def test_it_runs_and_can_be_stopped_without_an_agent() -> None:
    found = vm()
    assert (found["started"], found["onBoot"], found["stopOnDestroy"]) == (True, True, True)


def test_a_new_image_never_touches_a_vm_and_a_replacement_frees_its_id_first() -> None:
    request = build().one("VmLegacy").request
    assert list(request.ignoreChanges) == ["disks[0].importFrom"]
    assert request.deleteBeforeReplace
    assert request.protect
    assert request.customTimeouts.create == "77s"
    assert vm()["timeoutCreate"] == 77
