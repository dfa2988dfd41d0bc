"""hardware.mapping.Pci: a PCI device of each node under one name. Its id is the name."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from rack.plugins.contract import Plain, PluginError
from rack.plugins.proxmoxve.client import ApiError, Client
from rack.plugins.proxmoxve.codec import Field, Fields, decode, encode, parse, unparse
from rack.plugins.proxmoxve.resource import Context, Found, Kinds

ROOT: Final = "/cluster/mapping/pci"
MAP: Final[Fields] = (
    Field("id", "id"),
    Field("node", "node"),
    Field("path", "path"),
    Field("comment", "description"),
    Field("iommuGroup", "iommugroup", "integer"),
    Field("subsystemId", "subsystem-id"),
)


class PciMapping:
    """A resource mapping of PCI devices."""

    def create(self, context: Context, inputs: Plain) -> Found:
        """Create the mapping; one of that name must not exist."""
        name = inputs["name"]
        try:
            context.client.post(ROOT, {"id": name, **_parameters(inputs)})
        except ApiError as error:
            raise PluginError(f'Could not create PCI hardware mapping "{name}": {error}') from error
        found = self.read(context, name, {})
        if found is None:
            raise PluginError(f'PCI hardware mapping "{name}" was created but cannot be read back')
        return found

    def read(self, context: Context, resource_id: str, state: Plain) -> Found | None:
        """Read the mapping by its name."""
        try:
            outputs = outputs_of(context.client, resource_id)
        except ApiError as error:
            if error.gone:
                return None
            raise
        inputs = {name: value for name, value in outputs.items() if value not in (False, "")}
        return Found(resource_id, outputs, inputs)

    def update(self, context: Context, resource_id: str, old: Plain, new: Plain) -> Plain:
        """Change the mapping in place. It cannot be renamed: PVE looks for the new name."""
        name = new["name"]
        parameters = _parameters(new)
        gone = ["description"] if old.get("comment") and not new.get("comment") else []
        gone += [] if new.get("mediatedDevices") else ["mdev"]
        try:
            context.client.put(_path(name), {**parameters, "delete": ",".join(gone) or None})
        except ApiError as error:
            raise PluginError(f'Could not update PCI hardware mapping "{name}": {error}') from error
        return outputs_of(context.client, name)

    def delete(self, context: Context, resource_id: str, state: Plain) -> None:
        """Remove the mapping; VMs that use it will not start any more."""
        try:
            context.client.delete(_path(resource_id))
        except ApiError as error:
            if not error.gone:
                raise
            context.warn(
                f'Could not delete PCI hardware mapping "{resource_id}", it does not exist or has'
                " been deleted outside of Pulumi."
            )

    def refine(self, kinds: Kinds, old: Plain, new: Plain) -> Kinds:
        """Nothing to correct."""
        return kinds


def outputs_of(client: Client, name: str) -> Plain:
    """Read the properties of the mapping `name`."""
    mapping = client.get(_path(name))
    outputs: Plain = {
        "name": name,
        "maps": [decode(MAP, parse(text)) for text in mapping.get("map") or []],
        "mediatedDevices": str(mapping.get("mdev", 0)) == "1",
    }
    if mapping.get("description"):
        outputs["comment"] = mapping["description"]
    return outputs


def _path(name: str) -> str:
    return f"{ROOT}/{quote(name, safe='')}"


def _parameters(inputs: Plain) -> dict[str, Any]:
    return {
        "map": [unparse(encode(MAP, entry)) for entry in inputs["maps"]],
        "description": inputs.get("comment") or None,
        "mdev": True if inputs.get("mediatedDevices") else None,
    }
