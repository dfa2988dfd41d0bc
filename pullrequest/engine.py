"""Runs the engine's preview in a copy of the project, so that the checkout stays as it is.

Where the back end has the stack, the preview compares with its state. Where it has not, as in a
pull request from a fork, the state is an empty one with a passphrase of its own, and secrets are
stand-ins; nothing of it is kept.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_passthrough import document, stackfile
from gpu_passthrough.config import NAMESPACE

LEFT_BEHIND = {".git", ".state", ".rack"}
"""Parts of the checkout that a preview does not need and must not touch."""
PACK = "policy/__main__.py"
"""The pack as a program: every version of Pulumi's language host can start that."""
LONGEST = 900
"""Seconds that the engine may take."""
TOKEN = "preview@pve!nothing=00000000-0000-0000-0000-000000000000"  # noqa: S105 - opens nothing
ENCRYPTION = ("encryptionsalt", "encryptedkey", "secretsprovider")
BACK_ENDS = ("PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN")
PASSPHRASES = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE")


class EngineError(Exception):
    """The engine did not get as far as a preview."""


@dataclass
class Site:
    """A copy of the project in which one stack is previewed."""

    folder: Path
    checkout: Path
    stack: str
    environment: dict[str, str]
    changed: Mapping[str, Any]
    """What the copy's stack file says instead, by section."""
    has_secrets: bool = False
    """The stack file has encrypted values."""

    def pulumi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Pulumi in the copy; EngineError where it hangs or is missing."""
        command = ["pulumi", "--non-interactive", *arguments]
        try:
            return subprocess.run(
                command,
                cwd=self.folder,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=LONGEST,
            )
        except FileNotFoundError:
            raise EngineError("pulumi is not on PATH; `make tools` makes it available.") from None
        except subprocess.TimeoutExpired:
            raise EngineError(f"pulumi was still running after {LONGEST} s.") from None

    def preview(self) -> list[str]:
        """The events of a preview with the policy pack, and then Pulumi's complaints, if any."""
        done = self.pulumi("preview", "--json", "--stack", self.stack, "--policy-pack", PACK)
        return [*done.stdout.splitlines(), *done.stderr.splitlines()]


def _link(checkout: Path, folder: Path, stack_file: str) -> None:
    for entry in checkout.iterdir():
        if entry.name not in LEFT_BEHIND and entry.name != stack_file:
            (folder / entry.name).symlink_to(entry.resolve())


def _environment() -> dict[str, str]:
    """The caller's, without variables that are set to nothing: so is a secret that is missing."""
    kept = {k: v for k, v in os.environ.items() if v or not k.startswith(("PULUMI_", "PROXMOX_"))}
    # The pack's first line asks for python3: the one with the project's packages.
    kept["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    kept["PULUMI_ENABLE_STREAMING_JSON_PREVIEW"] = "true"
    kept["PULUMI_SKIP_UPDATE_CHECK"] = "true"
    kept["PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER"] = "true"
    return kept


def site(folder: Path, checkout: Path, stack: str, changed: Mapping[str, Any]) -> Site:
    """Copy the project into an empty folder; `changed` replaces keys of the stack's sections."""
    made = Site(folder, checkout, stack, _environment(), changed)
    url = made.environment.get("PULUMI_BACKEND_URL", "")
    if url.startswith("file://."):
        made.environment["PULUMI_BACKEND_URL"] = f"file://{checkout / url.removeprefix('file://')}"
    _link(checkout, folder, f"Pulumi.{stack}.yaml")
    if "PROXMOX_VE_API_TOKEN" not in made.environment:
        made.environment["PROXMOX_VE_API_TOKEN"] = TOKEN
    _write_stack(made, keep_secrets=True)
    return made


def _write_stack(made: Site, keep_secrets: bool) -> None:
    """Write the stack file of the copy, as JSON: every YAML parser reads it the same way."""
    name = f"Pulumi.{made.stack}.yaml"
    found = document.read(made.checkout / name)
    root = stackfile.as_map(found.value, "The whole", name)
    config = stackfile.as_map(root.get("config"), "config", name)
    for section, values in made.changed.items():
        key = f"{NAMESPACE}:{section}"
        config[key] = {**stackfile.as_map(config.get(key), key, name), **values}
    if not keep_secrets:
        root = {key: value for key, value in root.items() if key not in ENCRYPTION}
        config = stackfile.decrypted(config)
    made.has_secrets = made.has_secrets or config != stackfile.decrypted(config)
    (made.folder / name).write_text(json.dumps({**root, "config": config}, indent=2))


def has_state(made: Site) -> bool:
    """Whether the back end of the environment has this stack; EngineError where it cannot tell."""
    if not any(name in made.environment for name in BACK_ENDS):
        return False
    done = made.pulumi("stack", "ls", "--json")
    if done.returncode:
        raise EngineError(f"The state's back end cannot be read: {done.stderr.strip()}")
    return any(one["name"].rpartition("/")[2] == made.stack for one in json.loads(done.stdout))


def without_state(made: Site) -> None:
    """Give the copy an empty state of its own, and stand-ins for what is encrypted."""
    state = made.folder / ".state"
    state.mkdir()
    for name in (*BACK_ENDS, *PASSPHRASES):
        made.environment.pop(name, None)
    made.environment["PULUMI_BACKEND_URL"] = f"file://{state}"
    made.environment["PULUMI_CONFIG_PASSPHRASE"] = secrets.token_urlsafe(16)
    _write_stack(made, keep_secrets=False)
    done = made.pulumi("stack", "init", made.stack)
    if done.returncode:
        raise EngineError(f"No empty state could be made: {done.stderr.strip()}")
