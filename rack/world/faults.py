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
    """Steps that fail or take longer."""
    moves: dict[str, str] = {}
    """Host and slot of a card → the slot where it is after the host's next boot."""
    iommu_off: list[str] = []
    """Hosts whose IOMMU is off from their next boot on."""
    dead_programs: list[str] = []
    """Programs of the control plane that do not run."""
    status_599: int = 0
    """How often a question for a task is still answered with 599."""
    full: dict[str, int] = {}
    """Host and name of a full storage → its real capacity in GiB."""
    injected: dict[str, str] = {}
    """What was injected and not cleared, with its arguments."""

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
