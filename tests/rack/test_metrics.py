"""The DCGM exporter on the rack: one series per GPU, with its holder, through port-forward."""

from __future__ import annotations

import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any, cast

import pytest

from rack.cluster import listeners
from rack.cluster.streaming.connection import Connection
from rack.cluster.streaming.forward import LONGEST, SpdyForward, Talk, WebSocketForward
from rack.cluster.streaming.spdy import DICTIONARY, pack
from rack.settings import Settings
from rack.world import dcgm
from rack.world.podview import ContainerView, GpuView, ImageView, PodView

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
EXPORTER, HOLDER = "aaaaaaaa-0000-0000-0000-000000000001", "aaaaaaaa-0000-0000-0000-000000000002"


def gpu(minor: int, **changed: Any) -> GpuView:
    values: dict[str, Any] = {
        "index": minor,
        "minor": minor,
        "uuid": f"GPU-{minor}",
        "name": "NVIDIA GeForce RTX 3090",
        "memory_mib": 24576,
        "bus_id": f"00000000:0{minor + 1}:00.0",
        "architecture": "ampere",
        "compute_capability": (8, 6),
        "power_limit_w": 350,
        "used_mib": 1,
        "utilisation": 0,
        "temperature_c": 36,
        "power_w": 22,
    }
    return GpuView(**(values | changed))


def pod(uid: str, name: str, container: str, *gpus: GpuView, node: str = "w1") -> PodView:
    inside = ContainerView(
        name=container, image=ImageView(reference="any"), gpus=gpus, hostname=name
    )
    return PodView(
        uid=uid, name=name, namespace="apps", node=node, node_address="127.0.0.2",
        kernel_version="6", cpus=1, memory_mib=1024, containers={container: inside},
    )  # fmt: skip


def exporter(*gpus: GpuView) -> PodView:
    return pod(EXPORTER, "exporter-1", dcgm.CONTAINER, *gpus)


def busy() -> PodView:
    """A pod that holds the second card and sees it as its first."""
    inside = gpu(1, index=0, used_mib=801, utilisation=75, temperature_c=61, power_w=268)
    return pod(HOLDER, "ml-0", "main", inside)


def series(text: str, name: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(f"{name}{{")]


def test_a_series_for_each_gpu_with_the_values_of_the_container_that_uses_it() -> None:
    own = exporter(gpu(0), gpu(1))
    text = dcgm.metrics(
        own.containers[dcgm.CONTAINER], [own, busy()], {HOLDER: {"main": ["GPU-1"]}}
    )
    free, held = series(text, "DCGM_FI_DEV_FB_USED")
    assert free.endswith(',container="",namespace="",pod=""} 1')
    assert held == (
        'DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-1",pci_bus_id="00000000:02:00.0",device="nvidia1",'
        'modelName="NVIDIA GeForce RTX 3090",Hostname="exporter-1",DCGM_FI_DRIVER_VERSION="",'
        'container="main",namespace="apps",pod="ml-0"} 801'
    )
    last = {name: series(text, f"DCGM_FI_DEV_{name}")[1].rsplit(" ", 1)[1]
            for name in ("FB_FREE", "GPU_UTIL", "GPU_TEMP", "POWER_USAGE")}  # fmt: skip
    assert last == {"FB_FREE": "23775", "GPU_UTIL": "75", "GPU_TEMP": "61", "POWER_USAGE": "268"}


def test_who_only_sees_a_card_does_not_hold_it() -> None:
    own = exporter(gpu(1))
    text = dcgm.metrics(own.containers[dcgm.CONTAINER], [own, busy()], {})
    assert series(text, "DCGM_FI_DEV_GPU_UTIL")[0].endswith('pod=""} 75')


def test_an_exporter_without_gpus_has_no_metrics() -> None:
    assert dcgm.metrics(exporter().containers[dcgm.CONTAINER], [], {}) == ""


