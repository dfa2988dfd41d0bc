"""All findings of one run: order, what was ignored, and the exit code."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpu_passthrough.checks.finding import LAYERS, Finding, Status

PASSED: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2
UNREACHABLE: Final = 3
EXIT_CODES: Final = {
    PASSED: "everything passed, or was ignored, or could not be told and need not be",
    FAILED: "at least one check failed",
    WRONG_USE: "wrong use, or a configuration that cannot work",
    UNREACHABLE: "what was to be checked could not be reached",
}
ALL: Final = "all"
"""Ignores every check; never mixed with names, so that it is not written by habit."""

ORDER: Final[tuple[Status, ...]] = ("failed", "could-not-tell", "ignored", "warning", "passed")
"""What a person has to look at first."""


class UnknownCheckError(ValueError):
    """`--ignore` names a check that does not exist, or mixes `all` with names."""


def check_ignored(names: Collection[str], known: Collection[str]) -> frozenset[str]:
    """The ids that `--ignore` means, in lower case; `ID:PART` is one part of a check.

    Raises:
        UnknownCheckError: a name is no check's, with the nearest ones that are.
    """
    wanted = frozenset(name.strip().lower() for name in names)
    if ALL in wanted:
        if len(wanted) > 1:
            raise UnknownCheckError(f"--ignore {ALL} cannot be combined with names of checks.")
        return frozenset(known)
    for name in sorted(wanted):
        if name.partition(":")[0] in known:
            continue
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Checks: {', '.join(sorted(known))}."
        raise UnknownCheckError(f"--ignore {name}: there is no such check. {hint}")
    return wanted


@dataclass(frozen=True)
class Report:
    """The findings of one command about one target."""

    command: str
    """`preflight` or `verify`."""
    target: str
    """What was checked, for example `stack dev on https://192.168.20.10:8006`."""
    findings: Sequence[Finding]
    seconds: float = 0.0
    unreachable: bool = False
    """The target did not answer at all: the checks that did not run are no findings."""

    def ignoring(self, ids: Collection[str]) -> Report:
        """The same report; failures of these checks are shown as ignored."""
        kept = [
            one.ignored() if {one.id, one.name.lower()} & set(ids) else one for one in self.findings
        ]
        return replace(self, findings=kept)

    def of(self, status: Status) -> list[Finding]:
        """The findings of a status, lowest layer first."""
        found = [one for one in self.findings if one.status == status]
        return sorted(found, key=lambda one: LAYERS.index(one.layer))

    @property
    def ordered(self) -> list[Finding]:
        """All findings, what needs attention first."""
        return [one for status in ORDER for one in self.of(status)]

    @property
    def counts(self) -> dict[Status, int]:
        """How many findings each status has; statuses without any are left out."""
        found = {status: len(self.of(status)) for status in ORDER}
        return {status: count for status, count in found.items() if count}

    @property
    def failures(self) -> list[Finding]:
        """The findings that make the command fail, lowest layer first."""
        return [one for one in self.ordered if one.fails]

    @property
    def exit_code(self) -> int:
        """What the command exits with: one of EXIT_CODES."""
        if self.unreachable:
            return UNREACHABLE
        return FAILED if self.failures else PASSED

    @property
    def summary(self) -> str:
        """One line: how many of each status."""
        parts = [f"{count} {status.replace('-', ' ')}" for status, count in self.counts.items()]
        return f"{self.command}: {', '.join(parts) or 'nothing was checked'}"
