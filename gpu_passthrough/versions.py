"""Versions as people write them, compared as people mean them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

_VERSION = re.compile(r"^v?(\d+)\.(\d+)(?:\.(\d+))?(?:-([a-z]+)\.(\d+))?$")


@total_ordering
@dataclass(frozen=True)
class Version:
    """major.minor.patch with an optional pre-release such as rc.1, which comes before the release.

    The `v` in front is the field's habit, not part of the value: v1.13.9 and 1.13.9 are equal.
    """

    major: int
    minor: int
    patch: int = 0
    pre: tuple[str, int] | None = None

    @property
    def order(self) -> tuple[int, int, int, bool, tuple[str, int]]:
        """What decides between two versions: a release comes after its own pre-releases."""
        return (self.major, self.minor, self.patch, self.pre is None, self.pre or ("", 0))

    def __lt__(self, other: Version) -> bool:
        return self.order < other.order

    @property
    def line(self) -> tuple[int, int]:
        """major.minor: what support ranges are given in."""
        return (self.major, self.minor)

    def __str__(self) -> str:
        pre = f"-{self.pre[0]}.{self.pre[1]}" if self.pre else ""
        return f"v{self.major}.{self.minor}.{self.patch}{pre}"


def parse(text: str) -> Version:
    """Read a version; ValueError where it is none."""
    match = _VERSION.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a version, for example v1.13.9")
    major, minor, patch, word, number = match.groups()
    return Version(
        int(major), int(minor), int(patch or 0), (word, int(number)) if word is not None else None
    )


def branch(driver: str) -> int:
    """The branch of an NVIDIA driver: 580 for 580.178.04."""
    return int(driver.split(".")[0])
