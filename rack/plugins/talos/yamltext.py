"""YAML as Talos' own libraries read and write it.

They read YAML 1.2 (a bare `off` is a word) and write so that readers of YAML 1.1 see the same.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

YAML_1_1_BOOLEANS: Final = frozenset({"y", "n", "yes", "no", "on", "off"})
INDENT: Final = 4
UNFOLDED: Final = 1 << 30
"""Line width in characters: certificates stay on one line."""


class InvalidYamlError(ValueError):
    """A text that is not YAML. The message says where, and never quotes the text."""


class _Representer(SafeRepresenter):
    """Quotes words that YAML 1.1 takes for booleans, and never writes anchors."""

    def represent_text(self, text: str) -> ScalarNode:
        style = '"' if text.lower() in YAML_1_1_BOOLEANS else "|" if "\n" in text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


_Representer.add_representer(str, _Representer.represent_text)


def load(text: str) -> list[Any]:
    """Read every document of a text; empty ones are left out.

    Raises `InvalidYamlError`: the text is not YAML, or repeats a key.

    """
    try:
        return [document for document in YAML(typ="safe", pure=True).load_all(text) if document]
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        kind = "a key occurs twice" if "duplicate" in str(error.problem) else "not valid YAML"
        raise InvalidYamlError(f"{kind}{where}") from None


def dump(documents: Iterable[Any]) -> str:
    """Write documents in block style, keys in their own order, `---` between documents."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.allow_unicode = True
    yaml.width = UNFOLDED
    yaml.indent(mapping=INDENT, sequence=INDENT + 2, offset=INDENT)
    out = io.StringIO()
    yaml.dump_all(list(documents), out)
    return out.getvalue()
