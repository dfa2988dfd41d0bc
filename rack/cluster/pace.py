"""How long the work of a kubelet takes, in seconds, by the rack's latency profile."""

from __future__ import annotations

from typing import Final

from rack.world.nodefacts import Frozen
from rack.world.tasks import Latency


class Pace(Frozen):
    """Durations of one profile."""

    sandbox: float
    """Volumes, network and sandbox of a pod."""
    pull: float
    """One image that is not on the node yet."""
    start: float
    """One container."""
    stop: float
    """From the order to end to the end of a pod; its grace period where that is shorter."""
    first_back_off: float
    """Pause before a container's second restart; the first comes at once."""
    longest_back_off: float
    """The pause doubles up to here."""


PACES: Final[dict[Latency, Pace]] = {
    "instant": Pace(
        sandbox=0.0, pull=0.0, start=0.0, stop=0.0, first_back_off=1.0, longest_back_off=8.0
    ),
    "realistic": Pace(
        sandbox=0.9, pull=5.5, start=0.4, stop=1.5, first_back_off=10.0, longest_back_off=300.0
    ),
}
