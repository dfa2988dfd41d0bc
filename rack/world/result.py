"""What running one container comes to."""

from __future__ import annotations

from rack.world.nodefacts import Frozen
from rack.world.podtypes import ContainerOutcome


class Result(Frozen):
    """The outcome of a container and what it does besides."""

    outcome: ContainerOutcome
    retry_after: float | None = None
    """Seconds until it looks again; None where nothing changes by itself."""
    markers: frozenset[str] = frozenset()
    """Files that it has written to /run/nvidia/validations."""
    used_mib: int = 0
    """Memory that it uses on its first GPU."""
    utilisation: int = 0
    is_sidecar: bool = False
    """An init container that runs beside the others."""


def running(*lines: str, retry_after: float | None = None) -> Result:
    """It runs and has written these lines."""
    outcome = ContainerOutcome(state="running", log_lines=lines)
    return Result(outcome=outcome, retry_after=retry_after)


def exited(code: int, reason: str = "", message: str = "", lines: tuple[str, ...] = ()) -> Result:
    """It has ended."""
    outcome = ContainerOutcome(
        state="exited",
        reason=reason or ("Error" if code else "Completed"),
        message=message,
        exit_code=code,
        log_lines=lines,
    )
    return Result(outcome=outcome)
