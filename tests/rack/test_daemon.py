"""The daemon as a person meets it: start, stop, what is said when that does not work."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from rack.settings import Ports
from tests.e2e.site import free_shift

CHECKOUT = Path(__file__).parents[2]
LONGEST = 60


class Home:
    """A rack of its own: a folder and free ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shift = free_shift()
        self.ports = Ports().shifted(self.shift)

    def rack(
        self,
        *command: str,
        before: Callable[[], None] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("RACK_")}
        own = {"RACK_HOME": str(self.folder), "RACK_PORT_SHIFT": str(self.shift)}
        return subprocess.run(
            [sys.executable, "-m", "rack", *command],
            cwd=CHECKOUT,
            env={**kept, **own, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
            preexec_fn=before,
        )

    def up(self) -> None:
        done = self.rack("up")
        assert done.returncode == 0, done.stderr

    def status(self) -> Any:
        return json.loads(self.rack("status", "--json").stdout)

    def api(self, method: str, path: str, **options: Any) -> Any:
        token = (self.folder / "proxmox-token").read_text().strip()
        answer = requests.request(
            method,
            f"https://127.0.0.1:{self.ports.proxmox}/api2/json{path}",
            headers={"Authorization": f"PVEAPIToken={token}"},
            verify=str(self.folder / "proxmox.pem"),
            timeout=10,
            **options,
        )
        answer.raise_for_status()
        return answer.json()["data"]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path / "home")
    yield made
    made.rack("stop")


def test_up_status_stop(home: Home) -> None:
    assert home.rack("status").returncode == 3
    begin = time.monotonic()
    home.up()
    took = time.monotonic() - begin
    assert took < 8, f"up took {took:.1f} s"
    found = home.status()
    assert found["running"]
    assert found["simulated_rack"] is True
    assert found["vms"] == []
    assert 10 < found["resident_mib"] < 400
    again = home.rack("up")
    assert (again.returncode, "runs already" in again.stdout) == (0, True)
    assert home.status()["pid"] == found["pid"]
    assert home.api("GET", "/version")["repoid"] == "simulated-rack"
    assert home.rack("stop").returncode == 0
    assert home.status() == {"running": False, "home": str(home.folder)}
    assert "No simulated rack runs" in home.rack("stop").stdout


def test_a_person_sees_the_vms(home: Home) -> None:
    home.up()
    home.api("POST", "/nodes/pve/qemu", data={"vmid": 100, "name": "one"})
    shown = home.rack("status", environment={"COLUMNS": "120"}).stdout
    assert "one" in shown
    assert "stopped" in shown


def test_the_world_and_running_vms_come_back_after_a_restart(home: Home) -> None:
    home.up()
    home.api("POST", "/nodes/pve/qemu", data={"vmid": 100, "name": "one"})
    home.api("POST", "/nodes/pve/qemu", data={"vmid": 101, "name": "two"})
    home.api("POST", "/nodes/pve/qemu/100/status/start")
    token = (home.folder / "proxmox-token").read_text()
    before = home.api("GET", "/nodes/pve/qemu/100/status/current")
    home.rack("stop")
    home.up()
    states = {vm["name"]: vm["status"] for vm in home.api("GET", "/nodes/pve/qemu")}
    assert states == {"one": "running", "two": "stopped"}
    assert home.api("GET", "/nodes/pve/qemu/100/status/current")["pid"] == before["pid"]
    assert (home.folder / "proxmox-token").read_text() == token


def test_a_killed_daemon_leaves_nothing_in_the_way(home: Home) -> None:
    home.up()
    home.api("POST", "/nodes/pve/qemu", data={"vmid": 100})
    os.kill(home.status()["pid"], signal.SIGKILL)
    assert (home.folder / "daemon.pid").exists()
    assert not home.status()["running"]
    home.up()
    assert [vm["vmid"] for vm in home.api("GET", "/nodes/pve/qemu")] == [100]


def test_a_number_in_the_pid_file_is_not_yet_a_daemon(home: Home) -> None:
    home.folder.mkdir()
    (home.folder / "daemon.pid").write_text(f"{os.getpid()}\n")
    assert "No simulated rack runs" in home.rack("stop").stdout
    home.up()
    assert home.status()["pid"] != os.getpid()


