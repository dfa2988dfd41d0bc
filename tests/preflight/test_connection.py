"""Hosts that do not answer as they should, tokens that do not work: never a traceback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from typer.testing import CliRunner

from gpu_passthrough.checks.progress import Progress
from gpu_passthrough.checks.report import Report
from gpu_passthrough.cli import app
from gpu_passthrough.preflight.client import AUTHORITIES, TOKEN, Client
from gpu_passthrough.preflight.registry import CHECKS
from gpu_passthrough.preflight.run import preflight
from rack.certificate import server_context
from rack.settings import Settings
from tests.preflight.ground import command, failed, run, stack_file, stack_of
from tests.rack.proxmoxserver import Served

SECRET = "0badc0de-0000-4000-8000-000000000000"
WRONG = f"pulumi@pve!gpu-passthrough={SECRET}"
Answer = Callable[[str], tuple[int, str, bytes]]


class Impostor:
    """A server with the host's certificate and answers of its own."""

    def __init__(self, settings: Settings, answer: Answer) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, kind, body = answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = server_context(settings).wrap_socket(
            self.server.socket, server_side=True
        )
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def impostor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    settings = Settings(home=tmp_path)
    made: list[Impostor] = []

    def start(answer: Answer) -> Impostor:
        made.append(Impostor(settings, answer))
        monkeypatch.setenv(TOKEN, WRONG)
        monkeypatch.setenv(AUTHORITIES, str(settings.certificate))
        return made[-1]

    yield start
    for one in made:
        one.server.shutdown()
        one.server.server_close()


def ask(place: Any, timeout_s: float = 5.0, **change: Any) -> Report:
    stack = stack_of(place, **change)
    assert stack.proxmox is not None
    return preflight("test", stack, stack.proxmox, timeout_s=timeout_s)


def as_json(data: Any) -> tuple[int, str, bytes]:
    return 200, "application/json", json.dumps(data).encode()


HTML = (200, "text/html", b"<html>Welcome to the router</html>")


@pytest.mark.parametrize(
    "answer",
    [
        HTML,
        (200, "application/json", b""),
        (200, "application/json", b"\xff\xfe"),
        as_json({}),
        as_json([]),
        as_json(None),
        as_json({"data": None}),
        as_json({"data": "9.0"}),
        (404, "text/html", b"not here"),
        (502, "text/html", b"bad gateway"),
        (503, "application/json", b"[]"),
        (500, "application/json", b'{"data": null}'),
        (302, "text/html", b""),
    ],
)
def test_what_is_not_proxmox_is_no_host(impostor: Any, answer: tuple[int, str, bytes]) -> None:
    report = ask(impostor(lambda path: answer))
    assert (report.exit_code, report.unreachable) == (3, True)
    assert report.findings[0].cause


VALUES = (None, [], {}, "text", 7, [None], ["text"], [{}], {"data": []}, [[]], {"/": None})


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_answers_of_another_shape_are_could_not_tell(impostor: Any, value: Any) -> None:
    def answer(path: str) -> tuple[int, str, bytes]:
        version = path.endswith("/version")
        return as_json({"data": {"version": "9.0.11"} if version else value})

    report = ask(impostor(answer))
    assert report.exit_code == 1
    assert {one.status for one in report.failures} <= {"failed", "could-not-tell"}


