"""Locks are removed only where their owner is gone for certain."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_passthrough.recover.locks import Lock, folder_of, is_dead, locks

HERE = socket.gethostname()
STACK = "organization/gpu-passthrough/dev"


def gone() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def lock(pid: int, host: str = HERE) -> Lock:
    return Lock(Path("lock.json"), pid, host, "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("pid", "host", "dead"),
    [
        pytest.param(gone(), HERE, True, id="ended-here"),
        pytest.param(os.getpid(), HERE, False, id="alive-here"),
        pytest.param(1, HERE, False, id="alive-of-another-user"),
        pytest.param(gone(), "elsewhere", False, id="another-host"),
        pytest.param(gone(), "", False, id="no-host"),
        pytest.param(0, HERE, False, id="no-process"),
    ],
)
def test_whose_owner_is_gone(pid: int, host: str, dead: bool) -> None:
    assert is_dead(lock(pid, host)) is dead


def write(backend: Path, stack: str, name: str, text: str) -> Path:
    file = backend / ".pulumi/locks" / stack / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_only_the_stacks_own_locks(tmp_path: Path) -> None:
    content = {"pid": 12, "hostname": "a", "username": "b", "timestamp": "2026-01-01T00:00:00Z"}
    own = write(tmp_path, STACK, "1", json.dumps(content))
    write(tmp_path, "organization/gpu-passthrough/homelab", "2", json.dumps(content))
    found = locks(f"file://{tmp_path}", STACK)
    assert [one.path for one in found] == [own]
    assert (found[0].pid, found[0].host) == (12, "a")
    assert "process 12 on a, since 2026-01-01" in found[0].holder


def test_a_lock_that_cannot_be_read_is_never_dead(tmp_path: Path) -> None:
    write(tmp_path, STACK, "1", "{")
    (found,) = locks(f"file://{tmp_path}", STACK)
    assert not is_dead(found)


@pytest.mark.parametrize(
    ("backend", "folder"),
    [
        ("file:///var/state", Path("/var/state")),
        ("file:///with%20space", Path("/with space")),
        ("file://~", Path.home()),
        ("s3://bucket", None),
        ("https://api.pulumi.com", None),
        ("", None),
    ],
)
def test_which_back_ends_keep_locks_in_a_folder(backend: str, folder: Path | None) -> None:
    assert folder_of(backend) == folder
