"""Folds findings: the lowest broken layer is the cause, what fails above it follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_passthrough.checks.finding import LAYERS, Finding


@dataclass(frozen=True)
class Diagnosis:
    """What broke first, and what follows from it."""

    causes: Sequence[Finding]
    """Failures of the lowest broken layer."""
    follow: Sequence[Finding]

    @property
    def text(self) -> str:
        """A few lines for a person; empty where nothing is broken."""
        if not self.causes:
            return ""
        first = self.causes[0]
        lines = [f"Broken layer: {first.layer}"]
        for one in self.causes:
            lines += [f"  {one.subject}: {one.cause}", f"    Fix: {one.fix}"]
        if self.follow:
            names = ", ".join(dict.fromkeys(f"{one.id} ({one.subject})" for one in self.follow))
            lines.append(f"  What follows from it, and may be well afterwards: {names}")
        return "\n".join(lines)


def diagnose(failures: Sequence[Finding]) -> Diagnosis:
    """Find the layer that broke first.

    A node that is gone explains what was on it; a failure on another node is a cause of its own
    only where no lower layer is broken.
    """
    if not failures:
        return Diagnosis((), ())
    lowest = min(LAYERS.index(one.layer) for one in failures)
    causes = [one for one in failures if LAYERS.index(one.layer) == lowest]
    return Diagnosis(causes, [one for one in failures if one not in causes])
