"""Exec and logs: only the rack's programs run, in the pod that was meant, for the API server."""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from rack.authority import Authority
from rack.cluster import podlogs
from rack.cluster.pki import Pki
from rack.cluster.streaming import logs, session
from rack.cluster.streaming.channels import Input, Name
from rack.cluster.streaming.server import KubeletServer
from rack.settings import Settings
from tests.model.podworld import RTX_3090, node, pod, started
from tests.rack.clusterfacts import cluster_facts
from tests.rack.fakekube import FakeKube

POD = "/api/v1/namespaces/immich/pods/ml-0"


class Kept:
    """Channels that keep what is written and give what a client would type."""

    def __init__(self, stdin: bytes = b"") -> None:
        self.stdin = stdin
        self.written: dict[str, bytes] = {}
        self.done = threading.Event()

    def write(self, name: Name, data: bytes, *, is_last: bool = False) -> None:
        self.written[name] = self.written.get(name, b"") + data

    def read(self, take: Input) -> None:
        take("stdin", self.stdin, is_last=True)
        self.done.wait(30)

    def close(self) -> None:
        self.done.set()


@pytest.fixture
def view(tmp_path: Path) -> Path:
    file = tmp_path / "view.json"
    file.write_text(started(pod(), node(RTX_3090), RTX_3090).view.model_dump_json())
    return file


def run(view: Path, *argv: str, stdin: bytes = b"", terminal: bool = False) -> tuple[Any, Kept]:
    """Status and streams of a command in the pod."""
    channels = Kept(stdin)
    command = session.Command(view, "main", argv, bool(stdin), terminal)
    try:
        session.run(command, channels)
    finally:
        channels.close()
    return json.loads(channels.written["error"]), channels


@pytest.mark.parametrize("name", ["nvidia-smi", "/usr/local/bin/nvidia-smi"])
def test_a_program_of_the_pod_by_name_and_by_path(view: Path, name: str) -> None:
    status, channels = run(view, name, "-L")
    assert status["status"] == "Success"
    assert b"NVIDIA GeForce RTX 3090" in channels.written["stdout"]


def test_an_exit_code_and_both_streams_come_through(view: Path) -> None:
    status, channels = run(view, "/bin/sh", "-c", "echo out; ls /nope; exit 7")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]
    assert channels.written["stdout"] == b"out\n"
    assert b"/nope" in channels.written["stderr"]


def test_input_reaches_the_program(view: Path) -> None:
    _, channels = run(view, "wc", "-c", stdin=b"hello")
    assert channels.written["stdout"].strip() == b"5"


def test_a_terminal_is_one_stream_with_its_line_ends(view: Path) -> None:
    status, channels = run(view, "sh", "-c", "echo out", terminal=True)
    assert status["status"] == "Success"
    assert channels.written["stdout"] == b"out\r\n"
    assert "stderr" not in channels.written


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        (sys.executable, f'exec: "{sys.executable}": stat {sys.executable}: no such file'),
        ("/usr/bin/env-of-nobody", "no such file or directory"),
        ("apt", 'exec: "apt": executable file not found in $PATH'),
    ],
)
def test_programs_of_this_machine_are_not_there(view: Path, name: str, cause: str) -> None:
    assert Path(sys.executable).exists()
    status, channels = run(view, name, "-c", "print(1)")
    assert status["reason"] == "InternalError"
    assert cause in status["message"]
    assert "stdout" not in channels.written


LINES = (
    "2026-01-01T00:00:01.000000Z stdout F one",
    "2026-01-01T00:00:02.000000Z stderr F two words",
    "2026-01-01T00:00:03.000000Z stdout F three",
)
NOW = 1767225604.0
"""A second after the last line."""


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({}, "one\ntwo words\nthree\n"),
        ({"tailLines": "2"}, "two words\nthree\n"),
        ({"tailLines": "0"}, ""),
        ({"tailLines": "9"}, "one\ntwo words\nthree\n"),
        ({"sinceSeconds": "2"}, "two words\nthree\n"),
        ({"sinceTime": "2026-01-01T00:00:03Z"}, "three\n"),
        ({"limitBytes": "5"}, "one\nt"),
        ({"tailLines": "1", "timestamps": "true"}, "2026-01-01T00:00:03.000000Z three\n"),
    ],
)
def test_parts_of_a_log(tmp_path: Path, query: dict[str, str], text: str) -> None:
    file = tmp_path / "c.log"
    file.write_text("".join(f"{line}\n" for line in LINES))
    assert b"".join(logs.read(file, logs.Wanted.of(query, NOW), lambda: True)).decode() == text


