"""How a Talos machine says no: a gRPC code and Talos' message."""

from __future__ import annotations

from typing import Final, Literal

from rack.world.errors import Refused

Code = Literal[
    "Unauthenticated",
    "PermissionDenied",
    "InvalidArgument",
    "FailedPrecondition",
    "AlreadyExists",
    "NotFound",
    "Unimplemented",
    "Unavailable",
]

_STATUS: Final[dict[Code, int]] = {
    "Unauthenticated": 401,
    "PermissionDenied": 403,
    "InvalidArgument": 400,
    "FailedPrecondition": 412,
    "AlreadyExists": 409,
    "NotFound": 404,
    "Unimplemented": 501,
    "Unavailable": 503,
}
"""HTTP status that stands for a gRPC code in the rack's machine API."""


class TalosError(Refused):
    """A machine refuses a call."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message, "talos", status=_STATUS[code])
        self.code: Code = code
