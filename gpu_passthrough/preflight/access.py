"""The way in: version, token, permissions, hosts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from gpu_passthrough.preflight.findings import Check
from gpu_passthrough.preflight.role import BRIDGE, commands, missing

OLDEST: Final = (8, 4)
"""First Proxmox VE with the content type `import` on directory storages; mappings are older."""


def version(check: Check) -> Iterator[None]:
    """The API is Proxmox VE of a release that has what is needed."""
    with check.about(check.site.endpoint):
        text = str(check.ask("version")["version"])
        line = tuple(int(part) for part in re.findall(r"\d+", text)[:2])
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


def token(check: Check) -> Iterator[None]:
    """The API accepts the token: it answers nothing without one, not even its version."""
    with check.about("the API token"):
        check.ask("version")
        check.passed("is accepted")
    yield


def permissions(check: Check) -> Iterator[None]:
    """The token may do everything that the program does."""
    with check.about("the API token"):
        found = missing(check.stack, check.site, lambda path: _held(check, path))
        lacking = [one for one in found if not (one.need is BRIDGE and _sees_vnet(check))]
        if lacking:
            check.fail(
                _question(lacking[0].paths[0]),
                f"the token lacks {'; '.join(map(str, lacking))}",
                "Creation fails half way with 403 Permission check failed.",
                f"Run as root on a host, or add what is missing to the role:\n{commands()}",
            )
        else:
            check.passed("has every privilege that is needed")
    yield


def _question(path: str) -> str:
    return f"access/permissions?path={path}"


def _held(check: Check, path: str) -> Collection[str]:
    """The token's privileges on a path: Proxmox VE computes them, as for any request."""
    found: Mapping[str, Mapping[str, int]] = check.ask(_question(path))
    return found.get(path) or {}


def _sees_vnet(check: Check) -> bool:
    """The bridge is a network of SDN, listed only for who may use it; its zone has another path."""
    return any(
        one.get("iface") == check.site.network.bridge and one.get("type") == "vnet"
        for host in check.hosts
        for one in check.ask(f"nodes/{host}/network?type=any_bridge")
    )


def hosts(check: Check) -> Iterator[None]:
    """The hosts exist and are online."""
    found = {str(one["node"]): str(one.get("status")) for one in check.ask("nodes")}
    for host in check.hosts:
        with check.about(f"host {host}"):
            if host not in found:
                check.lose(
                    host,
                    "nodes",
                    f"there is no host {host}; there are {', '.join(sorted(found))}",
                    "Its VMs have no place.",
                    "Correct nodes.*.host in the stack file.",
                )
            elif found[host] != "online":
                why = "Its VMs can be neither made nor started, and nothing else of it is checked."
                check.lose(host, "nodes", f"it is {found[host]}", why, "Start it.")
            else:
                check.passed("is online")
        yield
