"""A preflight: all checks of a stack against its host, into one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from gpu_passthrough.checks.finding import Finding
from gpu_passthrough.checks.report import Report
from gpu_passthrough.config import Proxmox, Stack
from gpu_passthrough.preflight.client import (
    TIMEOUT_S,
    Client,
    DeniedError,
    TokenError,
    UnreachableError,
)
from gpu_passthrough.preflight.findings import NOT_UNDERSTOOD, Check
from gpu_passthrough.preflight.registry import CHECKS, Entry
from gpu_passthrough.preflight.role import commands
from gpu_passthrough.preflight.token import revealed

COMMAND: Final = "preflight"


def preflight(
    name: str,
    stack: Stack,
    site: Proxmox,
    say: Callable[[str], None] = lambda _: None,
    *,
    folder: Path = Path(),
    timeout_s: float = TIMEOUT_S,
    checks: Mapping[str, Entry] = CHECKS,
) -> Report:
    """Ask the host about everything that the stack needs. Nothing is changed there.

    Args:
        name: the stack's.
        stack: what is to be built.
        site: its way to Proxmox VE.
        say: hears what is being asked.
        folder: where the stack file is, for Pulumi to decrypt a token in it.
        timeout_s: longest wait for one answer, in seconds.
        checks: what is asked, by id.
    """
    begin = time.monotonic()
    findings: list[Finding] = []
    lost: set[str] = set()
    unreachable = False
    try:
        say(f"asking {site.endpoint}")
        client = Client(revealed(site, name, folder), timeout_s)
        client.connect()
        for id_, entry in checks.items():
            say(f"{id_}: {entry.title}")
            check = Check(id_, entry.title, entry.layer, client, stack, site, findings, lost)
            _work(check, entry)
    except UnreachableError as error:
        findings.append(_no_answer(site, str(error)))
        unreachable = True
    except TokenError as error:
        findings.append(_no_token(error))
    target = f"stack {name} on {site.endpoint}"
    return Report(COMMAND, target, findings, time.monotonic() - begin, unreachable=unreachable)


def _work(check: Check, entry: Entry) -> None:
    """Run one check to its end; what goes wrong outside its subjects is a finding of its own."""
    try:
        for _ in entry.work(check):
            pass
    except (DeniedError, *NOT_UNDERSTOOD) as error:
        with check.about(check.site.endpoint):
            raise error


def _no_answer(site: Proxmox, why: str) -> Finding:
    return Finding(
        id="version",
        title=CHECKS["version"].title,
        status="could-not-tell",
        layer="api",
        subject=site.endpoint,
        cause=why,
        consequence="Nothing more about the host can be told, and nothing can be created there.",
        fix="See that the host is up and the endpoint right. A certificate that the host signed"
        " itself is known after: export SSL_CERT_FILE=pve-root-ca.pem, with the host's file"
        " /etc/pve/pve-root-ca.pem. With proxmox.insecure: true any certificate is accepted.",
    )


def _no_token(error: TokenError) -> Finding:
    make = f"Make one as root on a host, and put it into the environment:\n{commands()}"
    return Finding(
        id="token",
        title=CHECKS["token"].title,
        status="failed",
        layer="api",
        subject="the API token",
        cause=str(error),
        consequence="Nothing on the host can be read or created.",
        fix=error.fix or make,
        ignorable=False,
    )
