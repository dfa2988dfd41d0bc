"""Which findings are about which GPU.

A finding names its subject in words: `k8s-worker-1: RTX 3090 at 0000:01:00 on pve`, `host pve`.
One that names something of another GPU is not about this one; one that names nothing of the stack,
such as `ClusterPolicy cluster-policy`, is about all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_passthrough.checks.finding import Finding


@dataclass(frozen=True)
class Names:
    """What findings may call something of the stack, by kind."""

    hosts: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    cards: frozenset[str] = frozenset()
    """PCI addresses and mapping names."""
    apps: frozenset[str] = frozenset()
    pods: frozenset[str] = frozenset()

    def __or__(self, other: Names) -> Names:
        """The names of both."""
        return Names(
            self.hosts | other.hosts,
            self.nodes | other.nodes,
            self.cards | other.cards,
            self.apps | other.apps,
            self.pods | other.pods,
        )

    @property
    def kinds(self) -> tuple[frozenset[str], ...]:
        """The names kind by kind."""
        return self.hosts, self.nodes, self.cards, self.pods


def _app(words: Iterable[str], apps: Iterable[str]) -> str | None:
    """The app that a word is, or begins with, as its pods and claims do; the longest name wins."""
    found = [app for word in words for app in apps if word == app or word.startswith(f"{app}-")]
    return max(found, key=len, default=None)


def about(finding: Finding, own: Names, every: Names) -> bool:
    """Whether a finding is about the GPU that has the names `own`, among those of all GPUs."""
    words = {word.rstrip(":,") for word in finding.subject.split()}
    for mine, all_names in zip(own.kinds, every.kinds, strict=True):
        if (named := words & all_names) and not named & mine:
            return False
    if words & own.pods:
        return True
    if words & every.nodes:
        return True
    app = _app(words, every.apps) if finding.layer == "app" else None
    return app is None or app in own.apps
