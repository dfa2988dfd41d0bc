"""cluster:Kubeconfig and cluster:getKubeconfig: the administrator's access to Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar

from pulumi.provider.experimental.provider import PropertyDiffKind

from rack.plugins.contract import UNKNOWN, Plain, PluginError
from rack.plugins.talos import durations, pki, yamltext
from rack.plugins.talos.client import Access, Rack
from rack.plugins.talos.resource import (
    Differences,
    Resource,
    deadline,
    duration_problems,
    with_endpoint,
)

FETCHED = ("kubeconfigRaw", "kubernetesClientConfiguration")


class Kubeconfig(Resource):
    """Fetched from a control plane node, and again when its certificate nears its end."""

    token: ClassVar[str] = "talos:cluster/kubeconfig:Kubeconfig"  # noqa: S105 - a type token

    def problems(self, inputs: Plain) -> Mapping[str, str]:
        """Refuse durations that are none."""
        return duration_problems(inputs, "certificateRenewalDuration")

    def preview(self, inputs: Plain, old: Plain | None) -> Plain:
        """The kubeconfig is unknown before it is fetched."""
        fetched: Plain = dict.fromkeys(FETCHED, UNKNOWN)
        if old is not None and not self._expires_soon(old, inputs):
            fetched = {name: old.get(name) for name in FETCHED}
        return {**with_endpoint(inputs), **fetched}

    def create(self, inputs: Plain, seconds: float | None) -> tuple[str, Plain]:
        """Fetch it, as soon as the control plane hands it out. The id is the cluster's name."""
        return self._fetch(inputs, deadline(inputs, "create", seconds))

    def adjust(self, differences: Differences, old: Plain, inputs: Plain) -> Differences:
        """A certificate that expires soon is a change of its own."""
        if not self._expires_soon(old, inputs):
            return differences
        return {**differences, **dict.fromkeys(FETCHED, PropertyDiffKind.UPDATE)}

    def update(self, old: Plain, inputs: Plain, seconds: float | None) -> Plain:
        """Take over the inputs; fetch again only when the certificate expires soon."""
        if not self._expires_soon(old, inputs):
            return {**with_endpoint(inputs), **{name: old.get(name) for name in FETCHED}}
        return self._fetch(inputs, deadline(inputs, "update", seconds))[1]

    def _fetch(self, inputs: Plain, seconds: float) -> tuple[str, Plain]:
        text = fetch(self.rack, inputs["node"], inputs["clientConfiguration"], seconds)
        name, client = parse(text)
        fetched = {"kubeconfigRaw": text, "kubernetesClientConfiguration": client}
        return name, {**with_endpoint(inputs), **fetched}

    def _expires_soon(self, old: Plain, inputs: Plain) -> bool:
        encoded = (old.get("kubernetesClientConfiguration") or {}).get("clientCertificate")
        ahead = inputs.get("certificateRenewalDuration")
        if not isinstance(encoded, str) or not isinstance(ahead, str):
            return False
        limit = self.now() + timedelta(seconds=durations.seconds(ahead))
        return pki.expires_before(pki.decode(encoded), limit)


def fetch(rack: Rack, node: str, client_configuration: Mapping[str, Any], seconds: float) -> str:
    """Fetch the kubeconfig of the cluster that `node` is a control plane of."""
    access = Access.of(client_configuration)
    answer = rack.persist(
        f"fetching the kubeconfig from node {node}",
        seconds,
        lambda: rack.command(node, "kubeconfig", access, {}),
    )
    return str(answer["kubeconfig"])


def parse(text: str) -> tuple[str, Plain]:
    """Return a kubeconfig's cluster name and its client configuration.

    Raises `PluginError`: it is no kubeconfig; the message never quotes it.
    """
    try:
        (config,) = yamltext.load(text)
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        return str(context["cluster"]), {
            "host": cluster["server"],
            "caCertificate": cluster["certificate-authority-data"],
            "clientCertificate": user["client-certificate-data"],
            "clientKey": user["client-key-data"],
        }
    except (ValueError, KeyError, TypeError, StopIteration):
        raise PluginError("the machine answered with something that is no kubeconfig") from None


def _named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(item for item in items if item["name"] == name)
