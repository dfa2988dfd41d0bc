"""The stand-in under the real engine: a program with the official SDK, up to destroy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from rack.world import access
from rack.world.faults import Fault
from tests.plugins.proxmoxve.rackhost import RackHost, rack_host

PLUGINS = Path(__file__).parents[3] / "rack/plugins/bin"
PROGRAM = """
    import pulumi
    import pulumi_proxmoxve as pve

    settings = pulumi.Config()
    host = pve.Provider(
        "host",
        endpoint=settings.require("endpoint"),
        api_token=settings.require_secret("token"),
        insecure=True,
    )
    on_host = pulumi.ResourceOptions(provider=host)
    card = pve.hardware.mapping.Pci(
        "card",
        name="gpu0",
        maps=[
            {
                "id": "10de:2204",
                "node": "pve",
                "path": "0000:01:00",
                "iommu_group": 14,
                "subsystem_id": "10de:1467",
            }
        ],
        opts=on_host,
    )
    image = pve.download.File(
        "image",
        content_type="import",
        datastore_id="local",
        node_name="pve",
        url=settings.require("image"),
        file_name="talos.qcow2",
        opts=on_host,
    )
    machine = pve.VmLegacy(
        "machine",
        node_name="pve",
        vm_id=111,
        name="k8s-worker-1",
        machine="q35",
        bios="ovmf",
        cpu={"type": "host", "cores": settings.get_int("cores") or 8},
        memory={"dedicated": 16384, "floating": 0},
        efi_disk={"datastore_id": "local-lvm", "type": "4m", "pre_enrolled_keys": False},
        disks=[{"interface": "scsi0", "datastore_id": "local-lvm", "size": 20,
                "import_from": image.id}],
        hostpcis=[{"device": "hostpci0", "mapping": card.name, "pcie": True, "rombar": True}],
        network_devices=[{"bridge": "vmbr0"}],
        initialization={
            "datastore_id": "local-lvm",
            "ip_configs": [{"ipv4": {"address": "127.0.0.2/24", "gateway": "127.0.0.254"}}],
            "user_account": {"username": "admin", "password": pulumi.Output.secret("hunter2")},
        },
        agent={"enabled": settings.get_bool("agent") or False, "timeout": "300ms"},
        stop_on_destroy=True,
        opts=on_host,
    )
    pulumi.export("mac", machine.mac_addresses[0])
"""


@dataclass
class Stack:
    """A project in a folder of its own, with a state of its own."""

    home: Path
    environment: dict[str, str]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["pulumi", *arguments],
            cwd=self.home,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def do(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def resources(self) -> dict[str, dict[str, object]]:
        exported = json.loads(self.do("stack", "export"))
        found = exported["deployment"].get("resources", [])
        return {resource["urn"].rpartition("::")[2]: resource for resource in found}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RackHost]:
    with rack_host(tmp_path / "rack") as running:
        yield running


@pytest.fixture
def stack(host: RackHost, tmp_path: Path) -> Stack:
    missing = [name for name in ("pulumi", "pulumi-language-python") if not shutil.which(name)]
    assert not missing, f"not on PATH: {', '.join(missing)}; `make test` brings them"
    (tmp_path / "state").mkdir()
    (tmp_path / "Pulumi.yaml").write_text("name: plugin\nruntime: python\n")
    (tmp_path / "__main__.py").write_text(dedent(PROGRAM))
    environment = {
        **os.environ,
        "PATH": f"{PLUGINS}{os.pathsep}{os.environ['PATH']}",
        "PULUMI_BACKEND_URL": f"file://{tmp_path}/state",
        "PULUMI_HOME": str(tmp_path / "home"),
        "PULUMI_CONFIG_PASSPHRASE": "plugin",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    made = Stack(tmp_path, environment)
    made.do("stack", "init", "dev")
    made.do("config", "set", "endpoint", host.endpoint)
    made.do("config", "set", "image", host.image_url)
    made.do("config", "set", "--secret", "token", host.token)
    return made


@pytest.mark.e2e
def test_up_preview_refresh_destroy(
    stack: Stack, host: RackHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The least-privilege role may not ask the guest agent, which the chain does without.
    role = access.ROLES["GpuPassthrough"] | {"VM.GuestAgent.Audit"}
    monkeypatch.setitem(access.ROLES, "GpuPassthrough", role)
    stack.do("preview", "--non-interactive")
    with host.rack.lock() as world:
        assert (world.tasks, world.mappings) == ([], {})
    stack.do("up", "--yes", "--skip-preview")
    with host.rack.lock() as world:
        assert world.vm(111).passed == ["0000:01:00.0", "0000:01:00.1"]
    assert "hunter2" not in json.dumps(stack.resources())
    stack.do("preview", "--expect-no-changes")
    stack.do("refresh", "--yes", "--expect-no-changes")
    stack.do("preview", "--expect-no-changes", "--refresh")
    stack.do("config", "set", "cores", "4")
    stack.do("config", "set", "agent", "true")
    text = stack.do("up", "--yes", "--skip-preview")
    assert "timeout while waiting for the QEMU agent on VM 111" in text
    with host.rack.lock() as world:
        assert world.vm(111).config["cores"] == "4"
    stack.do("destroy", "--yes", "--skip-preview")
    with host.rack.lock() as world:
        volumes = [s.volumes for s in world.host("pve").storages.values()]
        assert (world.vms, world.mappings, volumes) == ({}, {}, [{}, {}])


@pytest.mark.e2e
def test_a_vm_that_does_not_start_stays_in_the_state(stack: Stack, host: RackHost) -> None:
    with host.rack.lock() as world:
        world.faults.faults.append(Fault(step="qmstart", message="no luck", times=1))
    failed = stack.run("up", "--yes", "--skip-preview")
    assert failed.returncode != 0
    assert "VM start failed: no luck" in failed.stdout
    assert "Traceback" not in failed.stdout + failed.stderr
    assert "hunter2" not in failed.stdout + failed.stderr
    assert stack.resources()["machine"]["id"] == "111"
    stack.do("up", "--yes", "--skip-preview")
    with host.rack.lock() as world:
        assert world.vm(111).is_running
    stack.do("preview", "--expect-no-changes")
    stack.do("destroy", "--yes", "--skip-preview")
    with host.rack.lock() as world:
        assert world.vms == {}
