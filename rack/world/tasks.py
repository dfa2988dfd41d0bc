"""Tasks of a Proxmox VE host: what a long operation is called, and how it ended."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

from pydantic import BaseModel

from rack.world.errors import invalid

Latency = Literal["instant", "realistic"]

SECONDS: Final = {
    "qmcreate": 6.0,
    "qmstart": 3.5,
    "qmstop": 1.0,
    "qmshutdown": 8.0,
    "qmreboot": 12.0,
    "qmreset": 0.5,
    "qmdestroy": 1.5,
    "qmconfig": 0.5,
    "resize": 0.5,
    "download": 25.0,
    "imgdel": 1.0,
}
"""How long a kind of task takes in the realistic profile, in seconds."""

_UPID: Final = re.compile(
    r"UPID:(?P<node>[a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?):[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8,9}:"
    r"[0-9A-Fa-f]{8}:[^:\s]+:[^:\s]*:[^:\s]+:"
)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.@-]")


class Task(BaseModel):
    """One worker of a host: it does its work at `finish`, all at once."""

    upid: str
    node: str
    pid: int
    pstart: int
    """Start of the process in clock ticks since the host's boot."""
    kind: str
    """PVE's worker type, for example qmstart."""
    id: str
    """What it works on: a VM's number, a file's name, a storage."""
    user: str
    """User or token that asked for it."""
    start: float
    """Unix time."""
    finish: float
    work: dict[str, Any] = {}
    """Arguments of the work."""
    exit_status: str = ""
    """Empty while it runs; then OK, or what went wrong."""
    log: list[str] = []

    @property
    def failed(self) -> bool:
        """It ended with an error."""
        return self.exit_status not in ("", "OK") and not self.exit_status.startswith("WARNINGS")

    def end(self, error: str = "") -> None:
        """End the task, with OK or with an error as PVE's log shows it."""
        self.exit_status = error.strip() or "OK"
        self.log.append(f"TASK ERROR: {self.exit_status}" if error else "TASK OK")

    def status(self) -> dict[str, Any]:
        """What the API says about the task."""
        user, _, token = self.user.partition("!")
        found: dict[str, Any] = {
            "upid": self.upid,
            "node": self.node,
            "pid": self.pid,
            "pstart": self.pstart,
            "starttime": int(self.start),
            "type": self.kind,
            "id": self.id,
            "user": user,
            "status": "stopped" if self.exit_status else "running",
        }
        if token:
            found["tokenid"] = token
        if self.exit_status:
            found["exitstatus"] = self.exit_status
        return found


def new_upid(node: str, pid: int, pstart: int, start: float, kind: str, name: str, who: str) -> str:
    """Write a task's unique name. `name` is encoded where it holds other than plain characters."""
    encoded = "".join(c if _PLAIN.fullmatch(c) else f"\\x{ord(c):02x}" for c in name)
    return f"UPID:{node}:{pid:08X}:{pstart:08X}:{int(start):08X}:{kind}:{encoded}:{who}:"


def check_upid(upid: str) -> None:
    """Refuse, as PVE does, a text that is no task's name."""
    if not _UPID.fullmatch(upid):
        raise invalid(upid="unable to parse worker upid")
