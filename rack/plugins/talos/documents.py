"""Configuration documents: their identity, and reading them as strictly as Talos does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from rack.plugins.contract import PluginError
from rack.plugins.talos import yamltext
from rack.plugins.talos.versions import LIBRARY, Contract

Document = dict[str, Any]

TABLES: Final = Path(__file__).parents[2] / "world" / "data"
MAIN_KEYS: Final = ("machine", "cluster", "debug", "persist")
"""Any of these makes a document without a kind the main one."""
COMMON_KEYS: Final = frozenset({"apiVersion", "kind"})
_TYPE: Final = re.compile(r"(?P<name>.*?)!?(?:@(?P<since>[\d.]+))?")


def identity(document: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what tells documents apart: API version, kind, name. The main one has none."""
    if "kind" not in document:
        return ("", "", "")
    api_version, kind, name = (
        str(document.get(key) or "") for key in ("apiVersion", "kind", "name")
    )
    return (api_version, kind, name)


def read(text: str, origin: str) -> list[Document]:
    """Read and check a configuration's documents.

    Raises `PluginError`: it is not YAML, repeats a document, or has a key that Talos does not know.
    """
    try:
        found = yamltext.load(text)
    except yamltext.InvalidYamlError as error:
        raise PluginError(f"{origin}: {error}") from None
    for document in found:
        require_mapping(document, origin)
        check(document, origin)
    names = [identity(document) for document in found]
    for name in names:
        if names.count(name) > 1:
            raise PluginError(f"{origin}: duplicate document {'/'.join(name)} is not allowed")
    return found


def require_mapping(document: Any, origin: str) -> None:
    """Refuse a document that is a list or a single value."""
    if not isinstance(document, dict):
        raise PluginError(f"{origin}: expected a YAML document of keys and values")


def check(document: Mapping[str, Any], origin: str) -> None:
    """Refuse a document of an unknown kind or with unknown keys.

    Raises `PluginError`: names the kind or all unknown keys by their paths.
    """
    kind = document.get("kind")
    if kind is None:
        _require_main(document, origin)
        unknown = list(_unknown(document, "Config", ""))
    elif "apiVersion" not in document:
        raise PluginError(f"{origin}: missing apiVersion in the document of kind {kind}")
    elif f"document {kind}" not in _types():
        raise PluginError(f"{origin}: {kind!r} {document['apiVersion']!r}: not registered")
    else:
        own = {name: value for name, value in document.items() if name not in COMMON_KEYS}
        unknown = list(_unknown(own, f"document {kind}", ""))
    if unknown:
        raise PluginError(f"{origin}: unknown keys found during decoding: {', '.join(unknown)}")


def _require_main(document: Mapping[str, Any], origin: str) -> None:
    if document.get("version") != "v1alpha1" and not any(key in document for key in MAIN_KEYS):
        raise PluginError(
            f"{origin}: missing kind: a document begins with machine or cluster, or names its "
            "apiVersion and kind"
        )


def _unknown(value: Any, kind: str, path: str) -> Iterator[str]:
    """Find the paths of keys that the type `kind` does not have."""
    if kind.startswith("[") and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(item, kind[1:-1], f"{path}[{index}]")
    elif kind.startswith("{") and isinstance(value, dict):
        for name, item in value.items():
            yield from _unknown(item, kind[1:-1], f"{path}.{name}")
    elif kind in _types() and isinstance(value, dict):
        keys = _types()[kind]
        for name, item in value.items():
            below = f"{path}.{name}" if path else str(name)
            if name in keys:
                yield from _unknown(item, keys[name], below)
            else:
                yield below


@cache
def _types() -> Mapping[str, Mapping[str, str]]:
    """Return every type's keys with their types, as the plugin's Talos release knows them."""
    (main,) = yamltext.load((TABLES / "machine_config_v1alpha1.yaml").read_text())
    (others,) = yamltext.load((TABLES / "machine_config_documents.yaml").read_text())
    kinds = {f"document {name}": keys for name, keys in others["documents"].items()}
    known = {}
    for name, keys in {**main, **others["parts"], **kinds}.items():
        if (own := _known(name)) is not None:
            types = {key: _known(kind) for key, kind in keys.items()}
            known[own] = {key: kind for key, kind in types.items() if kind is not None}
    return known


def _known(text: str) -> str | None:
    """Strip a name of its marks, or return None when it is newer than the plugin's Talos."""
    found = _TYPE.fullmatch(text)
    if found is None or (
        found["since"] and Contract.parse(found["since"]) > Contract.parse(LIBRARY)
    ):
        return None
    return found["name"]
