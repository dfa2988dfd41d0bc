"""What an interrupted run left, as the program itself can see it: in the state of a folder.

Pulumi warns of such steps and goes on. Here that would make a second VM of the same id, or forget
one that exists, so that the program refuses. Back ends other than folders keep their states behind
an API; there Pulumi's own warning is all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_passthrough.recover.locks import folder_of

STACKS = ".pulumi/stacks"


def backend(environment: Mapping[str, str] = os.environ) -> str:
    """URL of the back end: of the environment, else that of `pulumi login`; empty if unknown."""
    if url := environment.get("PULUMI_BACKEND_URL"):
        return url
    home = environment.get("PULUMI_HOME") or "~/.pulumi"
    try:
        found = json.loads((Path(home).expanduser() / "credentials.json").read_text())
        return str(found["current"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def unfinished(url: str, project: str, stack: str) -> list[str]:
    """Steps that a run began and did not end, such as `creating VmLegacy k8s-worker-1-vm`."""
    folder = folder_of(url)
    if folder is None:
        return []
    try:
        found = json.loads((folder / STACKS / project / f"{stack}.json").read_text())
        latest = found["checkpoint"]["latest"] or {}
        return [_step(one) for one in latest.get("pending_operations") or ()]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def _step(operation: Mapping[str, Any]) -> str:
    resource = operation["resource"]
    kind, name = resource["type"].rpartition(":")[2], resource["urn"].rpartition("::")[2]
    return f"{operation['type']} {kind} {name}"


def refusal(steps: list[str], stack: str) -> str:
    """The error of a run that must not go on; empty where nothing is unfinished."""
    if not steps:
        return ""
    named = "\n".join(f"  - {step}" for step in steps)
    return (
        f"An earlier run of stack {stack} was interrupted in the middle of"
        f" {'a step' if len(steps) == 1 else f'{len(steps)} steps'}:\n{named}\n"
        "  Why: nobody knows whether they were done. Going on could make a VM twice, or forget one"
        " that exists.\n"
        f"  Fix: make recover STACK={stack}; it asks host and cluster, and settles each. Then run"
        " `pulumi up` again."
    )
