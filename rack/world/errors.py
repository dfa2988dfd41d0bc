"""How the physical world says no."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Layer = Literal["proxmox", "talos", "kubernetes", "nvidia", "rack"]


class Refused(Exception):  # noqa: N818 - a refusal is an answer of the world, not a defect
    """A layer of the rack refuses a request, in that layer's own words.

    `status` is the HTTP status that the layer answers with; `errors` are the per-parameter texts
    of Proxmox VE's "Parameter verification failed."
    """

    def __init__(
        self,
        message: str,
        layer: Layer = "proxmox",
        *,
        status: int = 500,
        errors: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.layer: Layer = layer
        self.status = status
        self.errors = dict(errors or {})


def invalid(**errors: str) -> Refused:
    """Proxmox VE's answer to parameters that it does not accept; `_` stands for a dash."""
    named = {name.replace("_", "-"): text for name, text in errors.items()}
    return Refused("Parameter verification failed.\n", status=400, errors=named)


def forbidden(path: str, *privileges: str) -> Refused:
    """Proxmox VE's answer to a user who has none of `privileges` on `path`."""
    wanted = "|".join(privileges)
    return Refused(f"Permission check failed ({path}, {wanted})\n", status=403)