@pytest.mark.parametrize("purpose", [*Ports.model_fields])
def test_a_port_in_use_is_named_with_its_holder(home: Home, purpose: str) -> None:
    port = getattr(home.ports, purpose)
    with socket.create_server(("127.0.0.1", port)):
        done = home.rack("up")
    assert done.returncode == 1
    assert f"port {port} on 127.0.0.1" in done.stderr
    assert f"process {os.getpid()}" in done.stderr
    assert "RACK_PORT_SHIFT" in done.stderr
    assert "Traceback" not in done.stderr
    home.up()


def test_of_two_starts_at_once_one_counts_and_both_succeed(home: Home) -> None:
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda _: home.rack("up"), range(3)))
    assert [one.returncode for one in done] == [0, 0, 0], [one.stderr for one in done]
    assert sum("started" in one.stdout for one in done) == 1


def test_two_racks_run_beside_each_other(home: Home, tmp_path: Path) -> None:
    home.up()
    other = Home(tmp_path / "other")
    try:
        other.up()
        home.api("POST", "/nodes/pve/qemu", data={"vmid": 100})
        assert other.api("GET", "/nodes/pve/qemu") == []
    finally:
        other.rack("stop")


def test_a_daemon_that_dies_at_its_start_shows_what_it_said(home: Home) -> None:
    home.folder.mkdir()
    (home.folder / "world.json").write_text("{")
    done = home.rack("up")
    assert done.returncode == 1
    assert "did not start" in done.stderr
    assert "world.json" in done.stderr
    assert "rm" in done.stderr or "remove" in done.stderr.lower()
    assert "Traceback" not in done.stderr


def test_a_disk_that_takes_nothing_is_one_message(home: Home) -> None:
    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    done = home.rack("serve", before=no_room)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "File too large" in done.stderr
    assert not (home.folder / "world.json").exists()


def test_a_home_that_cannot_be_made_is_one_message(home: Home) -> None:
    done = home.rack("up", environment={"RACK_HOME": "/proc/rack"})
    assert done.returncode == 1
    assert "/proc/rack" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("name", "value"), [("RACK_PORT_SHIFT", "some"), ("RACK_LATENCY", "slow")])
def test_a_wrong_setting_is_named(home: Home, name: str, value: str) -> None:
    done = home.rack("status", environment={name: value})
    assert done.returncode == 1
    assert f"{name}={value}" in done.stderr


def test_a_host_is_power_cycled_by_a_person(home: Home) -> None:
    assert "no simulated rack answers" in home.rack("power-cycle", "pve").stderr
    home.up()
    home.api("POST", "/nodes/pve/qemu", data={"vmid": 100})
    home.api("POST", "/nodes/pve/qemu/100/status/start")
    assert home.rack("power-cycle", "pve").returncode == 0
    assert home.api("GET", "/nodes/pve/qemu/100/status/current")["status"] == "stopped"
    wrong = home.rack("power-cycle", "pve9")
    assert wrong.returncode == 1
    assert "no host pve9; it has pve" in wrong.stderr


def test_the_environment_makes_the_token_but_does_not_print_it(home: Home) -> None:
    printed = home.rack("env").stdout
    secret = (home.folder / "proxmox-token").read_text().strip()
    assert secret.partition("=")[2] not in printed
    shown = subprocess.run(
        [
            "bash",
            "-c",
            f'{printed}\necho "$PROXMOX_VE_API_TOKEN"; echo "$KUBECONFIG"; echo "$PATH"',
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert shown[0] == secret
    assert shown[1] == str(home.folder / "kubeconfig")
    assert shown[2].startswith(str(CHECKOUT / "rack" / "plugins" / "bin"))


def test_files_of_the_home_are_the_owners_alone(home: Home) -> None:
    home.up()
    assert home.folder.stat().st_mode & 0o777 == 0o700
    files = [path for path in home.folder.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"proxmox-token", "proxmox.key", "world.json"}
    assert {path.stat().st_mode & 0o077 for path in files} == {0}


def test_the_rack_tells_about_itself_and_what_it_does_not_have(home: Home) -> None:
    home.up()
    url = f"http://127.0.0.1:{home.ports.services}"
    about = requests.get(f"{url}/rack", timeout=10).json()
    assert about["simulated_rack"] is True
    assert about["proxmox"].endswith(f":{home.ports.proxmox}")
    assert "entries" in requests.get(f"{url}/charts/index.yaml", timeout=10).text
    for path in ("/charts/none.tgz", "/rack/pods/none", "/rack/pods/..%2Fproxmox-token"):
        answer = requests.get(url + path, timeout=10)
        assert answer.status_code == 404
        assert "=" not in answer.text.partition("pve!")[2]
