"""What a recovery asks of Proxmox VE; it only reads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from gpu_passthrough.config import Proxmox as Site
from gpu_passthrough.preflight.client import TOKEN, Client

SETTLE_S = 120.0
"""Longest wait for the task that holds a VM's lock: it goes on without the engine."""
LOOK_S = 1.0


class Host:
    """One Proxmox VE endpoint, asked as a least-privilege token."""

    def __init__(self, client: Client, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._sleep = sleep

    def vm(self, node: str, vmid: int) -> Mapping[str, Any] | None:
        """Status of a VM, once nothing works on it any more; None where there is none."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            found = self._vm(node, vmid)
            if found is None or not found.get("lock") or time.monotonic() > deadline:
                return found
            self._sleep(LOOK_S)

    def _vm(self, node: str, vmid: int) -> Mapping[str, Any] | None:
        listed = self._client.fresh("cluster/resources?type=vm")
        if not any(one["vmid"] == vmid and one["node"] == node for one in listed):
            return None
        found: Mapping[str, Any] = self._client.fresh(f"nodes/{node}/qemu/{vmid}/status/current")
        return found

    def mapping(self, name: str) -> bool:
        """Whether a PCI mapping of that name exists."""
        return any(one["id"] == name for one in self._client.get("cluster/mapping/pci"))

    def volume(self, node: str, storage: str, volume: str) -> bool:
        """Whether a storage holds a volume."""
        content = self._client.get(f"nodes/{node}/storage/{storage}/content")
        return any(one["volid"] == volume for one in content)


def host_of(site: Site | None) -> Host | None:
    """The host of a stack; None where it has none, or no token is at hand."""
    if site is None or not (site.api_token or os.environ.get(TOKEN)):
        return None
    return Host(Client(site))
