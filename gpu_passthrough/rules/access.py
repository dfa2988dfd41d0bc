"""Ways in: the URL of an API and the token for it, as Proxmox and Talos take them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address
from urllib.parse import urlsplit

from gpu_passthrough.config import Stack
from gpu_passthrough.fields import ENCRYPTED
from gpu_passthrough.problems import Path, Problem

TOKEN = re.compile(r"[^\s!@=]+@[\w.-]+![\w.-]+=[A-Za-z0-9-]+")
"""As the provider wants it; whether the parts are right, only Proxmox knows."""
KUBERNETES_PORT = 6443
"""Where Talos' API server listens."""


def _address(host: str) -> IPv4Address | None:
    try:
        return IPv4Address(host)
    except AddressValueError:
        return None


def proxmox_url(stack: Stack) -> Iterator[Problem]:
    """The endpoint is a host and a port; clients add the path (bpg/terraform-provider-proxmox)."""
    if stack.proxmox is None:
        return
    path: Path = ("proxmox", "endpoint")
    parts = urlsplit(stack.proxmox.endpoint)
    if parts.path not in ("", "/") or parts.query:
        yield Problem(
            path,
            f"The endpoint ends with {parts.path or parts.query}.",
            why="The provider adds /api2/json itself; the API answers 501, no such file.",
            fix=f"Write {parts.scheme}://{parts.netloc}.",
        )
    if parts.port is None and _address(parts.hostname or ""):
        yield Problem(
            path,
            f"The endpoint {stack.proxmox.endpoint} names no port, so 443 is asked.",
            why="Proxmox VE listens on 8006 and on nothing else.",
            fix=f"Write {parts.scheme}://{parts.hostname}:8006.",
        )


def proxmox_token(stack: Stack) -> Iterator[Problem]:
    """A token is USER@REALM!TOKENID=UUID (muhlba91/pulumi-proxmoxve#281; Proxmox VE, pveum)."""
    if stack.proxmox is None or stack.proxmox.api_token is None:
        return
    token = stack.proxmox.api_token.get_secret_value()
    if token != ENCRYPTED and not TOKEN.fullmatch(token):
        yield Problem(
            ("proxmox", "apiToken"),
            "The token is not in the form USER@REALM!TOKENID=UUID.",
            why="The UUID alone, or the token's name alone, is no token: Proxmox answers 401.",
            fix="pveum user token add USER@REALM TOKENID prints the parts once: join its"
            " full-tokenid and its value with an equals sign.",
        )


def kubernetes_url(stack: Stack) -> Iterator[Problem]:
    """At a machine of the stack the Kubernetes API has its own port and no path (Talos)."""
    if stack.cluster is None or stack.starts_at == "kubernetes":
        return
    path: Path = ("cluster", "endpoint")
    parts = urlsplit(stack.cluster.endpoint)
    host = _address(parts.hostname or "")
    if parts.path not in ("", "/") or parts.query:
        yield Problem(
            path,
            f"The endpoint {stack.cluster.endpoint} has a path.",
            why="Kubernetes' clients add theirs to it, and find nothing.",
            fix=f"Write {parts.scheme}://{parts.netloc}.",
        )
    ours = {*stack.control_planes.values(), stack.cluster.virtual_address}
    # On loopback ports are shifted, and an address says nothing about its owner.
    if host is None or host.is_loopback or str(host) not in ours:
        return
    if parts.port != KUBERNETES_PORT:
        yield Problem(
            path,
            f"The endpoint is port {parts.port or 443} of {host}.",
            why=f"Talos' API server listens on {KUBERNETES_PORT}; the nodes would never join.",
            fix=f"Write https://{host}:{KUBERNETES_PORT}.",
        )
