"""Routes of the services port that Talos answers."""

from __future__ import annotations

from starlette.routing import Route

from rack.rack import Rack
from rack.talos.factory import Factory
from rack.talos.machines import Machines


def routes(rack: Rack) -> list[Route]:
    """Image factory and machine API of a rack."""
    return [*Factory(rack).routes(), *Machines(rack).routes()]
