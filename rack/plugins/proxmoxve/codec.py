"""Property strings of the Proxmox VE API: `mapping=gpu0,pcie=1` and the like.

A block of a VM (a disk, a PCI device, the guest agent) is one option of PVE's VM configuration,
written as `key=value` pairs; the first may lack its key. A table of `Field`s says how the
properties of a Pulumi type correspond to those keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["string", "boolean", "integer", "number", "list"]


@dataclass(frozen=True)
class Field:
    """One property and its key in a property string.

    Booleans are always written, everything else only when set. `absent` is what PVE means when
    the key is missing, `unset` a value for which the key is left out.
    """

    name: str
    key: str
    kind: Kind = "string"
    absent: Any = None
    unset: Any = None

    def encode(self, value: Any) -> str | None:
        """Write one value, or None when the key is to be left out."""
        if self.kind == "boolean":
            value = bool(value)
        if value is None or value == "" or value == [] or value == self.unset:
            return None
        if self.kind == "boolean":
            return str(int(value))
        if self.kind == "list":
            return ";".join(str(item) for item in value)
        return f"{value:g}" if self.kind == "number" else str(value)

    def decode(self, text: str | None) -> Any:
        """Read one value; `absent` when the key is missing."""
        if text is None:
            return self.absent
        match self.kind:
            case "boolean":
                return text in ("1", "on", "yes", "true")
            case "integer":
                return int(text)
            case "number":
                number = float(text)
                return int(number) if number.is_integer() else number
            case "list":
                return text.split(";")
        return text


Fields = tuple[Field, ...]


def parse(text: str, first: str = "") -> dict[str, str]:
    """Split a property string; `first` is the key of a leading value without one."""
    pairs: dict[str, str] = {}
    for part in text.split(","):
        key, separator, value = part.partition("=")
        pairs[key if separator else first] = value if separator else key
    return pairs


def unparse(pairs: Mapping[str, str | None] | Iterable[tuple[str, str | None]]) -> str:
    """Join pairs to a property string, without those that have no value."""
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    return ",".join(f"{key}={value}" for key, value in items if value is not None)


def encode(fields: Fields, block: Mapping[str, Any]) -> dict[str, str]:
    """Turn a block's properties into the pairs of a property string."""
    encoded = ((field.key, field.encode(block.get(field.name))) for field in fields)
    return {key: value for key, value in encoded if value is not None}


def decode(fields: Fields, pairs: Mapping[str, str]) -> dict[str, Any]:
    """Turn the pairs of a property string into a block's properties; nothing for nothing."""
    decoded = {field.name: field.decode(pairs.get(field.key)) for field in fields}
    return {name: value for name, value in decoded.items() if value is not None}