def test_label_values_are_escaped() -> None:
    own = exporter(gpu(0, name='a"b\\c'))
    text = dcgm.metrics(own.containers[dcgm.CONTAINER], [own], {})
    assert r'modelName="a\"b\\c"' in text


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A rack with an exporter and a holder on one node, and another card elsewhere."""
    made = Settings(home=tmp_path)
    made.pods_home.mkdir(parents=True)
    elsewhere = pod("other", "other-0", "main", gpu(1, utilisation=99), node="w2")
    for one in (exporter(gpu(0), gpu(1)), busy(), elsewhere):
        (made.pods_home / f"{one.uid}.json").write_text(one.model_dump_json())
    made.kubernetes_home.mkdir(parents=True)
    (made.kubernetes_home / listeners.CHECKPOINT).write_text(
        json.dumps({HOLDER: {"main": ["GPU-1"]}})
    )
    return made


def test_only_the_exporter_listens_and_only_on_its_port(settings: Settings) -> None:
    assert listeners.listener(settings, EXPORTER, 9400) is not None
    assert listeners.listener(settings, EXPORTER, 80) is None
    assert listeners.listener(settings, HOLDER, 9400) is None
    assert listeners.listener(settings, "gone", 9400) is None


def ask(settings: Settings, path: str) -> tuple[str, str]:
    listener = listeners.listener(settings, EXPORTER, 9400)
    assert listener is not None
    head, _, body = listener(f"GET {path} HTTP/1.1\r\n\r\n".encode()).decode().partition("\r\n\r\n")
    assert f"Content-Length: {len(body)}" in head
    return head.splitlines()[0], body


def test_metrics_are_those_of_the_exporter_s_node(settings: Settings) -> None:
    status, text = ask(settings, "/metrics")
    assert status == "HTTP/1.1 200 OK"
    used = series(text, "DCGM_FI_DEV_GPU_UTIL")
    assert len(used) == 2
    assert 'pod="ml-0"' in used[1]
    assert used[1].endswith(" 75")


@pytest.mark.parametrize(("path", "code"), [("/health", "200"), ("/", "200"), ("/other", "404")])
def test_other_paths_of_the_exporter(settings: Settings, path: str, code: str) -> None:
    assert ask(settings, path)[0].split()[1] == code


def test_a_request_may_come_in_parts_and_has_a_limit() -> None:
    talk = Talk(lambda head: b"answer to " + head[:4])
    assert talk.take(REQUEST[:7]) == b""
    assert talk.take(REQUEST[7:]) == b"answer to GET "
    assert b"431" in Talk(lambda head: b"").take(b"x" * (LONGEST + 1))


class Wire:
    """A connection in memory."""

    def __init__(self, incoming: bytes) -> None:
        self.file = io.BufferedReader(io.BytesIO(incoming))
        self.sent = b""

    def send(self, data: bytes) -> None:
        self.sent += data


def find(port: int) -> Any:
    return (lambda head: b"metrics") if port == 9400 else None


def message(body: bytes) -> bytes:
    return bytes([0x82, 0x80 | len(body)]) + bytes(4) + body


def messages(sent: bytes) -> list[bytes]:
    found = []
    while sent:
        size, start = (sent[1], 2) if sent[1] < 126 else (struct.unpack(">H", sent[2:4])[0], 4)
        found.append(sent[start : start + size])
        sent = sent[start + size :]
    return found


def test_websocket_names_its_ports_answers_and_closes() -> None:
    wire = Wire(message(b"\x00" + REQUEST[:9]) + message(b"\x00" + REQUEST[9:]))
    WebSocketForward(cast("Connection", wire), [9400, 80], find).run()
    first, second, third, fourth, refused, answer, close = messages(wire.sent)
    assert [first, second] == [b"\x00" + struct.pack("<H", 9400), b"\x01" + struct.pack("<H", 9400)]
    assert [third[0], fourth[0]] == [2, 3]
    assert refused.startswith(b"\x03error forwarding port 80")
    assert answer == b"\x00metrics"
    assert close == struct.pack(">H", 1000)


class SpdyClient:
    """Opens pairs of streams."""

    def __init__(self) -> None:
        self.deflate = zlib.compressobj(zdict=DICTIONARY)

    def open(self, number: int, kind: str, port: int, request: str) -> bytes:
        headers = {"streamtype": kind, "port": str(port), "requestid": request}
        packed = self.deflate.compress(pack(headers)) + self.deflate.flush(zlib.Z_SYNC_FLUSH)
        body = struct.pack(">IIH", number, 0, 0) + packed
        return struct.pack(">II", 0x80030001, len(body)) + body


def data(number: int, body: bytes) -> bytes:
    return struct.pack(">II", number, len(body)) + body


def data_frames(sent: bytes) -> list[tuple[int, bool, bytes]]:
    found = []
    while sent:
        head, rest = struct.unpack(">II", sent[:8])
        size = rest & 0xFFFFFF
        if not head & 0x80000000:
            found.append((head, bool(rest >> 24 & 1), sent[8 : 8 + size]))
        sent = sent[8 + size :]
    return found


def test_spdy_carries_several_connections_and_ends_each() -> None:
    client = SpdyClient()
    wire = Wire(
        client.open(1, "error", 9400, "0") + client.open(3, "data", 9400, "0")
        + client.open(5, "error", 80, "1") + client.open(7, "data", 80, "1")
        + data(3, REQUEST) + data(9, b"a stream that nobody opened")
    )  # fmt: skip
    SpdyForward(cast("Connection", wire), find).run()
    refused, *rest = data_frames(wire.sent)
    assert (refused[0], b"connection refused" in refused[2]) == (5, True)
    assert (3, False, b"metrics") in rest
    assert {number for number, is_last, _ in data_frames(wire.sent) if is_last} == {1, 3, 5, 7}
