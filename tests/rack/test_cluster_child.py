"""Programs that live as long as the daemon."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rack.cluster.child import Child, end_left_over

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def until(holds: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


@pytest.fixture
def child(tmp_path: Path) -> Child:
    return Child("sleeper", SLEEP, tmp_path)


def test_a_child_lives_until_it_is_told(child: Child) -> None:
    child.start()
    assert child.lives
    child.terminate()
    child.wait(5)
    assert not child.lives


def test_a_dead_child_starts_again(child: Child) -> None:
    child.start()
    child.kill()
    assert not child.lives
    until(child.keep_alive)
    assert child.lives
    child.kill()


def test_one_that_was_never_started_stays_so(child: Child) -> None:
    assert not child.keep_alive()
    assert not child.lives


def test_one_that_dies_at_once_is_not_started_all_the_time(tmp_path: Path) -> None:
    log = tmp_path / "broken.log"
    broken = Child("broken", [sys.executable, "-c", "print('no'); raise SystemExit(3)"], tmp_path)
    broken.start()
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        broken.keep_alive()
        time.sleep(0.01)
    broken.kill()
    assert 2 <= log.read_text().count("no") <= 4


def test_one_that_does_not_end_is_killed(tmp_path: Path) -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('deaf', flush=True); time.sleep(60)"
    )
    child = Child("deaf", [sys.executable, "-c", deaf], tmp_path)
    child.start()
    until((tmp_path / "deaf.log").read_text)
    child.terminate()
    begin = time.monotonic()
    child.wait(0.2)
    assert time.monotonic() - begin < 5
    assert not child.lives


def test_what_it_says_is_for_its_owner_only(child: Child, tmp_path: Path) -> None:
    child.start()
    child.kill()
    assert (tmp_path / "sleeper.log").stat().st_mode & 0o077 == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_child_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from rack.cluster.child import Child;"
        f"child = Child('sleeper', {SLEEP!r}, Path({str(tmp_path)!r})); child.start();"
        "print(child._process.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    number = int(parent.stdout.readline())
    state = Path(f"/proc/{number}/cmdline")
    until(lambda: b"sleep(60)" in state.read_bytes() and b"child.py" not in state.read_bytes())
    parent.kill()
    parent.wait()
    until(lambda: not state.exists() or not state.read_bytes())


def test_only_programs_of_this_home_are_ended(tmp_path: Path) -> None:
    own, other = tmp_path / "rack", tmp_path / "rack2"
    program = tmp_path / "etcd"
    program.symlink_to("/bin/sleep")
    kept = tmp_path / "tail"
    kept.symlink_to("/bin/sleep")

    def start(executable: Path, home: Path) -> subprocess.Popen[bytes]:
        code = "import time; time.sleep(60)"
        return subprocess.Popen(
            [str(executable), "-c", code, f"--data-dir={home}/etcd"], executable=sys.executable
        )

    ours, theirs, reader = start(program, own), start(program, other), start(kept, own)
    try:
        end_left_over(own, {"etcd"})
        assert ours.wait(5) == -9
        assert theirs.poll() is None
        assert reader.poll() is None
    finally:
        for process in (ours, theirs, reader):
            process.kill()
            process.wait()
