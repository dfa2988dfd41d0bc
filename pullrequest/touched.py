"""Which stacks a pull request touches, told from the names of the files that it changes.

Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

STACK_FILE = re.compile(r"Pulumi\.([A-Za-z0-9][A-Za-z0-9_.-]{0,99})\.ya?ml")
NO_STACK = (
    "docs/",
    "tests/",
    ".github/",
    ".ci/",
    "bench/",
    "schema/",
    "LICENSE",
    ".gitignore",
    "requirements-dev.txt",
)
"""Files and folders that no plan depends on; and every Markdown file."""
ONE_STACK = {"rack/": "dev"}
"""Folders that belong to one stack: its plugins answer only there."""


class GitError(Exception):
    """Git could not tell what changed."""


def git(checkout: Path, *arguments: str) -> str:
    """What a git command prints; GitError with git's own words where it fails."""
    done = subprocess.run(["git", *arguments], cwd=checkout, capture_output=True, text=True)
    if done.returncode:
        raise GitError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def changed_files(checkout: Path, base: str) -> list[str]:
    """Files that differ from where this branch left the base, deleted and moved ones included."""
    # -z: no quoting of unusual names. A move touches both places.
    text = git(checkout, "diff", "--name-only", "--no-renames", "-z", f"{base}...HEAD")
    return [name for name in text.split("\0") if name]


def stacks_of(checkout: Path) -> list[str]:
    """The stacks that have a file here."""
    found = (STACK_FILE.fullmatch(path.name) for path in checkout.glob("Pulumi.*.y*ml"))
    return sorted(match[1] for match in found if match)


def touched(files: Iterable[str], stacks: Iterable[str]) -> list[str]:
    """The stacks that changed files can change; a file that is not known here touches all."""
    known = set(stacks)
    found: set[str] = set()
    for name in files:
        if match := STACK_FILE.fullmatch(name):
            found.add(match[1])
        elif one := next((stack for top, stack in ONE_STACK.items() if name.startswith(top)), None):
            found.add(one)
        elif not (name.endswith(".md") or name.startswith(NO_STACK)):
            return sorted(known)
    return sorted(found & known)
