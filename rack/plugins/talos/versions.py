"""Talos versions as the plugin reads them: version contracts and Go's semantic versions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

LIBRARY: Final = "v1.13.0"
"""Talos release whose libraries the official plugin is built with."""
DEFAULT_TALOS: Final = "v1.13"
DEFAULT_KUBERNETES: Final = "1.36.0"

_CONTRACT: Final = re.compile(r"v(\d+)\.(\d+)(?:$|\.)")
_SEMVER: Final = re.compile(r"v(\d+)(?:\.(\d+)(?:\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+\S+)?)?)?")


@dataclass(frozen=True, order=True)
class Contract:
    """The minor version of Talos whose kind of configuration is wanted."""

    major: int
    minor: int

    @classmethod
    def parse(cls, version: str) -> Contract:
        """Read `v1.13`, `1.13`, `v1.13.9` or `1.13.9`.

        Raises `ValueError`: it is none of these.
        """
        found = _CONTRACT.match("v" + version.removeprefix("v"))
        if found is None:
            raise ValueError(f"error parsing version {version!r}")
        return cls(int(found[1]), int(found[2]))


def is_lower(version: str, than: str) -> bool:
    """Compare two versions by semantic versioning; `v1.13` is `v1.13.0`, nonsense is lowest."""
    return _precedence(version) < _precedence(than)


Precedence = tuple[int, int, int, int, tuple[tuple[int, int, str], ...]]


def _precedence(version: str) -> Precedence:
    found = _SEMVER.fullmatch("v" + version.removeprefix("v"))
    if found is None:
        return (-1, 0, 0, 0, ())
    major, minor, patch = (int(part or 0) for part in found.group(1, 2, 3))
    return (major, minor, patch, 0 if found[4] else 1, _prerelease(found[4] or ""))


def _prerelease(text: str) -> tuple[tuple[int, int, str], ...]:
    # Numbers sort before words and by value.
    return tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in text.split(".") if part
    )
