"""The lock of a state in a folder, and whether who took it is still there."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOCKS = ".pulumi/locks"


@dataclass(frozen=True)
class Lock:
    """One lock file, as Pulumi writes it."""

    path: Path
    pid: int
    host: str
    since: str

    @property
    def holder(self) -> str:
        """Who took it, in words."""
        return f"process {self.pid} on {self.host or 'an unnamed host'}, since {self.since}"


def folder_of(backend: str) -> Path | None:
    """Folder of a `file://` back end; None for every other kind, which locks by itself."""
    parts = urlsplit(backend)
    if parts.scheme != "file":
        return None
    return Path(unquote(parts.netloc + parts.path)).expanduser()


def locks(backend: str, stack: str) -> list[Lock]:
    """The locks of one stack. `stack` is its full name, such as organization/project/dev."""
    folder = folder_of(backend)
    if folder is None:
        return []
    return [_read(file) for file in sorted((folder / LOCKS / stack).glob("*.json"))]


def _read(file: Path) -> Lock:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        found = {}
    return Lock(
        path=file,
        pid=int(found.get("pid", 0)),
        host=str(found.get("hostname", "")),
        since=str(found.get("timestamp", "an unknown time")),
    )


def process_lives(pid: int) -> bool:
    """Whether a process of this host is there; one of another user is."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid > 0


def is_dead(
    lock: Lock, lives: Callable[[int], bool] = process_lives, here: str | None = None
) -> bool:
    """Whether the lock's owner ended for certain: it was a process of this host, and is gone."""
    own = socket.gethostname() if here is None else here
    return lock.pid > 0 and lock.host == own and not lives(lock.pid)
