"""Which machines are in the cluster."""

from __future__ import annotations

from rack.world.datacenter import Datacenter
from rack.world.machine import Machine
from rack.world.nodefacts import NodeFacts


def members(world: Datacenter) -> list[NodeFacts]:
    """The machines whose kubelets are in the cluster of the running control plane."""
    control_plane = next((one for _, one in world.machines if one.cluster is not None), None)
    if control_plane is None:
        return []
    return [
        facts
        for _, machine in world.machines
        if (facts := machine.facts()) is not None and _joins(machine, control_plane)
    ]


def _joins(machine: Machine, control_plane: Machine) -> bool:
    return machine is control_plane or not machine.join_problem(control_plane)
