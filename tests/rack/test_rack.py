"""The rack's clock and its waiting threads."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rack.files import write_private
from rack.rack import Rack
from rack.settings import Settings
from rack.token import TOKEN_ID, read_token


def test_with_latency_tasks_end_by_themselves(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, latency="realistic")
    now = [1_800_000_000.0]
    rack = Rack(settings, clock=lambda: now[0])
    with rack.lock() as world:
        upid = world.submit("qmconfig", "pve", "100", "pulumi@pve!gpu-passthrough", rack.now())
    clock = threading.Thread(target=rack.run_clock, daemon=True)
    now[0] += 60
    clock.start()
    ended = rack.wait_for(
        lambda world: getattr(world.task(upid), "exit_status", "") or None, timeout=5
    )
    rack.close()
    clock.join(5)
    assert ended == "OK"
    assert not clock.is_alive()


def test_a_wait_ends_with_its_time_or_with_the_rack(tmp_path: Path) -> None:
    rack = Rack(Settings(home=tmp_path))
    assert rack.wait_for(lambda world: None, timeout=0.01) is None
    waiting = threading.Thread(target=rack.wait_for, args=(lambda world: None,))
    waiting.start()
    rack.close()
    waiting.join(5)
    assert not waiting.is_alive()


def test_a_change_wakes_who_waits_for_it(tmp_path: Path) -> None:
    rack = Rack(Settings(home=tmp_path))
    found: list[int | None] = []
    waiting = threading.Thread(
        target=lambda: found.append(rack.wait_for(lambda w: len(w.tasks) or None, timeout=5))
    )
    waiting.start()
    with rack.lock() as world:
        world.submit("qmconfig", "pve", "100", "root@pam", rack.now())
    waiting.join(5)
    assert found == [1]


def test_a_file_that_cannot_be_written_keeps_its_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "world.json"
    write_private(file, "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fdopen", full)
    with pytest.raises(OSError, match="No space left"):
        write_private(file, "new")
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["world.json"]


def test_a_rack_goes_on_in_memory_and_saves_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(home=tmp_path)
    rack = Rack(settings)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("rack.rack.write_private", full)
        with rack.lock() as world:
            world.latency = "realistic"
    assert "No space left on device" in caplog.text
    with rack.lock():
        pass
    assert '"latency":"realistic"' in settings.world_file.read_text()


def test_the_token_is_made_once(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    token = read_token(settings)
    assert token.startswith(f"{TOKEN_ID}=")
    assert read_token(settings) == token
    assert settings.token_file.stat().st_mode & 0o777 == 0o600
