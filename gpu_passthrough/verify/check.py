"""One check of a cluster: what it claims, and how it says what it found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from gpu_passthrough.checks.finding import Evidence, Finding, Layer, Status

SHOWN: Final = 400
"""Characters of an answer that are shown as evidence."""
ALLOW: Final = "Use a kubeconfig whose user may do what was refused."


@dataclass(frozen=True)
class Check:
    """One check: its id, what it claims, and its layer."""

    id: str
    title: str
    layer: Layer

    def passed(self, subject: str, found: str) -> Finding:
        """It is as it has to be."""
        return self._finding("passed", subject, found)

    def failed(
        self, subject: str, cause: str, consequence: str, fix: str, asked: str, answered: object
    ) -> Finding:
        """It is not as it has to be."""
        evidence = (Evidence(asked, str(answered)[:SHOWN]),)
        found = self._finding("failed", subject, cause, fix)
        return replace(found, consequence=consequence, evidence=evidence)

    def warned(
        self, subject: str, cause: str, consequence: str, fix: str, asked: str, answered: object
    ) -> Finding:
        """It works now, and will not later."""
        found = self.failed(subject, cause, consequence, fix, asked, answered)
        return replace(found, status="warning")

    def unknown(
        self, subject: str, why: str, *, best_effort: bool = True, fix: str = ""
    ) -> Finding:
        """It cannot be told."""
        found = self._finding("could-not-tell", subject, why, fix)
        return replace(found, best_effort=best_effort)

    def _finding(self, status: Status, subject: str, cause: str, fix: str = "") -> Finding:
        return Finding(
            id=self.id,
            title=self.title,
            status=status,
            layer=self.layer,
            subject=subject,
            cause=cause,
            fix=fix,
        )
