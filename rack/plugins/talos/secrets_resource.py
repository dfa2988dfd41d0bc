"""machine:Secrets: the identity of a cluster. It exists in Pulumi's state only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar, Final

from pulumi.provider.experimental.provider import PropertyDiffKind

from rack.plugins.contract import UNKNOWN, Plain, PluginError, Unknown
from rack.plugins.talos import machine_secrets, pki
from rack.plugins.talos.generate import OLDEST
from rack.plugins.talos.resource import Differences, Resource
from rack.plugins.talos.versions import DEFAULT_TALOS, Contract, is_lower

RENEWAL: Final = timedelta(days=31)
"""The client certificate is renewed this long before it expires: a month."""


class Secrets(Resource):
    """Made once and kept; lowering `talosVersion` replaces them, and with them the cluster."""

    token: ClassVar[str] = "talos:machine/secrets:Secrets"  # noqa: S105 - a type token

    def problems(self, inputs: Plain) -> Mapping[str, str]:
        """Refuse what is no Talos version, and those before the rack's time."""
        return version_problems(inputs)

    def preview(self, inputs: Plain, old: Plain | None) -> Plain:
        """Everything is unknown before it is made, and stays afterwards."""
        version = inputs.get("talosVersion") or (old or {}).get("talosVersion") or DEFAULT_TALOS
        if old is None:
            made = {"machineSecrets": UNKNOWN, "clientConfiguration": UNKNOWN}
            return {**made, "talosVersion": version}
        client = UNKNOWN if self._expires_soon(old) else old["clientConfiguration"]
        return {**old, "talosVersion": version, "clientConfiguration": client}

    def create(self, inputs: Plain, seconds: float | None) -> tuple[str, Plain]:
        """Make all keys and certificates."""
        del seconds
        made = machine_secrets.generate(self.now())
        return "machine_secrets", {
            "talosVersion": inputs.get("talosVersion") or DEFAULT_TALOS,
            "machineSecrets": made,
            "clientConfiguration": machine_secrets.client_configuration(made, self.now()),
        }

    def adjust(self, differences: Differences, old: Plain, inputs: Plain) -> Differences:
        """A lower version replaces; a certificate that expires soon is a change of its own."""
        adjusted = dict(differences)
        was, version = str(old.get("talosVersion", "")), inputs.get("talosVersion")
        if isinstance(version, str) and "talosVersion" in adjusted and is_lower(version, than=was):
            adjusted["talosVersion"] = PropertyDiffKind.UPDATE_REPLACE
        if self._expires_soon(old):
            adjusted["clientConfiguration"] = PropertyDiffKind.UPDATE
        return adjusted

    def update(self, old: Plain, inputs: Plain, seconds: float | None) -> Plain:
        """Keep the secrets; renew the client certificate when its time has come."""
        del seconds
        new = {**old, "talosVersion": inputs.get("talosVersion") or old["talosVersion"]}
        if self._expires_soon(old):
            secrets = old["machineSecrets"]
            new["clientConfiguration"] = machine_secrets.client_configuration(secrets, self.now())
        return new

    def imported(self, resource_id: str) -> Plain:
        """Say that the stand-in cannot do what the official plugin can."""
        raise PluginError(
            f"{self.token}: the simulated rack's plugin cannot import the secrets file "
            f"{resource_id!r}; only the official plugin can. Let the stack make new secrets"
        )

    def _expires_soon(self, old: Plain) -> bool:
        encoded = (old.get("clientConfiguration") or {}).get("clientCertificate")
        if not isinstance(encoded, str):
            return False
        return pki.expires_before(pki.decode(encoded), self.now() + RENEWAL)


def version_problems(inputs: Plain) -> dict[str, str]:
    """Find out why `talosVersion` is no version contract that the rack knows."""
    version = inputs.get("talosVersion")
    if version is None or isinstance(version, Unknown):
        return {}
    try:
        contract = Contract.parse(version)
    except ValueError as error:
        return {"talosVersion": f"'talosVersion': {error}; write it as v1.13.9 or v1.13"}
    if contract < OLDEST:
        oldest = f"v{OLDEST.major}.{OLDEST.minor}"
        return {"talosVersion": f"'talosVersion': the simulated rack knows Talos from {oldest} on"}
    return {}
