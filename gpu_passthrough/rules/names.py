"""Names of apps and volumes: what Kubernetes takes, and what is taken already."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_passthrough.config import Stack
from gpu_passthrough.problems import Path, Problem

TAKEN = {
    ("default", "kubernetes"): "the Service of the API server",
    ("kube-system", "coredns"): "the Deployment of the cluster's DNS",
    ("kube-system", "kube-dns"): "the Service of the cluster's DNS",
}
"""What every cluster has: namespace and name, and what it is."""
OPERATOR = (
    "gpu-operator",
    "gpu-operator-node-feature-discovery-gc",
    "gpu-operator-node-feature-discovery-master",
    "nvidia-dcgm-exporter",
)
"""Deployments and Services of the operator's release."""


def services(stack: Stack) -> Iterator[Problem]:
    """A Service's name begins with a letter (Kubernetes, DNS-1035 label)."""
    for name, app in stack.apps.items():
        if app.port and not name[0].isalpha():
            yield Problem(
                ("apps", name),
                f"App {name} has a port, and its name does not begin with a letter.",
                why="Its Service has the same name, and the API server refuses such a Service.",
                fix=f"Call it app-{name}, for example, or leave the port out.",
                also=(("apps", name, "port"),),
            )


def claims(stack: Stack) -> Iterator[Problem]:
    """Two volumes do not become the same claim: it is called APP-VOLUME."""
    seen: dict[str, Path] = {}
    for name, app in stack.apps.items():
        for volume in app.volumes:
            claim, path = f"{name}-{volume}", ("apps", name, "volumes", volume)
            other = seen.setdefault(claim, path)
            if other != path:
                yield Problem(
                    path,
                    f"Volume {volume} of app {name} and volume {other[-1]} of app {other[1]} both"
                    f" become the claim {claim}.",
                    why="Two resources of one stack cannot have the same name.",
                    fix="Give one of the volumes another name.",
                    also=(other,),
                )


def taken(stack: Stack) -> Iterator[Problem]:
    """An app does not take the name of what is in its namespace already."""
    operator = {
        (stack.gpu_operator.namespace, one): "an object of the GPU Operator" for one in OPERATOR
    }
    for name, app in stack.apps.items():
        owner = (TAKEN | operator).get((app.namespace, name))
        if owner is not None:
            yield Problem(
                ("apps", name),
                f"App {name} in namespace {app.namespace} would have the name of {owner}.",
                why="Its Deployment and its Service are called like the app; one would write over"
                " the other, or be refused.",
                fix="Give the app another name or another namespace.",
                also=(("apps", name, "namespace"),),
            )
