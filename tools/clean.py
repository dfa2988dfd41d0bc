"""Removes what the commands left in the checkout; the tool cache outside it stays."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tools.environment import CHECKOUT, STATE
from tools.sources import ToolError

DISPOSABLE_STACK = "dev"
"""Its resources live on the simulated rack of this checkout, which goes with them."""
LEFTOVERS = (".tools", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis")


def stacks_in_use(state: Path) -> list[str]:
    """Stacks of the local state, other than the disposable one, that have resources."""
    used = []
    for file in sorted(state.glob("pulumi/.pulumi/stacks/*/*.json")):
        latest = json.loads(file.read_text()).get("checkpoint", {}).get("latest") or {}
        resources = [one for one in latest.get("resources", []) if "parent" in one]
        if resources and file.stem != DISPOSABLE_STACK:
            used.append(file.stem)
    return used


def _forget_salt(file: Path) -> None:
    """Drop the line that belongs to a passphrase which is gone."""
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if not line.startswith("encryptionsalt:")))


def clean() -> None:
    """Remove local state, its passphrase and every link and cache in the checkout.

    Raises ToolError while a stack has resources in the local state: with the state and the
    passphrase gone, nobody could change or remove them.
    """
    used = stacks_in_use(STATE)
    if used:
        raise ToolError(
            f"the local state in {STATE} holds the resources of {', '.join(used)}.\n"
            f"Without it nobody can change or remove them. Remove them first: "
            f"make destroy STACK={used[0]}"
        )
    shutil.rmtree(STATE, ignore_errors=True)
    for name in LEFTOVERS:
        shutil.rmtree(CHECKOUT / name, ignore_errors=True)
    _forget_salt(CHECKOUT / f"Pulumi.{DISPOSABLE_STACK}.yaml")
