"""Configuration patches: what `configPatches` may hold, and how it changes a configuration.

A patch is a strategic merge of documents (with `$patch: delete`) or a list of JSON Patch
operations; what a text is, is tried in that order. Everything is read strictly: an unknown key is
an error that names it (pkg/machinery/config/configpatcher of Talos 1.13.0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rack.plugins.contract import PluginError
from rack.plugins.talos import documents, jsonpatch, yamltext
from rack.plugins.talos.documents import Document, identity
from rack.plugins.talos.merge import merge

DELETE: Final = ("$patch", "delete")


@dataclass(frozen=True)
class Strategic:
    """Documents to merge, and what to take out of existing ones."""

    origin: str
    documents: tuple[Document, ...]
    deletions: tuple[Deletion, ...]


@dataclass(frozen=True)
class Deletion:
    """What `$patch: delete` marks: a document (no path), a key, or list elements.

    `selector` is the property that tells the list elements apart.
    """

    target: tuple[str, str, str]
    path: tuple[str, ...]
    selector: tuple[str, Any] | None = None


@dataclass(frozen=True)
class Operations:
    """JSON Patch operations; they know a single document only."""

    origin: str
    operations: tuple[Mapping[str, Any], ...]


Patch = Strategic | Operations


def load(texts: Sequence[str]) -> list[Patch]:
    """Read patches, each a literal text or `@FILE`.

    Raises `PluginError`: naming the patch by its position, and what is wrong with it.
    """
    return [_load(text, f"configPatches[{index}]") for index, text in enumerate(texts)]


def apply(configuration: Sequence[Document], patches: Sequence[Patch]) -> list[Document]:
    """Apply patches in order and return the new documents.

    Raises `PluginError`: a patch does not apply, or leaves a configuration that Talos cannot read.
    """
    result = list(configuration)
    for patch in patches:
        if isinstance(patch, Operations):
            result = [_operate(result, patch)]
        else:
            result = _merge(result, patch)
    return result


def apply_to_text(configuration: str, texts: Sequence[str]) -> str:
    """Apply the patches `texts` to a configuration's text; without any it stays as it is."""
    if not texts:
        return configuration
    read = documents.read(configuration, "machineConfigurationInput")
    return yamltext.dump(apply(read, load(texts)))


def _load(text: str, origin: str) -> Patch:
    if _names_a_file(text):
        text = _read_file(text.removeprefix("@"), origin)
    try:
        found = yamltext.load(text)
    except yamltext.InvalidYamlError as error:
        raise PluginError(f"{origin}: {error}") from None
    if len(found) == 1 and isinstance(found[0], list):
        if not all(isinstance(item, dict) for item in found[0]):
            raise PluginError(f"{origin}: a JSON patch is a list of operations")
        return Operations(origin, tuple(found[0]))
    deletions: list[Deletion] = []
    kept = []
    for document in found:
        documents.require_mapping(document, origin)
        if (rest := _without_deletions(document, identity(document), (), deletions)) is not None:
            documents.check(rest, origin)
            kept.append(rest)
    return Strategic(origin, tuple(kept), tuple(deletions))


def _names_a_file(text: str) -> bool:
    # A literal patch has a space or a line break, or begins with a bracket: Talos' own guess.
    literal = any(mark in text for mark in "\n ") or text.startswith(("[", "{"))
    return text.startswith("@") or not literal


def _read_file(name: str, origin: str) -> str:
    try:
        return Path(name).read_text()
    except OSError as error:
        raise PluginError(
            f"{origin}: taken for a file name, as it has neither a space nor a line break: "
            f"open {name}: {error.strerror}"
        ) from None


def _without_deletions(
    value: Any, target: tuple[str, str, str], path: tuple[str, ...], deletions: list[Deletion]
) -> Any:
    """Return `value` without what `$patch: delete` marks, or None when nothing is left of it."""
    if isinstance(value, list):
        return _list_without_deletions(value, target, path, deletions)
    if not isinstance(value, dict):
        return value
    if (DELETE[0], value.get(DELETE[0])) == DELETE:
        deletions.append(Deletion(target, path))
        return None
    kept = {}
    for name, item in value.items():
        rest = _without_deletions(item, target, (*path, str(name)), deletions)
        if rest is not None or item is None:
            kept[name] = rest
    emptied = len(kept) < len(value) and not (kept.keys() - {"apiVersion", "kind", "name"})
    return None if emptied else kept


def _list_without_deletions(
    items: list[Any],
    target: tuple[str, str, str],
    path: tuple[str, ...],
    deletions: list[Deletion],
) -> list[Any] | None:
    kept = []
    for item in items:
        if isinstance(item, dict) and (DELETE[0], item.get(DELETE[0])) == DELETE:
            selector = next(((k, v) for k, v in item.items() if k != DELETE[0]), None)
            deletions.append(Deletion(target, path, selector))
        else:
            kept.append(item)
    return kept if kept or not items else None


def _merge(configuration: Sequence[Document], patch: Strategic) -> list[Document]:
    result = list(configuration)
    for deletion in patch.deletions:
        result = _delete(result, deletion, patch.origin)
    for document in patch.documents:
        index = next((i for i, d in enumerate(result) if identity(d) == identity(document)), None)
        if index is None:
            result.append(deepcopy(document))
        else:
            result[index] = merge(str(document.get("kind", "")), result[index], document)
    return result


def _delete(configuration: list[Document], deletion: Deletion, origin: str) -> list[Document]:
    result = []
    for document in configuration:
        if identity(document) != deletion.target:
            result.append(document)
        elif deletion.path:
            result.append(_delete_path(document, deletion, origin))
    return result


def _delete_path(document: Document, deletion: Deletion, origin: str) -> Document:
    changed = deepcopy(document)
    place: Any = changed
    for name in deletion.path[:-1]:
        place = place.get(name) if isinstance(place, dict) else None
    last = deletion.path[-1]
    if not isinstance(place, dict) or last not in place:
        raise PluginError(
            f"{origin}: failed to delete path {'.'.join(deletion.path)!r}: it is not there"
        )
    if deletion.selector is None:
        del place[last]
    else:
        name, value = deletion.selector
        place[last] = [item for item in place[last] if item.get(name) != value]
    return changed


def _operate(configuration: Sequence[Document], patch: Operations) -> Document:
    if len(configuration) != 1:
        raise PluginError(
            f"{patch.origin}: JSON6902 patches are not supported for multi-document machine "
            "configuration; from Talos 1.12 on every generated configuration is one. Write a "
            "strategic merge patch instead"
        )
    try:
        changed = jsonpatch.apply(configuration[0], patch.operations)
    except jsonpatch.PatchError as error:
        raise PluginError(f"{patch.origin}: {error}") from None
    documents.require_mapping(changed, patch.origin)
    documents.check(changed, patch.origin)
    return dict(changed)
