"""Pulumi's command line, as far as a recovery needs it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECRET_KEY = "4dabf18193072939515e22adb298388d"  # noqa: S105 - marks a secret in a state
LONGEST_S = 600
KUBECONFIGS = (
    ("talos:cluster/kubeconfig:Kubeconfig", "outputs", "kubeconfigRaw"),
    ("pulumi:providers:kubernetes", "inputs", "kubeconfig"),
)
"""Where a state holds the cluster's kubeconfig, before the stack has any output."""


class EngineError(Exception):
    """Pulumi refused; its own text."""


@dataclass(frozen=True)
class Engine:
    """Pulumi for one stack of one project folder."""

    stack: str
    folder: Path

    def run(self, *arguments: str) -> str:
        """Run a command and return what it printed.

        Raises:
            EngineError: it failed, or could not be started.
        """
        command = ["pulumi", "--non-interactive", *arguments]
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                capture_output=True,
                text=True,
                check=False,
                timeout=LONGEST_S,
            )
        except FileNotFoundError:
            raise EngineError(
                'pulumi is not on PATH; eval "$(make -s env)" puts it there'
            ) from None
        except subprocess.TimeoutExpired:
            raise EngineError(f"`{' '.join(command)}` did not end within {LONGEST_S} s") from None
        if done.returncode != 0:
            raise EngineError((done.stderr or done.stdout).strip())
        return done.stdout

    def backend(self) -> str:
        """URL of the state's back end."""
        found: dict[str, Any] = json.loads(self.run("whoami", "--json"))
        return str(found.get("url", ""))

    def full_name(self) -> str:
        """The stack as a back end in a folder names it."""
        project = "gpu-passthrough"
        return "/".join(("organization", project, self.stack.rpartition("/")[2]))

    def export(self) -> dict[str, Any]:
        """The state, its secrets in plain form: not to be written anywhere."""
        text = self.run("stack", "export", "--show-secrets", "--stack", self.stack)
        exported: dict[str, Any] = json.loads(text)
        return exported

    def settle(self, found: Mapping[str, str], urns: Iterable[str]) -> None:
        """Take what exists into the state and forget the other pending creations.

        Args:
            found: id by URN of what exists.
            urns: every pending creation; only these are looked at.
        """
        pairs = [part for urn, one in found.items() for part in (urn, one)]
        imports = [flag for part in pairs for flag in ("--import-pending-creates", part)]
        targets: Sequence[str] = [flag for urn in urns for flag in ("--target", urn)]
        self.run(
            *("refresh", "--yes", "--skip-preview", "--stack", self.stack),
            *("--clear-pending-creates", *imports, *targets),
        )


def plain(value: Any) -> Any:
    """A value of an exported state without the wrapping of its secrets."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    if SECRET_KEY in value and "plaintext" in value:
        return plain(json.loads(value["plaintext"]))
    return {key: plain(one) for key, one in value.items()}


def kubeconfig_of(exported: Mapping[str, Any]) -> str:
    """The cluster's kubeconfig, as far as the state has it; empty where it does not."""
    resources = exported["deployment"].get("resources") or []
    for kind, part, key in KUBECONFIGS:
        for one in resources:
            if one["type"] == kind and (text := plain(one.get(part) or {}).get(key)):
                return str(text)
    return ""
