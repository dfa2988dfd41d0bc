"""Faults on demand: where the world asks whether something is to go wrong."""

from __future__ import annotations

from fnmatch import fnmatchcase

from pydantic import BaseModel

from rack.world.errors import Layer, Refused


class Fault(BaseModel):
    """One thing to go wrong: a step of a target fails, or takes longer."""

    step: str
    """A kind of Proxmox task (`qmstart`, `download`, …) or a step named by its layer."""
    target: str = "*"
    """What the step works on, as a pattern of the shell: a VM's number, a file's name."""
    message: str = ""
    """Fail with this; empty to let it work."""
    seconds: float = 0.0
    """How much longer it takes."""
    times: int | None = None
    """How often it still happens; None for always."""

    def concerns(self, step: str, target: str) -> bool:
        """Whether the fault applies to a step of a target now."""
        alive = self.times is None or self.times > 0
        return alive and fnmatchcase(step, self.step) and fnmatchcase(target, self.target)


class Faults(BaseModel):
    """The faults that are set."""

    faults: list[Fault] = []

    def delay(self, step: str, target: str) -> float:
        """Seconds that a step takes longer; asking uses nothing up."""
        return sum(f.seconds for f in self.faults if f.concerns(step, target))

    def strike(self, step: str, target: str, layer: Layer = "proxmox") -> None:
        """Let a step happen, using up one time of every fault that concerns it.

        Raises:
            Refused: a fault says so.
        """
        message = ""
        for fault in self.faults:
            if fault.concerns(step, target):
                fault.times = None if fault.times is None else fault.times - 1
                message = message or fault.message
        self.faults = [fault for fault in self.faults if fault.times != 0]
        if message:
            raise Refused(message, layer)
