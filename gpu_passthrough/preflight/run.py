"""A preflight: all checks of a stack against its host, into one report."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from gpu_passthrough.checks.finding import Finding
from gpu_passthrough.checks.report import Report
from gpu_passthrough.config import Proxmox, Stack
from gpu_passthrough.preflight.client import (
    Client,
    DeniedError,
    TokenError,
    UnreachableError,
)
from gpu_passthrough.preflight.findings import Check
from gpu_passthrough.preflight.registry import CHECKS
from gpu_passthrough.preflight.role import commands

COMMAND: Final = "preflight"


def preflight(
    name: str, stack: Stack, site: Proxmox, say: Callable[[str], None] = lambda _: None
) -> Report:
    """Ask the host about everything that the stack needs. Nothing is changed there."""
    begin = time.monotonic()
    target = f"stack {name} on {site.endpoint}"
    findings: list[Finding] = []
    try:
        client = Client(site)
        for id_, entry in CHECKS.items():
            say(f"{id_}: {entry.title}")
            check = Check(id_, entry.title, entry.layer, client, stack, site, findings)
            _work(check, id_)
    except UnreachableError as error:
        findings = [_no_answer(site, str(error))]
        seconds = time.monotonic() - begin
        return Report(COMMAND, target, findings, seconds, unreachable=True)
    except TokenError as error:
        findings = [_no_token(str(error))]
    return Report(COMMAND, target, findings, time.monotonic() - begin)


def _work(check: Check, id_: str) -> None:
    """Run one check to its end; a refusal before its first subject is a finding of its own."""
    try:
        for _ in CHECKS[id_].work(check):
            pass
    except DeniedError as refusal:
        with check.about(check.site.endpoint):
            raise refusal


def _no_answer(site: Proxmox, why: str) -> Finding:
    return Finding(
        id="version",
        title=CHECKS["version"].title,
        status="could-not-tell",
        layer="api",
        subject=site.endpoint,
        cause=why,
        consequence="Nothing about the host can be told, and nothing can be created there.",
        fix="See that the host is up and the endpoint right. A certificate that no known authority"
        " signed is accepted with proxmox.insecure: true; safer is to add its authority to"
        " REQUESTS_CA_BUNDLE.",
    )


def _no_token(why: str) -> Finding:
    return Finding(
        id="permissions",
        title=CHECKS["permissions"].title,
        status="failed",
        layer="api",
        subject="the API token",
        cause=why,
        consequence="Nothing on the host can be read or created.",
        fix=f"Make one as root on a host, and put it into the environment:\n{commands()}",
    )
