"""A clone of this project as a pull request's runner has it, in a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PARTS = ("__main__.py", "Pulumi.yaml", "Pulumi.dev.yaml", "Pulumi.homelab.yaml", "stacks")
CODE = ("components", "gpu_passthrough", "policy", "pullrequest", "rack")
STAND_INS = Path("rack/plugins/bin")
PASSPHRASE = "only for this test"


def git(folder: Path, *arguments: str) -> None:
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *named, *arguments], cwd=folder, check=True, capture_output=True)


def clone(folder: Path) -> Path:
    """Copy what a plan needs; `main` is as it is here, and the branch `change` is checked out."""
    folder.mkdir()
    for part in (*PARTS, *CODE):
        # Without what git ignores.
        subprocess.run(
            f"git ls-files -z -- {part} | tar -c --null -T - | tar -x -C '{folder}'",
            shell=True,
            cwd=CHECKOUT,
            check=True,
        )
    dev = folder / "Pulumi.dev.yaml"
    # A rack may run here, and have left its salt: the plan's is where none ever does.
    text = re.sub(r"^encryptionsalt:.*\n", "", dev.read_text(), flags=re.MULTILINE)
    dev.write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:9", text))
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / ".gitignore").write_text(".venv\n.state/\n__pycache__/\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "base")
    git(folder, "switch", "-q", "-c", "change")
    return folder


def environment(folder: Path) -> dict[str, str]:
    """What the runner has for a fork: programs, and no secret."""
    hidden = ("PULUMI_", "RACK_", "PROXMOX_", "GITHUB_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    tools = os.pathsep.join([str(CHECKOUT / ".tools/bin"), kept["PATH"]])
    return {
        **kept,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), tools]),
        "PULUMI_HOME": str(folder.parent / "pulumi"),
        "PULUMI_BACKEND_URL": "",
        "PULUMI_CONFIG_PASSPHRASE": "",
        # No test waits for a download that cannot come.
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }


def run(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m pullrequest` in the clone."""
    return subprocess.run(
        [sys.executable, "-m", "pullrequest", *arguments],
        cwd=folder,
        env={**environment(folder), **more},
        capture_output=True,
        text=True,
        timeout=300,
    )
