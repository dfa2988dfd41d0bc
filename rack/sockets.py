"""Listening sockets of the daemon, and who else listens on a port."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Final

from rack.settings import LOOPBACK

BACKLOG: Final = 128
_LISTENING: Final = "0A"


class PortInUseError(Exception):
    """Another process listens where the rack wants to."""

    def __init__(self, port: int, purpose: str) -> None:
        holder = holder_of(port)
        who = f" by {holder}" if holder else " by another process"
        super().__init__(
            f"port {port} on {LOOPBACK}, for {purpose}, is in use{who}. Stop that, or set"
            " RACK_PORT_SHIFT to move all ports of the rack"
        )


def listen(port: int, purpose: str) -> socket.socket:
    """Listen on a port of the loopback address.

    Raises:
        PortInUseError: naming the process that has the port, where that can be known.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUseError(port, purpose) from None
        raise
    return listener


def holder_of(port: int) -> str:
    """Command and process number of who listens on a port; empty where Linux does not tell."""
    inodes = _listening_inodes(port)
    for link in Path("/proc").glob("[0-9]*/fd/*") if inodes else ():
        try:
            target = str(link.readlink())
        except OSError:
            continue  # not ours to see, or gone
        if target.startswith("socket:[") and target[8:-1] in inodes:
            process = link.parents[1]
            return f"{(process / 'comm').read_text().strip()} (process {process.name})"
    return ""


def _listening_inodes(port: int) -> set[str]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
        except OSError:
            continue
        found |= {
            row[9]
            for row in rows
            if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port
        }
    return found
