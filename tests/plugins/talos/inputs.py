"""What the tests of the talos plugin share: type tokens, a clock, a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

SECRETS = "talos:machine/secrets:Secrets"
SCHEMATIC = "talos:imageFactory/schematic:Schematic"
APPLY = "talos:machine/configurationApply:ConfigurationApply"
BOOTSTRAP = "talos:machine/bootstrap:Bootstrap"
KUBECONFIG = "talos:cluster/kubeconfig:Kubeconfig"
START = datetime(2026, 3, 1, tzinfo=UTC)
CONFIGURATION = "version: v1alpha1\nmachine: {type: worker, token: hunter2}\n"


@dataclass
class Clock:
    now: datetime = START

    def __call__(self) -> datetime:
        return self.now
