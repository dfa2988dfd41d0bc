"""A schematic: which customisation of Talos an image carries, and its ID.

The factory reads YAML strictly, writes it again in one canonical form (fields in a fixed order,
empty ones left out, four spaces of indentation) and takes the SHA-256 of that text as the ID.
The order of extensions is part of it. Rules and messages are the image factory's own.
"""

from __future__ import annotations

import hashlib
import io
import re
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from rack.world.nodefacts import Frozen

Node = Any
"""A node of a parsed YAML document."""

_FIELDS: dict[str, dict[str, str]] = {
    "Schematic": {
        "owner": "string",
        "overlay": "Overlay",
        "customization": "Customization!",
    },
    "Overlay": {"image": "string!", "name": "string!", "options": "map"},
    "Customization": {
        "embeddedMachineConfiguration": "string",
        "extraKernelArgs": "[string]",
        "meta": "[MetaValue]",
        "systemExtensions": "SystemExtensions",
        "bootloader": "bootloader",
        "secureboot": "SecureBootCustomization",
        "diskImage": "DiskImageCustomization",
    },
    "MetaValue": {"key": "uint8!", "value": "string!"},
    "SystemExtensions": {"officialExtensions": "[string]"},
    "SecureBootCustomization": {"enrollKeys": "string", "includeWellKnownCertificates": "bool"},
    "DiskImageCustomization": {"sectorSize": "uint"},
}
"""Fields in canonical order; `!` marks one that is written even when empty."""

_BOOTLOADERS = ("none", "dual-boot", "sd-boot", "grub")
_LIMITS = {"uint8": 2**8, "uint": 2**64}
_YAML_1_1_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"))

_YAML_1_1_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")


class InvalidSchematic(ValueError):  # noqa: N818 - the factory's own word
    """The factory refuses this text as a schematic."""


class Schematic(Frozen):
    """A schematic in its canonical form."""

    text: str
    """Canonical YAML."""
    id: str
    """SHA-256 of the text, 64 hex digits."""
    extensions: tuple[str, ...] = ()
    """Official extensions in the order given, `siderolabs/` included."""
    extra_kernel_args: tuple[str, ...] = ()


def parse(text: str) -> Schematic:
    """Read a schematic.

    Raises:
        InvalidSchematic: no YAML, a field that the factory does not know, a wrong type, or an
            owner, which only the enterprise edition has.
    """
    document = _load(text)
    problems: list[str] = []
    value = _decode(document, "Schematic", problems)
    if problems:
        raise InvalidSchematic("yaml: unmarshal errors:\n" + "\n".join(f"  {p}" for p in problems))
    if value.get("owner"):
        raise InvalidSchematic("owner field is only supported in Enterprise edition")
    canonical = _write(value)
    customization = value["customization"]
    return Schematic(
        text=canonical,
        id=hashlib.sha256(canonical.encode()).hexdigest(),
        extensions=tuple(customization.get("systemExtensions", {}).get("officialExtensions", ())),
        extra_kernel_args=tuple(customization.get("extraKernelArgs", ())),
    )


def _load(text: str) -> CommentedMap:
    try:
        document = YAML(typ="rt", pure=True).load(text)
    except YAMLError as error:
        raise InvalidSchematic(f"yaml: {error}") from error
    if document is None:
        if not text.strip():
            raise InvalidSchematic("EOF")
        return CommentedMap()
    if not isinstance(document, CommentedMap):
        raise InvalidSchematic(
            "yaml: unmarshal errors:\n  line 1: cannot unmarshal into schematic.Schematic"
        )
    return document


def _decode(node: CommentedMap, kind: str, problems: list[str]) -> dict[str, Node]:
    """The fields of a mapping, in canonical order, without the empty optional ones."""
    fields = _FIELDS[kind]
    for key in node:
        if key not in fields:
            line = node.lc.key(key)[0] + 1
            problems.append(f"line {line}: field {key} not found in type schematic.{kind}")
    value: dict[str, Node] = {}
    for name, spelled in fields.items():
        wanted = spelled.removesuffix("!")
        line = node.lc.value(name)[0] + 1 if name in node else 0
        found = _decode_field(node.get(name), wanted, line, problems)
        if spelled.endswith("!") or not _is_zero(found):
            value[name] = found
    return value


def _decode_field(node: Node, wanted: str, line: int, problems: list[str]) -> Node:
    if wanted.startswith("["):
        items = [] if node is None else node
        if not isinstance(items, list):
            return _mismatch(node, "[]" + wanted.strip("[]"), line, problems)
        return [_decode_field(item, wanted.strip("[]"), line, problems) for item in items]
    if wanted in _FIELDS:
        if node is None:
            node = CommentedMap()
        if not isinstance(node, CommentedMap):
            return _mismatch(node, f"schematic.{wanted}", line, problems)
        return _decode(node, wanted, problems)
    return _decode_scalar(node, wanted, line, problems)


def _decode_scalar(node: Node, wanted: str, line: int, problems: list[str]) -> Node:
    if node is None:
        return {"string": "", "bool": False, "map": {}}.get(wanted, 0 if "uint" in wanted else "")
    if wanted == "map" and isinstance(node, dict):
        return dict(sorted(node.items()))
    if wanted == "bool" and isinstance(node, bool):
        return node
    if wanted in _LIMITS and _is_whole(node) and 0 <= node < _LIMITS[wanted]:
        return int(node)
    if wanted == "string" and not isinstance(node, (dict, list)):
        return _text(node)
    if wanted == "bootloader" and node in _BOOTLOADERS:
        return "" if node == "none" else str(node)
    return _mismatch(node, wanted, line, problems)


def _is_whole(node: Node) -> bool:
    return isinstance(node, int) and not isinstance(node, bool)


def _is_zero(value: Node) -> bool:
    """Go's notion of empty: a structure of empty fields is empty as well."""
    if isinstance(value, dict):
        return all(_is_zero(item) for item in value.values())
    return not value


def _mismatch(node: Node, wanted: str, line: int, problems: list[str]) -> Node:
    problems.append(f"line {line}: cannot unmarshal `{node}` into {wanted}")
    return {}


def _text(node: Node) -> str:
    if isinstance(node, bool):
        return "true" if node else "false"
    return str(node)


def _write(value: dict[str, Node]) -> str:
    writer = YAML(typ="rt", pure=True)
    writer.indent(mapping=4, sequence=6, offset=4)
    writer.width = 1_000_000
    writer.default_flow_style = False
    out = io.StringIO()
    writer.dump(_styled(value), out)
    return out.getvalue()


def _styled(node: Node) -> Node:
    """Give each text the style that the factory's YAML writer picks for it."""
    if isinstance(node, dict):
        return {key: _styled(item) for key, item in node.items()}
    if isinstance(node, list):
        return [_styled(item) for item in node]
    if not isinstance(node, str):
        return node
    if "\n" in node:
        return LiteralScalarString(node)
    if _reads_as_something_else(node):
        return DoubleQuotedScalarString(node)
    return str(node)


def _reads_as_something_else(text: str) -> bool:
    """Written plainly, the text would come back as a number, a boolean or nothing."""
    if not text or text.lower() in _YAML_1_1_WORDS or _YAML_1_1_SEXAGESIMAL.fullmatch(text):
        return True
    try:
        return not isinstance(YAML(typ="safe", pure=True).load(text), (str, dict, list))
    except YAMLError:
        return False
