"""imageFactory:Schematic: which customisation of Talos an image carries.

The id is the factory's. The official plugin changes a schematic in place, and Pulumi's engine does
not take a new id from an update (pulumi/pulumi#3729): until the next refresh the resource keeps
the id of the old content. A program that wants the new id at once replaces the resource
(`replace_on_changes`).
"""

from __future__ import annotations

from typing import ClassVar, Final

from rack.plugins.contract import Plain
from rack.plugins.talos.resource import Resource

VANILLA: Final = "customization: {}\n"
"""What the official plugin sends when no schematic is given."""


class Schematic(Resource):
    """Registered with the factory; nothing to delete, as the factory keeps every schematic."""

    token: ClassVar[str] = "talos:imageFactory/schematic:Schematic"  # noqa: S105 - a type token

    def preview(self, inputs: Plain, old: Plain | None) -> Plain:
        """Know nothing but the content."""
        del old
        return dict(inputs)

    def create(self, inputs: Plain, seconds: float | None) -> tuple[str, Plain]:
        """Register the content."""
        del seconds
        schematic_id = self._register(inputs)
        return schematic_id, {**inputs, "id": schematic_id}

    def update(self, old: Plain, inputs: Plain, seconds: float | None) -> Plain:
        """Register the new content; its id reaches the resource with the next refresh."""
        del old, seconds
        return {**inputs, "id": self._register(inputs)}

    def _register(self, inputs: Plain) -> str:
        return self.rack.create_schematic(inputs.get("schematic") or VANILLA)
