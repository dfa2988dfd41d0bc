"""Configuration documents: their identity, and reading them as strictly as Talos does.

Which keys there are is the machine's knowledge (rack/world). Talos' own messages quote what they
refuse; these name paths only, because a patch may hold keys and tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rack.plugins.contract import PluginError
from rack.plugins.talos import yamltext
from rack.plugins.talos.versions import LIBRARY, Contract
from rack.world.machine_config_structure import MAIN, Field, kinds, parts

Document = dict[str, Any]

MAIN_KEYS: Final = ("machine", "cluster", "debug", "persist")
"""Any of these makes a document without a kind the main one."""
COMMON_KEYS: Final = frozenset({"apiVersion", "kind"})
UNKNOWN_KEY: Final = "unknown keys found during decoding"
WRONG_TYPE: Final = "cannot unmarshal a value of this type into"
MINOR: Final = (Contract.parse(LIBRARY).major, Contract.parse(LIBRARY).minor)
"""What is newer than the plugin's own Talos is unknown to it, whatever the machine runs."""
SCALARS: Final[Mapping[str, tuple[type, ...]]] = {
    # A word such as `yes` is a boolean where Talos wants one.
    "bool": (bool, str),
    "int": (int,),
}


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
    if "kind" not in document:
        _require_main(document, origin)
        body, name = document, MAIN
    elif "apiVersion" not in document:
        raise PluginError(
            f"{origin}: missing apiVersion in the document of kind {document['kind']}"
        )
    else:
        body = {key: value for key, value in document.items() if key not in COMMON_KEYS}
        name = str(document["kind"])
    kind = kinds().get(name)
    if kind is None or kind.since > MINOR:
        raise PluginError(f"{origin}: {name!r} {document.get('apiVersion')!r}: not registered")
    problems = list(_body_problems(body, kind.fields, ""))
    for what in (UNKNOWN_KEY, WRONG_TYPE):
        if paths := [path for path, problem in problems if problem == what]:
            raise PluginError(f"{origin}: {what}: {', '.join(paths)}")


def _require_main(document: Mapping[str, Any], origin: str) -> None:
    if document.get("version") != "v1alpha1" and not any(key in document for key in MAIN_KEYS):
        raise PluginError(
            f"{origin}: missing kind: a document begins with machine or cluster, or names its "
            "apiVersion and kind"
        )


def _body_problems(
    body: Mapping[str, Any], fields: Mapping[str, Field], path: str
) -> Iterator[tuple[str, str]]:
    """Find the paths of unknown keys and of values that their keys cannot hold."""
    for name, value in body.items():
        below = f"{path}.{name}" if path else str(name)
        field = fields.get(name)
        if field is None or field.since > MINOR:
            yield below, UNKNOWN_KEY
        else:
            yield from _value_problems(value, field.type, below)


def _value_problems(value: Any, kind: str, path: str) -> Iterator[tuple[str, str]]:
    if value is None or kind == "any":
        return
    if not isinstance(value, _shape(kind)):
        yield path, WRONG_TYPE
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _value_problems(item, kind[1:-1], f"{path}[{index}]")
    elif kind in parts() and isinstance(value, dict):
        yield from _body_problems(value, parts()[kind], path)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _value_problems(item, kind[1:-1], f"{path}.{name}")


def _shape(kind: str) -> tuple[type, ...]:
    """Return the Python types of values that Talos reads into a type."""
    if kind.startswith("["):
        return (list,)
    if kind.startswith("{") or kind in parts():
        return (dict,)
    return SCALARS.get(kind, (str, int, float, bool))
