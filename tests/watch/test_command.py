"""What watch prints, when it ends, and with which exit code."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from gpu_passthrough.cli import app
from gpu_passthrough.verify.cluster import ForbiddenError, UnreachableError
from gpu_passthrough.watch import command, view
from gpu_passthrough.watch.command import Options, loop
from gpu_passthrough.watch.metrics import Reading
from tests.watch.test_sample import HELD

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
FREE = replace(HELD, uuid="GPU-2", bus_id="00000000:02:00.0", pods=(), index=None, power_w=None)
GOOD = Reading([HELD, FREE], [], [])
PARTLY = Reading([HELD], ["w1: a note"], ["w2: 1 GPU unknown"])
NOTHING = Reading([], [], [])


def test_plain_lines_align_and_say_the_source() -> None:
    title, head, first, second = view.plain(GOOD, NOW).splitlines()
    assert title == "12:30:00"
    assert first.split("  ")[0] == "w1"
    assert "GeForce RTX 3090" in first
    assert "801/24576 MiB" in first
    assert first.index("apps/ml-0") == second.index("(free)") == head.index("POD")
    assert first.endswith("dcgm")
    assert " -  " in second


def test_what_was_not_read_is_said_in_every_form() -> None:
    assert "not read: w2: 1 GPU unknown\nnote: w1: a note\n" in view.plain(PARTLY, NOW)
    assert json.loads(view.as_json(PARTLY, NOW))["unread"] == ["w2: 1 GPU unknown"]
    assert "not read: w2" in drawn(PARTLY)


def drawn(reading: Reading) -> str:
    out = io.StringIO()
    Console(file=out, width=100).print(view.table(reading, NOW))
    return out.getvalue()


@pytest.mark.parametrize("form", [lambda r: view.plain(r, NOW), drawn])
def test_no_gpu_is_a_sentence(form: Callable[[Reading], str]) -> None:
    assert "No GPU: no node offers one" in form(NOTHING)


@pytest.mark.parametrize("form", [lambda r: view.plain(r, NOW), drawn])
def test_names_do_not_steer_the_terminal(form: Callable[[Reading], str]) -> None:
    hostile = replace(HELD, name="\x1b[2J\x9b1m[red]card\r\n", pods=("a/\x07b",))
    text = form(Reading([hostile], ["\x1b[31mred"], []))
    assert not set(text) & {"\x1b", "\x9b", "\x07", "\r"}
    assert "[red]card" in text


def test_json_is_one_line_with_every_value() -> None:
    text = view.as_json(GOOD, NOW)
    assert text.count("\n") == 1
    found = json.loads(text)
    assert found["time"] == "2026-01-01T12:30:00.000+00:00"
    assert found["gpus"][0]["pods"] == ["apps/ml-0"]
    assert found["gpus"][1]["power_w"] is None


@pytest.mark.parametrize(("reading", "code"), [(GOOD, 0), (PARTLY, 1), (NOTHING, 1)])
def test_once_ends_with_what_was_read(reading: Reading, code: int) -> None:
    shown: list[object] = []
    assert loop(lambda: reading, shown.append, Options(once=True)) == code
    assert shown == [reading]


class EndError(Exception):
    """Ends a loop that would not end."""


def test_a_later_look_may_fail_and_is_tried_again() -> None:
    looks: Iterator[Reading | Exception] = iter([GOOD, UnreachableError("gone"), PARTLY])
    shown: list[object] = []
    waits: list[float] = []

    def look() -> Reading:
        found = next(looks, EndError())
        if isinstance(found, Exception):
            raise found
        return found

    with pytest.raises(EndError):
        loop(look, shown.append, Options(interval_s=3.0), waits.append)
    assert shown == [GOOD, "gone", PARTLY]
    assert waits == [3.0, 3.0, 3.0]


def kubeconfig(folder: Path) -> str:
    file = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(json.dumps(document))
    return str(file)


def invoke(folder: Path, *options: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["watch", "--kubeconfig", kubeconfig(folder), *options])
    return done.exit_code, done.stdout, done.stderr


def test_a_cluster_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    code, out, error = invoke(tmp_path)
    assert (code, out, error.count("\n")) == (3, "", 1)
    assert "http://127.0.0.1:1 does not answer" in error


def test_a_kubeconfig_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["watch", "--kubeconfig", str(tmp_path / "none")])
    assert done.exit_code == 3
    assert "none" in done.stderr


@pytest.mark.parametrize(
    ("raised", "code"), [(ForbiddenError("GET nodes: 403"), 3), (KeyboardInterrupt(), 0)]
)
def test_a_refusal_and_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int
) -> None:
    def look(cluster: object) -> Reading:
        raise raised

    monkeypatch.setattr(command, "look", look)
    found, out, error = invoke(tmp_path)
    assert (found, out) == (code, "")
    assert error == ("GET nodes: 403\n" if code else "")


def test_once_in_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "look", lambda cluster: PARTLY)
    code, out, _ = invoke(tmp_path, "--once", "--json")
    assert code == 1
    assert json.loads(out)["gpus"][0]["uuid"] == "GPU-1"


@pytest.mark.parametrize("interval", ["0", "-1", "soon"])
def test_a_wrong_interval_is_wrong_use(tmp_path: Path, interval: str) -> None:
    assert invoke(tmp_path, "--interval", interval)[0] == 2