def test_a_log_that_is_followed_ends_with_its_container(tmp_path: Path) -> None:
    file = tmp_path / "c.log"
    file.write_text(f"{LINES[0]}\n")

    def ends() -> bool:
        with file.open("a") as log:
            log.write(f"{LINES[1]}\n")
        return file.read_text().count("\n") > 2

    parts = list(logs.read(file, logs.Wanted(follow=True), ends))
    assert b"".join(parts) == b"one\ntwo words\ntwo words\n"


class Site:
    """The kubelets' port with one pod."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.facts = cluster_facts()
        self.pki = Pki(settings, self.facts)
        self.pki.write()
        self.api = FakeKube()
        self.api.put(POD, {**pod(), "spec": {**pod()["spec"], "nodeName": "k8s-worker-1"}})
        self.up = {"k8s-worker-1"}
        self.server = KubeletServer(settings, self.api, lambda name: name in self.up)
        self.server.start()

    def say(self, state: dict[str, Any]) -> None:
        """Give the pod's container a state."""
        status = {"containerStatuses": [{"name": "main", "state": state}]}
        self.api.merge(POD, {"status": status})

    def get(self, path: str, client: str = "apiserver-kubelet-client") -> tuple[str, str]:
        """Status line and text of an answer."""
        context = ssl.create_default_context(cadata=self.facts.kubernetes_ca)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if client:
            context.load_cert_chain(self.pki.file(f"{client}.crt"), self.pki.file(f"{client}.key"))
        address = ("127.0.0.1", self.settings.ports.kubelet)
        with (
            socket.create_connection(address, timeout=10) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as tls,
        ):
            tls.sendall(f"GET {path} HTTP/1.1\r\nHost: kubelet\r\n\r\n".encode())
            answer = b"".join(iter(lambda: tls.recv(65536), b"")).decode()
        head, _, text = answer.partition("\r\n\r\n")
        return head.splitlines()[0], text


@pytest.fixture
def site(tmp_path: Path) -> Any:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        shift = probe.getsockname()[1] - Settings().ports.kubelet
    made = Site(Settings(home=tmp_path, port_shift=shift))
    yield made
    made.server.stop()


LOGS = "/containerLogs/immich/ml-0/main"
EXEC = "/exec/immich/ml-0/main?command=ls&output=1"


def test_the_log_of_a_pod(site: Site) -> None:
    podlogs.begin(site.settings, pod()["metadata"]["uid"], "main", ["one", "two"])
    assert site.get(f"{LOGS}?tailLines=1") == ("HTTP/1.1 200 OK", "two\n")


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/containerLogs/immich/other/main", "404", "pod does not exist"),
        (LOGS, "400", 'container "main" in pod "ml-0" is waiting to start: ContainerCreating'),
        (f"{LOGS}?previous=true", "400", "previous terminated container"),
        (f"{LOGS}?tailLines=many", "400", "many"),
        (EXEC, "500", 'container not found ("main")'),
        ("/pods", "404", "simulated rack"),
    ],
)
def test_what_cannot_be_served(site: Site, path: str, status: str, text: str) -> None:
    site.say({"waiting": {"reason": "ContainerCreating"}})
    line, found = site.get(path)
    assert line.split()[1] == status
    assert text in found


def test_an_exec_that_is_no_upgrade(site: Site) -> None:
    site.say({"running": {}})
    assert site.get(EXEC)[0].split()[1] == "400"


def test_a_machine_that_is_off_answers_nothing(site: Site) -> None:
    site.say({"running": {}})
    site.up.clear()
    line, text = site.get(EXEC)
    assert line.split()[1] == "502"
    assert "k8s-worker-1 is off" in text


def test_only_the_api_server_is_served(site: Site) -> None:
    leaf = Authority.read(site.facts.kubernetes_ca, site.facts.kubernetes_ca_key).issue("somebody")
    Path(site.pki.file("other.crt")).write_text(leaf.certificate)
    Path(site.pki.file("other.key")).write_text(leaf.key)
    assert site.get("/healthz", "other")[0].split()[1] == "403"
    assert site.get("/healthz") == ("HTTP/1.1 200 OK", "ok")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        site.get("/healthz", client="")
