"""Pulumi's command line, as far as a recovery needs it."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Collection, Mapping
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

    def export(self, *flags: str) -> dict[str, Any]:
        """The state. With --show-secrets it is not to be written anywhere."""
        exported: dict[str, Any] = json.loads(
            self.run("stack", "export", "--stack", self.stack, *flags)
        )
        return exported

    def planned(self) -> list[dict[str, Any]]:
        """The resources that the next update would create, as a state would hold them.

        Secrets are masked in them. None where the program has something to say first.
        """
        try:
            found = json.loads(self.run("preview", "--json", "--stack", self.stack))
        except (EngineError, ValueError):
            return []
        steps = found.get("steps") or []
        return [one["newState"] for one in steps if one["op"] == "create" and one.get("newState")]

    def settle(
        self,
        found: Mapping[str, str],
        read: Collection[str],
        forgotten: Collection[str],
        planned: Collection[Mapping[str, Any]] = (),
    ) -> None:
        """Take what exists into the state, forget what does not, and read what is in question.

        Only these resources are looked at: the layers of others may be out of reach.

        Args:
            found: the provider's id by URN of what was created.
            read: URNs of what was being changed or deleted.
            forgotten: URNs of creations that left nothing.
            planned: resources that the state does not know of, not even as begun.
        """
        state = self.export()
        settle(state["deployment"], found, {*read, *forgotten}, planned)
        # Its secrets are as encrypted as in the back end.
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(state, file)
            file.flush()
            self.run("stack", "import", "--stack", self.stack, "--file", file.name)
        there = {one["urn"] for one in state["deployment"]["resources"]}
        if wanted := [urn for urn in (*found, *read) if urn in there]:
            targets = [flag for urn in wanted for flag in ("--target", urn)]
            self.run("refresh", "--yes", "--skip-preview", "--stack", self.stack, *targets)


def settle(
    deployment: dict[str, Any],
    found: Mapping[str, str],
    forgotten: Collection[str],
    planned: Collection[Mapping[str, Any]] = (),
) -> None:
    """Move pending operations of a state, and what exists of a plan, to its resources.

    The inputs are what was asked for; a read replaces the outputs by what is there.
    """
    operations = deployment.get("pending_operations") or []
    resources = deployment.setdefault("resources", [])
    known = {one["urn"] for one in resources}
    for resource in (*(operation["resource"] for operation in operations), *planned):
        if resource["urn"] in found and resource["urn"] not in known:
            own = {"id": found[resource["urn"]], "outputs": resource.get("inputs") or {}}
            resources.append({**resource, **own})
            known.add(resource["urn"])
    settled = {*found, *forgotten}
    deployment["pending_operations"] = [
        one for one in operations if one["resource"]["urn"] not in settled
    ]


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
