"""Asking a Kubernetes API: credentials, refusals, and everything that is no answer."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from typer.testing import CliRunner

from gpu_passthrough.cli import app
from gpu_passthrough.kubeapi import (
    ForbiddenError,
    KubernetesApi,
    UnreachableError,
    parse,
    with_context,
)

TOKEN = "a-token"


class Handler(BaseHTTPRequestHandler):
    """Answers 401 without the token, and otherwise what the path's first part says."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        status = int(self.path.split("/")[1]) if known else 401
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"<html>" if "html" in self.path else json.dumps(ANSWER).encode())

    do_POST = do_DELETE = do_GET  # noqa: N815 (the library's names)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


ANSWER = {"items": [{"a": 1}], "message": "words"}


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    made = HTTPServer(("127.0.0.1", 0), Handler)
    Handler.asked.clear()
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()


def kubeconfig(url: str, **user: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def api(server: HTTPServer, token: str = TOKEN) -> KubernetesApi:
    return KubernetesApi(kubeconfig(f"http://127.0.0.1:{server.server_port}", token=token))


def test_the_kubeconfig_s_token_is_sent(server: HTTPServer) -> None:
    assert api(server).items("/200/things") == [{"a": 1}]
    assert json.loads(api(server).text("/200/log")) == ANSWER
    api(server).create("/201/things", {"b": 2})
    api(server).delete("/200/things/a")
    assert Handler.asked[2:] == ["POST /201/things", "DELETE /200/things/a"]


def test_a_wrong_token_lets_nobody_in(server: HTTPServer) -> None:
    with pytest.raises(UnreachableError, match="does not accept the credentials") as raised:
        api(server, "another").get("/200/things")
    assert "another" not in str(raised.value)


@pytest.mark.parametrize(
    ("path", "raised", "says"),
    [
        ("/403/things", ForbiddenError, "GET /403/things: 403 words"),
        ("/409/things", ForbiddenError, "409"),
        ("/429/things", UnreachableError, "cannot serve at the moment: GET /429/things: 429 words"),
        ("/503/things", UnreachableError, "503"),
        ("/200/html", UnreachableError, "does not answer as a Kubernetes API"),
    ],
)
def test_refusals(server: HTTPServer, path: str, raised: type[Exception], says: str) -> None:
    with pytest.raises(raised, match=says):
        api(server).get(path)


def test_what_is_not_there(server: HTTPServer) -> None:
    assert api(server).get("/404/thing") is None
    assert api(server).items("/404/things") == []
    assert api(server).text("/404/log") == ""
    api(server).delete("/404/thing")
    with pytest.raises(ForbiddenError, match="404, the namespace does not exist"):
        api(server).create("/404/things", {})


def test_another_clusters_certificate_is_no_answer(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    subprocess.run(
        f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {certificate} -days 1"
        " -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1".split(),
        check=True,
        capture_output=True,
    )
    made = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    made.socket = context.wrap_socket(made.socket, server_side=True)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    try:
        url = f"https://127.0.0.1:{made.server_port}"
        with pytest.raises(UnreachableError, match="does not answer: .*certificate"):
            KubernetesApi(kubeconfig(url, token=TOKEN)).get("/200/things")
    finally:
        made.shutdown()


@pytest.mark.parametrize("text", ["a: [1", "words", "[1, 2]", "", "clusters: 3"])
@pytest.mark.parametrize("command", [("verify", "dev", "--no-host"), ("watch",), ("overview",)])
def test_a_file_that_is_no_kubeconfig_is_words(
    tmp_path: Path, text: str, command: tuple[str, ...]
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    done = CliRunner().invoke(app, [*command, "--kubeconfig", str(file)])
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code != 0
    assert str(file) in done.output + done.stderr


def test_a_folder_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=str(tmp_path)):
        KubernetesApi(str(tmp_path))


@pytest.mark.parametrize(
    "text",
    ["users:\n- user: {token: S3CRET: x\n", "S3CRET", "- S3CRET", "", "a: S3CRET", "'S3CRET"],
)
def test_what_is_wrong_with_a_kubeconfig_shows_nothing_of_it(text: str) -> None:
    with pytest.raises(UnreachableError, match="the kubeconfig") as raised:
        parse(text)
    assert "S3CRET" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_another_context() -> None:
    found = kubeconfig("http://127.0.0.1:1")
    text = yaml.safe_dump(found)
    assert with_context(text, None) == text
    assert yaml.safe_load(with_context(text, "y")) == {**found, "current-context": "y"}
    for odd in ("given", "a: [1"):
        assert with_context(odd, "y") == odd
    with pytest.raises(UnreachableError):
        KubernetesApi(found, "missing")