@pytest.mark.parametrize("status", [403, 500, 501, 595])
def test_what_one_path_refuses_leaves_the_others(
    served: Served, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    before = requests.Session.request

    def request(self: Any, method: str, url: str, *args: Any, **options: Any) -> Any:
        answer = before(self, method, url, *args, **options)
        if "hardware/pci" in url:
            answer.status_code, answer.reason = status, "no"
        return answer

    monkeypatch.setattr(requests.Session, "request", request)
    report = run(served)
    assert report.exit_code == 1
    assert failed(report) == {"iommu", "device", "iommu-group"}
    assert {one.status for one in report.failures} == {"could-not-tell"}


def test_a_host_that_is_not_there(served: Served) -> None:
    served.close()
    report = run(served)
    assert (report.exit_code, report.unreachable) == (3, True)
    assert "refused" in report.findings[0].cause


def test_a_name_that_nobody_knows(served: Served) -> None:
    report = run(served, proxmox={"endpoint": "https://no-such-host.invalid:8006"})
    assert report.exit_code == 3
    assert "the connection fails" in report.findings[0].cause


def test_a_host_that_goes_away_in_between_keeps_what_was_found(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = requests.Session.request

    def request(self: Any, method: str, url: str, *args: Any, **options: Any) -> Any:
        if "hardware/pci" in url:
            raise requests.ConnectionError("Remote end closed connection without response")
        return before(self, method, url, *args, **options)

    monkeypatch.setattr(requests.Session, "request", request)
    report = run(served)
    assert report.exit_code == 3
    assert [one.id for one in report.findings] == [
        "version",
        "token",
        "permissions",
        "host",
        "version",
    ]
    assert "closes the connection" in report.findings[-1].cause


def test_a_host_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, WRONG)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place: Any = type("Place", (), {"port": silent.getsockname()[1]})
        begin = time.monotonic()
        report = ask(place, timeout_s=0.3)
    assert report.exit_code == 3
    assert "timed out" in report.findings[0].cause
    assert time.monotonic() - begin < 5


def test_a_host_that_is_slow(impostor: Any) -> None:
    def slow(path: str) -> tuple[int, str, bytes]:
        time.sleep(1.0)
        return as_json({"data": {"version": "9.0.11"}})

    assert "timed out" in ask(impostor(slow), timeout_s=0.2).findings[0].cause


def test_a_host_that_speaks_no_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, WRONG)
    handler = type("Handler", (BaseHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place: Any = type("Place", (), {"port": server.server_port})
    report = ask(place)
    server.shutdown()
    server.server_close()
    assert (report.exit_code, "TLS" in report.findings[0].cause) == (3, True)


def test_a_certificate_that_nobody_knows(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(AUTHORITIES)
    report = run(served)
    assert report.exit_code == 3
    assert "certificate verify failed" in report.findings[0].cause
    assert "pve-root-ca.pem" in report.findings[0].fix
    accepted = run(served, proxmox={"insecure": True})
    assert accepted.exit_code == 0


def test_a_file_of_authorities_that_is_not_there(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AUTHORITIES, "/nowhere/ca.pem")
    report = run(served)
    assert (report.exit_code, AUTHORITIES in report.findings[0].cause) == (3, True)


@pytest.mark.parametrize(
    ("token", "says"),
    [
        ("", "there is no API token"),
        ("nonsense", "not of the form"),
        (SECRET, "not of the form"),
        (f"root@pam={SECRET}", "not of the form"),
        (f"pulumi@pve!gpu-passthrough={SECRET}\nX-Header: 1", "not of the form"),
        (WRONG, "does not accept"),
        (f"nobody@pve!gone={SECRET}", "does not accept"),
    ],
)
def test_tokens_that_do_not_work(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str, says: str
) -> None:
    monkeypatch.setenv(TOKEN, token)
    report = run(served)
    (finding,) = report.findings
    assert (finding.id, report.exit_code) == ("token", 1)
    assert says in finding.cause
    for ignored in ([], ["--ignore", "token"], ["--ignore", "all"]):
        done = command(served, tmp_path, *ignored)
        assert done.exit_code == 1  # nothing was checked, so nothing can pass
        assert "--ignore" not in done.output
        assert SECRET not in done.output + done.stderr


def test_a_disabled_user_is_a_token_that_does_not_work(served: Served) -> None:
    with served.rack.lock() as world:
        world.access.users[served.token.partition("!")[0]].enabled = False
    report = run(served)
    assert (report.exit_code, report.findings[0].id) == (1, "token")


def pulumi(folder: Path, text: str) -> None:
    """A stand-in for Pulumi's command line on PATH."""
    program = folder / "bin" / "pulumi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o700)
    os.environ["PATH"] = f"{program.parent}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture
def encrypted(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Run the command on a stack file with an encrypted token, and with this for Pulumi."""
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.delenv(TOKEN)
    file = stack_file(served, tmp_path, proxmox={"apiToken": {"secure": "v1:abc:def"}})

    def start(text: str) -> Any:
        pulumi(tmp_path, text)
        return CliRunner().invoke(app, ["preflight", str(file)])

    return start


def test_pulumi_decrypts_the_stacks_token(served: Served, encrypted: Any, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    done = encrypted(f"echo \"$@\" > {asked}; echo '{served.token}'")
    assert done.exit_code == 0, done.output
    assert asked.read_text().split() == [
        "--non-interactive", "config", "get", "--stack", "test", "--path",
        "gpu-passthrough:proxmox.apiToken",
    ]  # fmt: skip
    assert served.token.partition("=")[2] not in done.output + done.stderr


def test_a_token_that_pulumi_cannot_decrypt(encrypted: Any) -> None:
    done = encrypted(f"echo {SECRET}; echo 'error: incorrect passphrase' >&2; exit 1")
    assert done.exit_code == 1
    assert "Pulumi cannot decrypt it: error: incorrect passphrase" in done.output
    assert "pulumi config get --stack test" in done.output
    assert SECRET not in done.output + done.stderr


def test_the_secret_is_shown_nowhere(
    served: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    secret = os.environ[TOKEN].partition("=")[2]
    with served.rack.lock() as world:
        world.hosts["pve"].iommu = False
    junit = tmp_path / "report.xml"
    for arguments in ([], ["--json"], ["--brief"], ["--junit", str(junit)]):
        done = command(served, tmp_path, *arguments)
        assert done.exit_code == 1
        assert secret not in done.output + done.stderr
    assert secret not in junit.read_text()
    assert secret not in caplog.text
    assert secret not in repr(Client(stack_of(served).proxmox))  # type: ignore[arg-type]


def test_it_only_reads(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    methods: set[str] = set()
    before = requests.Session.request

    def request(self: Any, method: str, *args: Any, **options: Any) -> Any:
        methods.add(method.upper())
        return before(self, method, *args, **options)

    monkeypatch.setattr(requests.Session, "request", request)
    with served.rack.lock() as world:
        before_run = world.model_dump_json()
    run(served)
    assert methods == {"GET"}
    with served.rack.lock() as world:
        assert world.model_dump_json() == before_run


def test_after_a_while_it_says_what_it_is_doing() -> None:
    said: list[str] = []
    with Progress(said.append, patience_s=0.05) as progress:
        progress("first")
        assert said == []
        time.sleep(0.3)
        assert said == ["first"]
        progress("second")
    assert said == ["first", "second"]


def test_what_is_quick_says_nothing(served: Served, tmp_path: Path) -> None:
    assert command(served, tmp_path).stderr == ""


def test_a_report_that_cannot_be_written(served: Served, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = command(served, tmp_path, "--junit", str(tmp_path / "file" / "report.xml"))
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr


def test_a_stack_without_vms_has_a_report_as_well(tmp_path: Path) -> None:
    existing = {
        "kubernetes": {"kubeconfig": {"secure": "v1:x"}},
        "gpuOperator": {"version": "v26.3.1"},
    }
    config = {f"gpu-passthrough:{key}": value for key, value in existing.items()}
    file = tmp_path / "Pulumi.test.yaml"
    file.write_text(json.dumps({"config": config}))
    done = CliRunner().invoke(app, ["preflight", str(file), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["findings"] == []


def test_the_installed_command_ends_in_words(served: Served, tmp_path: Path) -> None:
    """As a process: nothing but the report on stdout, no warning of a library on stderr."""
    file = stack_file(served, tmp_path, proxmox={"insecure": True})
    done = subprocess.run(
        [sys.executable, "-m", "gpu_passthrough", "preflight", str(file), "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert {one["id"] for one in json.loads(done.stdout)["findings"]} == set(CHECKS)
