"""Addresses: each once, inside of the network, and the endpoint on a control plane node."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from urllib.parse import urlsplit

from gpu_passthrough.config import Stack
from gpu_passthrough.problems import Path, Problem

POINT_TO_POINT = 31
"""From this prefix length on a network has no address for itself and for broadcast."""


def _addresses(stack: Stack) -> Iterator[tuple[Path, str, str]]:
    """Path, address and owner of every address that has to be unique."""
    for top, members in (("nodes", stack.nodes), ("machines", stack.machines)):
        for name, machine in members.items():
            if machine.address is not None:
                yield (top, name, "address"), machine.address, f"node {name}"
    if stack.cluster is not None and stack.cluster.virtual_address is not None:
        path: Path = ("cluster", "virtualAddress")
        yield path, stack.cluster.virtual_address, "the virtual address"
    if stack.proxmox is not None:
        path = ("proxmox", "network", "gateway")
        yield path, stack.proxmox.network.gateway, "the gateway"
        host = urlsplit(stack.proxmox.endpoint).hostname or ""
        # On loopback everything is one machine, and an address says nothing about its owner.
        if _is_ip(host) and not IPv4Address(host).is_loopback:
            yield ("proxmox", "endpoint"), host, "the Proxmox host"


def _is_ip(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def duplicate_addresses(stack: Stack) -> Iterator[Problem]:
    """No address belongs to two."""
    owners: dict[str, tuple[Path, str]] = {}
    for path, address, owner in _addresses(stack):
        if address not in owners:
            owners[address] = (path, owner)
            continue
        other_path, other = owners[address]
        yield Problem(
            path,
            f"{address} is the address of {other} and of {owner}.",
            why="Only one of them answers; the configuration of one node reaches the other.",
            fix="Give one of them a free address.",
            also=(other_path,),
        )


def inside_network(stack: Stack) -> Iterator[Problem]:
    """Every address is a host's address of the nodes' network."""
    if stack.proxmox is None:
        return
    network = IPv4Network(stack.proxmox.network.cidr)
    reserved = set()
    if network.prefixlen < POINT_TO_POINT:
        reserved = {network.network_address, network.broadcast_address}
    for path, text, owner in _addresses(stack):
        if path == ("proxmox", "endpoint"):
            continue
        address = IPv4Address(text)
        if address in network and address not in reserved:
            continue
        what = "outside of" if address not in network else "not a host's address of"
        yield Problem(
            path,
            f"{text} of {owner} is {what} the network {network}.",
            why="Nothing in that network would reach it.",
            fix=f"Take an address inside of {network}, or change proxmox.network.cidr.",
            also=(("proxmox", "network", "cidr"),),
        )


def control_plane(stack: Stack) -> Iterator[Problem]:
    """Somebody runs the control plane."""
    if stack.starts_at == "kubernetes" or not stack.members:
        return
    if all(machine.role == "worker" for machine in stack.members.values()):
        top = "nodes" if stack.nodes else "machines"
        yield Problem(
            (top,),
            "No node has the role controlplane.",
            why="There is nobody to run etcd and the Kubernetes API.",
            fix="Give one node, or three for failover, the role controlplane.",
        )


def endpoint(stack: Stack) -> Iterator[Problem]:
    """The Kubernetes API is reached at a control plane node or at the virtual address."""
    if stack.cluster is None or stack.starts_at == "kubernetes" or not stack.members:
        return
    host = urlsplit(stack.cluster.endpoint).hostname or ""
    planes = {
        machine.address: name
        for name, machine in stack.members.items()
        if machine.role == "controlplane" and machine.address
    }
    virtual = stack.cluster.virtual_address
    if not planes or not _is_ip(host) or host in planes or host == virtual:
        return
    worker = next((n for n, m in stack.members.items() if m.address == host), None)
    top = "nodes" if stack.nodes else "machines"
    whose = f"that is worker {worker}" if worker else "that is no node of this stack"
    known = ", ".join(f"{address} ({name})" for address, name in planes.items())
    yield Problem(
        ("cluster", "endpoint"),
        f"The endpoint is at {host}; {whose}.",
        why="The Kubernetes API answers on control plane nodes only.",
        fix=f"Use {known}"
        + (f" or the virtual address {virtual}" if virtual else "")
        + "; for a load balancer, its DNS name.",
        also=((top, worker, "address"),) if worker else (),
    )
