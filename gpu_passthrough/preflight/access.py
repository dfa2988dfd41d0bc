"""The way in: version, token, permissions, hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpu_passthrough.preflight.findings import Check
from gpu_passthrough.preflight.role import commands, missing

OLDEST: Final = (8, 4)
"""First Proxmox VE with the content type `import` on directory storages; mappings are older."""


def version(check: Check) -> Iterator[None]:
    """The API is Proxmox VE of a release that has what is needed."""
    with check.about(check.site.endpoint):
        text = str(check.ask("version")["version"])
        line = tuple(int(part) for part in text.split(".")[:2])
        if line < OLDEST:
            check.fail(
                "version",
                f"it is Proxmox VE {text}; {OLDEST[0]}.{OLDEST[1]} is the oldest that works",
                "Disk images cannot be imported by a token there.",
                "Upgrade the host.",
            )
        else:
            check.passed(f"Proxmox VE {text}")
    yield


def permissions(check: Check) -> Iterator[None]:
    """The token may do everything that the program does."""
    with check.about("the API token"):
        path = "access/permissions"
        lacking = list(missing(check.ask(path)))
        if lacking:
            text = "; ".join(f"{', '.join(p)} on {need.path} ({need.why})" for need, p in lacking)
            check.fail(
                path,
                f"the token lacks {text}",
                "Creation fails half way with 403 Permission check failed.",
                f"Run as root on a host, or add what is missing to the role:\n{commands()}",
                answer="see the cause",
            )
        else:
            check.passed("has every privilege that is needed")
    yield


def hosts(check: Check) -> Iterator[None]:
    """The hosts exist and are online."""
    found = {str(one["node"]): str(one.get("status")) for one in check.ask("nodes")}
    for host in check.hosts:
        with check.about(f"host {host}"):
            if host not in found:
                check.fail(
                    "nodes",
                    f"there is no host {host}; there are {', '.join(sorted(found))}",
                    "Its VMs have no place.",
                    "Correct nodes.*.host in the stack file.",
                )
            elif found[host] != "online":
                check.fail("nodes", f"it is {found[host]}", "It answers nothing.", "Start it.")
            else:
                check.passed("is online")
        yield
