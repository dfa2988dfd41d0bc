"""What a recovery asks of Proxmox VE; it only reads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from gpu_passthrough.config import Proxmox as Site

TIMEOUT_S = 10
SETTLE_S = 120.0
"""Longest wait for the task that holds a VM's lock: it goes on without the engine."""
LOOK_S = 1.0
TOKEN = "PROXMOX_VE_API_TOKEN"  # noqa: S105 - a variable's name


class Host:
    """One Proxmox VE endpoint, asked as a least-privilege token."""

    def __init__(self, site: Site, sleep: Callable[[float], None] = time.sleep) -> None:
        from proxmoxer import ProxmoxAPI

        text = site.api_token.get_secret_value() if site.api_token else os.environ[TOKEN]
        name, _, value = text.partition("=")
        user, _, token = name.partition("!")
        place = urlsplit(site.endpoint)
        self._sleep = sleep
        self._api: Any = ProxmoxAPI(
            place.hostname,
            port=place.port or 8006,
            user=user,
            token_name=token,
            token_value=value,
            verify_ssl=not site.insecure,
            timeout=TIMEOUT_S,
        )

    def vm(self, node: str, vmid: int) -> Mapping[str, Any] | None:
        """Status of a VM, once nothing works on it any more; None where there is none."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            found = self._vm(node, vmid)
            if found is None or not found.get("lock") or time.monotonic() > deadline:
                return found
            self._sleep(LOOK_S)

    def _vm(self, node: str, vmid: int) -> Mapping[str, Any] | None:
        listed = self._api.cluster.resources.get(type="vm")
        if not any(one["vmid"] == vmid and one["node"] == node for one in listed):
            return None
        found: Mapping[str, Any] = self._api.nodes(node).qemu(vmid).status.current.get()
        return found

    def mapping(self, name: str) -> bool:
        """Whether a PCI mapping of that name exists."""
        return any(one["id"] == name for one in self._api.cluster.mapping.pci.get())

    def volume(self, node: str, storage: str, volume: str) -> bool:
        """Whether a storage holds a volume."""
        content = self._api.nodes(node).storage(storage).content.get()
        return any(one["volid"] == volume for one in content)


def host_of(site: Site | None) -> Host | None:
    """The host of a stack; None where it has none, or no token is at hand."""
    if site is None or not (site.api_token or os.environ.get(TOKEN)):
        return None
    return Host(site)
