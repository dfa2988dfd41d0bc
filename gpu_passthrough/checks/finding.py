"""One answer of one check, with what a person needs to act on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

Status = Literal["passed", "failed", "warning", "could-not-tell", "ignored"]
"""`could-not-tell` is never a pass; `ignored` was a failure that somebody chose to live with."""

Layer = Literal["api", "host", "vm", "talos", "kubernetes", "operator", "runtime-class", "app"]
"""The chain, lowest first. `api` is the way in: endpoint, certificate, token."""

LAYERS: Final[tuple[Layer, ...]] = get_args(Layer)


@dataclass(frozen=True)
class Evidence:
    """What was asked and what came back, in the words of whoever answered."""

    asked: str
    """A request or a command that a person can repeat."""
    answered: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One check's answer about one subject."""

    id: str
    """Stable name of the check: what `--ignore` takes."""
    part: str = ""
    """Tells findings of one check apart for `--ignore ID:PART`; empty where nobody needs it."""
    title: str
    """What is claimed, as a sentence that is true where the check passed."""
    status: Status
    layer: Layer
    subject: str = ""
    """What it is about, for example `host pve` or `node k8s-worker-1`."""
    evidence: tuple[Evidence, ...] = ()
    cause: str = ""
    """What is wrong, in the lowest broken layer; of a pass, what was found."""
    consequence: str = ""
    """What happens if nothing is done."""
    fix: str = ""
    """What to do, with the command where there is one."""
    best_effort: bool = False
    """The check may be unable to tell; that alone fails nothing."""
    ignorable: bool = True
    """False where nothing else could be checked: ignored, it would let everything pass."""
    seconds: float = 0.0
    """How long the check took."""

    @property
    def name(self) -> str:
        """The narrowest thing that `--ignore` takes for it."""
        return f"{self.id}:{self.part}" if self.part else self.id

    @property
    def fails(self) -> bool:
        """Whether this finding alone makes the command fail."""
        unknown = self.status == "could-not-tell" and not self.best_effort
        return self.status == "failed" or unknown

    def ignored(self) -> Finding:
        """The same finding, printed but no longer failing; what does not fail stays as it is."""
        return replace(self, status="ignored") if self.fails and self.ignorable else self
