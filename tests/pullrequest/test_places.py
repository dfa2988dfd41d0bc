"""What cannot be reached is said, and a missing chart repository stops nothing."""

from __future__ import annotations

import gzip
import io
import json
import socket
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gpu_passthrough.config import Stack
from pullrequest import charts, unseen
from pullrequest.unseen import Blind
from tests.pullrequest.recording import stack


class Status(BaseHTTPRequestHandler):
    """Answers with the status that the path names."""

    def do_GET(self) -> None:
        first = self.path.split("/")[1]
        self.send_response(int(first) if first.isdecimal() else 200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def web() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Status)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def closed() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{one.getsockname()[1]}"


def placed(url: str) -> Stack:
    """The stack with everything at one place."""
    found = stack()
    assert found.proxmox
    assert found.cluster
    return found.model_copy(
        update={
            "proxmox": found.proxmox.model_copy(update={"endpoint": url}),
            "cluster": found.cluster.model_copy(update={"endpoint": url, "image_factory": url}),
            "gpu_operator": found.gpu_operator.model_copy(update={"repository": url}),
        }
    )


def test_every_place_that_does_not_answer_is_named_with_what_that_means() -> None:
    url = closed()
    found = unseen.blind(placed(url))
    assert [one.part for one in found] == ["proxmox", "kubernetes", "factory", "charts"]
    assert all(url in str(one) and "does not answer" in str(one) for one in found)
    assert len({str(one) for one in found}) == 4


def test_a_place_that_answers_is_not_named(web: str) -> None:
    assert unseen.blind(placed(web)) == []


def test_what_refuses_us_is_there_and_a_gateway_in_its_stead_is_not(web: str) -> None:
    assert [one.part for one in unseen.blind(placed(f"{web}/401"))] == ["factory", "charts"]
    assert len(unseen.blind(placed(f"{web}/404"))) == 4
    assert len(unseen.blind(placed(f"{web}/502"))) == 4


def test_a_port_that_takes_connections_and_says_nothing_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:

        def hang_up() -> None:
            for _ in range(4):
                mute.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        assert Blind("proxmox", url) in unseen.blind(placed(url))


def test_a_stack_on_a_cluster_that_exists_has_only_its_charts_to_ask() -> None:
    bare = stack().model_copy(update={"proxmox": None, "cluster": None})
    assert unseen.places(bare) == [Blind("charts", bare.gpu_operator.repository)]


def test_the_stand_in_has_an_index_and_the_empty_chart_it_names() -> None:
    with charts.repository("gpu-operator", "v24.9.2") as url:
        with urllib.request.urlopen(f"{url}/index.yaml") as answer:
            (entry,) = json.loads(answer.read())["entries"]["gpu-operator"]
        assert entry["version"] == "v24.9.2"
        with urllib.request.urlopen(f"{url}/{entry['urls'][0]}") as answer:
            packed = io.BytesIO(gzip.decompress(answer.read()))
        with tarfile.open(fileobj=packed) as archive:
            assert archive.getnames() == ["gpu-operator/Chart.yaml"]
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/other.tgz")
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{url}/index.yaml")
