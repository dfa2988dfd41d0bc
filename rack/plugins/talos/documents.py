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
UNKNOWN_KEY: Final = "unknown keys found during decoding"
WRONG_TYPE: Final = "cannot unmarshal a value of this type into"
SCALARS: Final[Mapping[str, tuple[type, ...]]] = {
    # A word such as `yes` is a boolean where Talos wants one.
    "bool": (bool, str),
    "int": (int,),
}
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

    Raises `PluginError`: names the kind, or all unknown keys or wrong values by their paths.
    """
    kind = document.get("kind")
    if kind is None:
        _require_main(document, origin)
        problems = list(_problems(document, "Config", ""))
    elif "apiVersion" not in document:
        raise PluginError(f"{origin}: missing apiVersion in the document of kind {kind}")
    elif f"document {kind}" not in _types():
        raise PluginError(f"{origin}: {kind!r} {document['apiVersion']!r}: not registered")
    else:
        own = {name: value for name, value in document.items() if name not in COMMON_KEYS}
        problems = list(_problems(own, f"document {kind}", ""))
    for what in (UNKNOWN_KEY, WRONG_TYPE):
        if paths := [path for path, problem in problems if problem == what]:
            raise PluginError(f"{origin}: {what}: {', '.join(paths)}")


def _require_main(document: Mapping[str, Any], origin: str) -> None:
    if document.get("version") != "v1alpha1" and not any(key in document for key in MAIN_KEYS):
        raise PluginError(
            f"{origin}: missing kind: a document begins with machine or cluster, or names its "
            "apiVersion and kind"
        )


def _problems(value: Any, kind: str, path: str) -> Iterator[tuple[str, str]]:
    """Find the paths of unknown keys and of values that the type `kind` cannot hold."""
    if value is None or kind == "any":
        return
    if not isinstance(value, _shape(kind)):
        yield path, WRONG_TYPE
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _problems(item, kind[1:-1], f"{path}[{index}]")
    elif isinstance(value, dict):
        keys = _types().get(kind)
        for name, item in value.items():
            below = f"{path}.{name}" if path else str(name)
            if keys is None:
                yield from _problems(item, kind[1:-1], below)
            elif name in keys:
                yield from _problems(item, keys[name], below)
            else:
                yield below, UNKNOWN_KEY


def _shape(kind: str) -> tuple[type, ...]:
    """Return the Python types of values that Talos reads into a type."""
    if kind.startswith("["):
        return (list,)
    if kind.startswith("{") or kind in _types():
        return (dict,)
    return SCALARS.get(kind, (str, int, float, bool))


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
