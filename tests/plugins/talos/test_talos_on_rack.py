"""The plugin against the rack's own image factory and machine API, on a random port."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from rack.plugins.contract import PluginError
from rack.plugins.talos.provider import TalosProvider
from rack.rack import Rack
from rack.settings import Settings
from rack.talos import http
from rack.world.vmrequests import VmRequests
from tests.model.proxmoxworld import IMAGE_URL, image
from tests.plugins.proxmoxve.driver import Engine

SECRETS = "talos:machine/secrets:Secrets"
SCHEMATIC = "talos:imageFactory/schematic:Schematic"
APPLY = "talos:machine/configurationApply:ConfigurationApply"
BOOTSTRAP = "talos:machine/bootstrap:Bootstrap"
KUBECONFIG = "talos:cluster/kubeconfig:Kubeconfig"
GENERATE = "talos:machine/getConfiguration:getConfiguration"
ROOT = "root@pam"
ADDRESS = "127.0.0.1"
WORKER = "127.0.0.2"


@pytest.fixture
def rack(tmp_path: Path) -> Rack:
    made = Rack(Settings(home=tmp_path / "home"))
    made.fetch_through(image)
    with made.lock() as world:
        world.submit(
            "download",
            "pve",
            "talos.qcow2",
            ROOT,
            made.now(),
            storage="local",
            content="import",
            filename="talos.qcow2",
            url=IMAGE_URL,
        )
    return made


@pytest.fixture
def engine(rack: Rack) -> Iterator[Engine]:
    about = Route("/rack", lambda request: JSONResponse({"simulated_rack": True}))
    app = Starlette(routes=[about, *http.routes(rack)])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    engine = Engine(TalosProvider())
    engine.configure(imageFactoryUrl=f"http://127.0.0.1:{port}")
    yield engine
    server.should_exit = True
    thread.join()


@pytest.fixture
def secrets(engine: Engine) -> dict[str, Any]:
    return engine.create(SECRETS, {"talosVersion": "v1.13.9"})[1]


def boot(rack: Rack, vmid: int, address: str) -> None:
    """Start a VM that boots Talos into maintenance mode at this address."""
    options = {
        "name": f"node-{vmid}",
        "memory": "4096",
        "cpu": "host",
        "scsi0": "local-lvm:0,import-from=local:import/talos.qcow2",
        "boot": "order=scsi0",
        "net0": "virtio,bridge=vmbr0",
        "ide2": "local-lvm:cloudinit",
        "ipconfig0": f"ip={address}/24,gw=127.0.0.254",
    }
    with rack.lock() as world:
        for upid in (
            VmRequests(world, "pve", ROOT, rack.now()).create(vmid, options),
            VmRequests(world, "pve", ROOT, rack.now()).start(vmid),
        ):
            task = world.task(upid)
            assert task is not None
            assert task.exit_status == "OK", task.exit_status


def stage(rack: Rack, vmid: int) -> str:
    with rack.lock() as world:
        machine = world.vms[vmid].machine
        return machine.stage if machine else ""


def apply_inputs(
    engine: Engine, secrets: dict[str, Any], node: str = ADDRESS, role: str = "controlplane"
) -> dict[str, Any]:
    generated = engine.invoke(
        GENERATE,
        {
            "clusterName": "rack",
            "clusterEndpoint": "https://127.0.0.1:6443",
            "machineType": role,
            "machineSecrets": secrets["machineSecrets"],
            "kubernetesVersion": "v1.34.4",
            "talosVersion": "v1.13.9",
        },
    )
    return {
        "node": node,
        "clientConfiguration": secrets["clientConfiguration"],
        "machineConfigurationInput": generated["machineConfiguration"],
        "timeouts": {"create": "10s", "update": "300ms", "delete": "10s"},
    }


def test_from_maintenance_mode_to_a_kubeconfig(
    rack: Rack, engine: Engine, secrets: dict[str, Any]
) -> None:
    boot(rack, 101, ADDRESS)
    boot(rack, 111, WORKER)
    assert stage(rack, 101) == "maintenance"
    engine.create(APPLY, apply_inputs(engine, secrets))
    engine.create(APPLY, apply_inputs(engine, secrets, WORKER, "worker"))
    access = {"node": ADDRESS, "clientConfiguration": secrets["clientConfiguration"]}
    engine.create(BOOTSTRAP, access)
    name, state = engine.create(KUBECONFIG, access)
    assert name == "rack"
    assert state["kubernetesClientConfiguration"]["host"] == "https://127.0.0.1:6443"
    assert engine.diff(KUBECONFIG, state, access) == {}
    with rack.lock() as world:
        assert world.cluster is not None
        assert [(node.name, node.role) for node in world.nodes] == [
            ("node-101", "controlplane"),
            ("node-111", "worker"),
        ]


def test_a_configuration_waits_for_its_machine(
    rack: Rack, engine: Engine, secrets: dict[str, Any]
) -> None:
    threading.Timer(0.3, boot, (rack, 101, ADDRESS)).start()
    engine.create(APPLY, apply_inputs(engine, secrets))
    assert stage(rack, 101) == "running"


def test_another_clusters_certificate_is_of_no_use(
    rack: Rack, engine: Engine, secrets: dict[str, Any]
) -> None:
    boot(rack, 101, ADDRESS)
    _, state = engine.create(APPLY, apply_inputs(engine, secrets))
    other = engine.create(SECRETS, {})[1]
    stranger = {**state, "clientConfiguration": other["clientConfiguration"]}
    with pytest.raises(PluginError, match="certificate signed by unknown authority"):
        engine.update(APPLY, "id", state, {**_inputs(stranger), "configPatches": ["debug: true\n"]})


def test_a_second_bootstrap_is_refused_until_its_timeout(
    rack: Rack, engine: Engine, secrets: dict[str, Any]
) -> None:
    boot(rack, 101, ADDRESS)
    engine.create(APPLY, apply_inputs(engine, secrets))
    access = {"node": ADDRESS, "clientConfiguration": secrets["clientConfiguration"]}
    engine.create(BOOTSTRAP, access)
    with pytest.raises(PluginError, match="AlreadyExists.*not empty"):
        engine.create(BOOTSTRAP, {**access, "timeouts": {"create": "200ms"}})


def test_what_the_machine_finds_invalid_fails_at_once_in_its_own_words(
    rack: Rack, engine: Engine, secrets: dict[str, Any]
) -> None:
    boot(rack, 101, ADDRESS)
    hostname = ["machine: {network: {hostname: static}}"]
    inputs = {**apply_inputs(engine, secrets), "configPatches": hostname}
    started = time.monotonic()
    with pytest.raises(PluginError, match="static hostname is already set") as refused:
        engine.create(APPLY, inputs)
    assert time.monotonic() - started < 5
    assert secrets["machineSecrets"]["trustdinfo"]["token"] not in str(refused.value)
    assert stage(rack, 101) == "maintenance"


@pytest.mark.parametrize(("reboot", "expected"), [(True, "maintenance"), (False, "off")])
def test_a_reset_on_destroy_wipes_the_machine(
    rack: Rack, engine: Engine, secrets: dict[str, Any], reboot: bool, expected: str
) -> None:
    boot(rack, 111, WORKER)
    on_destroy = {"reset": True, "reboot": reboot}
    inputs = {**apply_inputs(engine, secrets, WORKER, "worker"), "onDestroy": on_destroy}
    made, state = engine.create(APPLY, inputs)
    assert stage(rack, 111) == "running"
    engine.delete(APPLY, made, state)
    assert stage(rack, 111) == expected


def test_without_a_reset_destroy_leaves_the_machine_running(
    rack: Rack, engine: Engine, secrets: dict[str, Any]
) -> None:
    boot(rack, 111, WORKER)
    made, state = engine.create(APPLY, apply_inputs(engine, secrets, WORKER, "worker"))
    engine.delete(APPLY, made, state)
    assert stage(rack, 111) == "running"


def test_the_factory_gives_the_known_ids_and_refuses_unknown_fields(engine: Engine) -> None:
    vanilla = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
    assert engine.create(SCHEMATIC, {})[0] == vanilla
    with pytest.raises(PluginError, match="field customisation not found"):
        engine.create(SCHEMATIC, {"schematic": "customisation: {}\n"})


def test_the_factory_lists_versions_and_nvidia_extensions(engine: Engine) -> None:
    versions = engine.invoke("talos:imageFactory/getVersions:getVersions", {})["talosVersions"]
    assert "v1.13.9" in versions
    token = "talos:imageFactory/getExtensionsVersions:getExtensionsVersions"
    wanted = {"talosVersion": "v1.13.9", "filters": {"names": ["nonfree-kmod-nvidia-lts"]}}
    (found,) = engine.invoke(token, wanted)["extensionsInfos"]
    assert found["name"] == "siderolabs/nonfree-kmod-nvidia-lts"
    assert "580.178.04" in found["ref"]


def _inputs(state: dict[str, Any]) -> dict[str, Any]:
    outputs = {"machineConfiguration", "machineConfigurationHash", "resolvedApplyMode"}
    return {name: value for name, value in state.items() if name not in outputs}
