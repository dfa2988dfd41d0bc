"""The Proxmox VE API on a socket, through TLS, asked by PVE's own Python client."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from proxmoxer import ProxmoxAPI
from proxmoxer.core import ResourceException

from rack.plugins.proxmoxve.client import ApiError, Client, TaskError
from rack.rack import Rack
from rack.world.access import AclEntry
from tests.model.proxmoxworld import IMAGE, IMAGE_URL
from tests.rack.proxmoxserver import Served

CARD = "id=10de:2204,iommugroup=14,node=pve,path=0000:01:00,subsystem-id=10de:1467"
VM: dict[str, Any] = {
    "vmid": 111,
    "name": "k8s-worker-1",
    "cores": 4,
    "memory": 16384,
    "machine": "q35",
    "bios": "ovmf",
    "efidisk0": "local-lvm:1,efitype=4m,pre-enrolled-keys=0",
    "scsi0": f"local-lvm:0,import-from={IMAGE},iothread=1",
    "net0": "virtio,bridge=vmbr0",
    "ide2": "local-lvm:cloudinit",
    "ipconfig0": "ip=127.0.0.2/24,gw=127.0.0.254",
    "hostpci0": "mapping=gpu0,pcie=1",
    "agent": "enabled=0",
    "balloon": 0,
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path / "home")
    yield made
    made.close()


@pytest.fixture
def api(served: Served) -> Any:
    who, _, secret = served.token.partition("=")
    user, _, name = who.partition("!")
    return ProxmoxAPI(
        "127.0.0.1",
        port=served.port,
        user=user,
        token_name=name,
        token_value=secret,
        verify_ssl=str(served.settings.certificate),
    )


@pytest.fixture
def node(api: Any) -> Any:
    return api.nodes("pve")


def done(node: Any, upid: str) -> str:
    status = node.tasks(upid).status.get()
    assert status["status"] == "stopped"
    return str(status["exitstatus"])


def download(node: Any) -> str:
    return str(
        node.storage("local")("download-url").post(
            content="import", filename="talos.qcow2", url=IMAGE_URL
        )
    )


def refused(action: Callable[[], Any]) -> ResourceException:
    with pytest.raises(ResourceException) as error:
        action()
    return error.value


def test_the_version_says_that_this_is_a_simulated_rack(api: Any) -> None:
    assert api.version.get() == {
        "version": "9.0.11",
        "release": "9.0",
        "repoid": "simulated-rack",
    }


def test_a_client_that_does_not_trust_the_certificate_gets_nothing(served: Served) -> None:
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(f"{served.url}/version", timeout=10)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("", "No ticket"),
        ("Bearer x", "No ticket"),
        ("PVEAPIToken=root@pam!x=wrong", "Authentication failed!"),
        ("PVEAPIToken=nonsense", "invalid token value!"),
    ],
)
def test_who_is_not_known_gets_a_reason_and_no_json(
    served: Served, header: str, reason: str
) -> None:
    answer = served.raw("GET", "/version", headers={"Authorization": header})
    assert (answer.status_code, answer.reason, answer.content) == (401, reason, b"")


def test_a_blank_after_the_scheme_is_accepted(served: Served) -> None:
    answer = served.raw("GET", "/version", headers={"Authorization": f"PVEAPIToken {served.token}"})
    assert answer.status_code == 200


def test_unknown_paths_are_not_implemented(served: Served) -> None:
    answer = served.raw("GET", "/nodes/pve/ceph/status")
    assert answer.status_code == 501
    assert answer.reason == "Method 'GET /nodes/pve/ceph/status' not implemented"
    assert answer.json() == {"data": None, "message": answer.reason + "\n"}
    assert served.raw("DELETE", "/version").status_code == 501
    outside = requests.get(
        served.url.removesuffix("/api2/json") + "/",
        verify=str(served.settings.certificate),
        timeout=10,
    )
    assert outside.status_code == 404


def test_wrong_parameters_are_all_named(served: Served) -> None:
    answer = served.raw("POST", "/nodes/pve/qemu", data={"colour": "red", "cores": "many"})
    assert answer.status_code == 400
    assert answer.reason == "Parameter verification failed."
    assert answer.json() == {
        "data": None,
        "message": "Parameter verification failed.\n",
        "errors": {
            "colour": "property is not defined in schema and the schema does not allow additional"
            " properties",
            "cores": "type check ('integer') failed - got 'many'",
            "vmid": "property is missing and it is not optional",
        },
    }


@pytest.mark.parametrize(
    ("option", "text", "problem"),
    [
        ("hostpci0", "mapping=gpu0,colour=red", "invalid key in comma-separated list property"),
        ("hostpci16", "mapping=gpu0", "property is not defined in schema"),
        ("hostpci0", "0000:01:00,pcie=maybe", "pcie: type check ('boolean') failed"),
        ("net0", "bridge=vmbr0", "model: property is missing"),
        ("bios", "uefi", "does not have a value in the enumeration 'seabios, ovmf'"),
        ("name", "not a name", "value does not match the regex pattern"),
        ("ipconfig0", "ip=10.0.0.1", "ip: value does not match the regex pattern"),
        ("memory", "lots", "current: type check ('integer') failed"),
    ],
)
def test_each_wrong_option_is_named(served: Served, option: str, text: str, problem: str) -> None:
    answer = served.raw("POST", "/nodes/pve/qemu", data={"vmid": 100, option: text})
    assert answer.status_code == 400
    assert problem in answer.json()["errors"][option]
    assert served.raw("POST", "/nodes/pve/qemu", data={"vmid": 100}).status_code == 200


def test_bodies_may_be_forms_or_json(served: Served) -> None:
    form = served.raw("POST", "/cluster/mapping/pci", data={"id": "gpu0", "map": [CARD]})
    other = CARD.replace("gpu0", "gpu1")
    body = {"id": "gpu1", "map": [CARD, other], "mdev": False}
    as_json = served.raw("POST", "/cluster/mapping/pci", json=body)
    assert (form.status_code, as_json.status_code) == (200, 200)
    assert form.json() == {"data": None}
    listed = served.raw("GET", "/cluster/mapping/pci").json()["data"]
    assert [len(mapping["map"]) for mapping in listed] == [1, 2]
    broken = served.raw(
        "POST", "/cluster/mapping/pci", data="{", headers={"Content-Type": "application/json"}
    )
    assert broken.status_code == 400


def test_a_missing_privilege_is_refused_with_path_and_privilege(served: Served) -> None:
    with served.rack.lock() as world:
        world.access.acl.append(AclEntry(path="/vms", who="pulumi@pve", role="NoAccess"))
    answer = served.raw("POST", "/nodes/pve/qemu/100/status/start")
    assert answer.status_code == 403
    assert answer.reason == "Permission check failed (/vms/100, VM.PowerMgmt)"
    assert answer.json() == {"data": None, "message": answer.reason + "\n"}


def test_pci_functions_are_listed_as_pve_does(node: Any) -> None:
    shown = node.hardware.pci.get()
    assert shown[0] == {
        "id": "0000:01:00.0",
        "class": "0x030000",
        "vendor": "0x10de",
        "device": "0x2204",
        "iommugroup": 14,
        "vendor_name": "NVIDIA Corporation",
        "device_name": "GA102 [GeForce RTX 3090]",
        "subsystem_vendor": "0x10de",
        "subsystem_device": "0x1467",
    }
    everything = node.hardware.pci.get(**{"pci-class-blacklist": ""})
    classes = {device["class"][:4] for device in everything}
    assert "0x06" in classes
    assert not {"0x06"} & {device["class"][:4] for device in shown}
    bridge = next(d for d in everything if d["class"] == "0x060400")
    assert "subsystem_vendor" not in bridge
    assert "vendor_name" not in node.hardware.pci.get(verbose=0)[0]


def test_without_iommu_no_function_has_a_group(served: Served, node: Any) -> None:
    with served.rack.lock() as world:
        world.hosts["pve"].iommu = False
    assert {device["iommugroup"] for device in node.hardware.pci.get()} == {-1}


def test_a_mapping_is_made_checked_changed_and_removed(api: Any) -> None:
    pci = api.cluster.mapping.pci
    pci.post(id="gpu0", map=CARD, description="the card")
    (listed,) = pci.get(**{"check-node": "pve"})
    assert listed["checks"] == []
    assert (listed["id"], listed["type"], listed["map"]) == ("gpu0", "pci", [CARD])
    one = pci("gpu0").get()
    assert "id" not in one
    assert "checks" not in one
    assert "create hardware mapping failed: pci ID 'gpu0' already defined" in str(
        refused(lambda: pci.post(id="gpu0", map=CARD))
    )
    pci("gpu0").put(map=CARD.replace("=14", "=15"), delete="description")
    (changed,) = pci.get(**{"check-node": "pve"})
    assert changed["checks"] == [
        {
            "severity": "error",
            "message": "Invalid configuration: 'iommugroup' does not match for 'gpu0' (14 != 15)\n",
        }
    ]
    assert "description" not in changed
    assert refused(lambda: pci("gpu0").get(**{"check-node": "pve"})).status_code == 400
    pci("gpu0").delete()
    assert "mapping 'gpu0' not found" in str(refused(pci("gpu0").get))


def test_a_vm_lives_from_image_to_nothing(api: Any, node: Any) -> None:
    api.cluster.mapping.pci.post(id="gpu0", map=CARD)
    assert done(node, download(node)) == "OK"
    assert done(node, node.qemu.post(**VM)) == "OK"
    vm = node.qemu(111)
    config = vm.config.get()
    assert (config["cores"], config["balloon"], config["memory"]) == (4, 0, "16384")
    assert config["scsi0"] == "local-lvm:vm-111-disk-1,iothread=1,size=1292M"
    assert len(config["digest"]) == 40
    assert done(node, vm.resize.put(disk="scsi0", size="40G")) == "OK"
    assert vm.status.current.get()["status"] == "stopped"
    assert done(node, vm.status.start.post()) == "OK"
    current = vm.status.current.get()
    assert (current["status"], current["maxmem"], current["vmid"]) == ("running", 16 << 30, 111)
    assert current["maxdisk"] == 40 << 30
    assert "running - destroy failed" in str(refused(vm.delete))
    assert done(node, vm.status.stop.post()) == "OK"
    assert done(node, vm.delete(purge=1)) == "OK"
    assert "does not exist" in str(refused(vm.config.get))
    assert done(node, node.storage("local").content(IMAGE).delete()) == "OK"
    for storage in ("local", "local-lvm"):
        assert node.storage(storage).content.get() == []


def test_a_start_that_fails_answers_with_success_and_fails_in_its_task(node: Any) -> None:
    assert done(node, download(node)) == "OK"
    assert done(node, node.qemu.post(**VM)) == "OK"
    upid = node.qemu(111).status.start.post()
    assert done(node, upid) == "PCI device mapping not found for 'gpu0'"
    assert node.tasks(upid).log.get()[-1]["t"] == (
        "TASK ERROR: PCI device mapping not found for 'gpu0'"
    )
    assert node.qemu(111).status.current.get()["status"] == "stopped"


def test_a_garbled_task_name_is_refused(node: Any) -> None:
    assert refused(node.tasks("UPID:x").status.get).errors == {
        "upid": "unable to parse worker upid"
    }


def test_pending_changes_are_shown_until_the_next_start(node: Any) -> None:
    assert done(node, node.qemu.post(vmid=100, cores=2)) == "OK"
    vm = node.qemu(100)
    assert done(node, vm.status.start.post()) == "OK"
    vm.config.put(cores=4)
    assert vm.config.get()["cores"] == 4
    assert vm.config.get(current=1)["cores"] == 2
    entries = {entry["key"]: entry for entry in vm.pending.get()}
    assert entries["cores"] == {"key": "cores", "value": 2, "pending": 4}
    assert done(node, vm.config.post(name="two")) == "OK"
    assert vm.config.get(current=1)["name"] == "two"


def test_lists_and_numbers(api: Any, node: Any) -> None:
    assert api.cluster.nextid.get() == "100"
    done(node, node.qemu.post(vmid=100, name="one", tags="b;a"))
    assert api.cluster.nextid.get() == "101"
    assert refused(lambda: api.cluster.nextid.get(vmid=100)).status_code == 400
    (vm,) = api.cluster.resources.get(type="vm")
    assert (vm["id"], vm["node"], vm["tags"]) == ("qemu/100", "pve", "a;b")
    kinds = {resource["type"] for resource in api.cluster.resources.get()}
    assert kinds == {"node", "qemu", "storage"}
    assert [n["node"] for n in api.nodes.get()] == ["pve"]
    assert node.status.get()["memory"]["total"] == 64 << 30
    assert api.cluster.status.get()[0]["name"] == "pve"
    assert node.network.get(type="bridge")[0]["iface"] == "vmbr0"
    assert [s["storage"] for s in node.storage.get(content="import")] == ["local"]
    assert node.storage("local-lvm").status.get()["type"] == "lvmthin"
    assert node.tasks.get(vmid=100)[0]["type"] == "qmcreate"


def test_a_volume_is_found_with_and_without_its_slash_encoded(served: Served, node: Any) -> None:
    done(node, download(node))
    plain = f"/nodes/pve/storage/local/content/{IMAGE}"
    encoded = f"/nodes/pve/storage/local/content/{IMAGE.replace('/', '%2F').replace(':', '%3A')}"
    answers = [served.raw("GET", path).json()["data"] for path in (plain, encoded)]
    assert answers[0] == answers[1]
    assert answers[0]["size"] == 1290 << 20
    (listed,) = node.storage("local").content.get()
    offered = node("query-url-metadata").get(url=IMAGE_URL)
    assert listed["size"] == offered["size"] == 90 << 20


def test_permissions_of_the_own_token(api: Any) -> None:
    everywhere = api.access.permissions.get()
    assert everywhere["/"]["Mapping.Modify"] == 1
    path = "/mapping/pci/gpu0"
    assert set(api.access.permissions.get(path=path)) == {path}
    assert "Mapping.Use" in api.access.permissions.get(path=path)[path]
    assert "Sys.Modify" not in everywhere["/"]


def test_a_node_that_is_not_there(api: Any) -> None:
    error = refused(api.nodes("pve2").storage.get)
    assert error.status_code == 500
    assert "hostname lookup 'pve2' failed" in str(error)


def test_the_plugins_client_works_as_well(served: Served) -> None:
    client = Client(f"https://127.0.0.1:{served.port}", served.token, insecure=True)
    assert client.get("/nodes")[0]["node"] == "pve"
    upid = client.post("/nodes/pve/qemu", {"vmid": 100, "hostpci0": "mapping=gpu0,pcie=1"})
    client.wait(upid, "VM create", 5)
    with pytest.raises(TaskError, match="mapping not found"):
        client.wait(client.post("/nodes/pve/qemu/100/status/start"), "VM start", 5)
    with pytest.raises(ApiError) as error:
        client.get("/nodes/pve/qemu/101/config")
    assert error.value.gone


def test_a_host_that_lost_its_network_card_does_not_answer(served: Served) -> None:
    with served.rack.lock() as world:
        world.hosts["pve"].taken["0000:04:00.0"] = "vfio-pci"
    with pytest.raises(requests.exceptions.ConnectionError):
        served.raw("GET", "/version")
    with served.rack.lock() as world:
        world.power_cycle("pve", served.rack.now())
    assert served.raw("GET", "/version").status_code == 200


def test_the_world_is_on_disk_after_each_answer_and_comes_back(served: Served, node: Any) -> None:
    done(node, node.qemu.post(vmid=100, name="one"))
    done(node, node.qemu(100).status.start.post())
    again = Rack(served.settings)
    assert again.world.vms[100].is_running
    assert again.world.model_dump_json() == served.rack.world.model_dump_json()
    modes = {path.stat().st_mode & 0o777 for path in served.settings.home.iterdir()}
    assert modes == {0o600}
    assert served.settings.home.stat().st_mode & 0o777 == 0o700


def test_two_clients_get_two_numbers(served: Served) -> None:
    results: list[int] = []

    def create() -> None:
        answer = served.raw("POST", "/nodes/pve/qemu", data={"vmid": 100})
        results.append(answer.status_code)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [200, 500, 500, 500]
