"""JSON Patch (RFC 6902) on a configuration document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

Operation = Mapping[str, Any]


class PatchError(ValueError):
    """An operation that cannot be applied; the message names operation and path, no values."""


def apply(document: Any, operations: Sequence[Operation]) -> Any:
    """Return a patched copy of `document`.

    Raises `PatchError`: an operation is malformed, its path is missing, or a test fails.
    """
    result = deepcopy(document)
    for operation in operations:
        name, path = operation.get("op"), operation.get("path")
        run = OPERATIONS.get(str(name))
        if run is None or not isinstance(path, str):
            known = ", ".join(OPERATIONS)
            raise PatchError(f"an operation needs `path` and `op`, one of {known}")
        try:
            result = run(result, operation)
        except (KeyError, IndexError, ValueError, TypeError):
            raise PatchError(f"{name} operation does not apply at {path}") from None
    return result


def _add(document: Any, operation: Operation) -> Any:
    return _put(document, _tokens(operation["path"]), deepcopy(operation["value"]), replace=False)


def _remove(document: Any, operation: Operation) -> Any:
    *way, last = _tokens(operation["path"])
    parent = _find(document, way)
    del parent[_key(parent, last)]
    return document


def _replace(document: Any, operation: Operation) -> Any:
    _find(document, _tokens(operation["path"]))
    return _put(document, _tokens(operation["path"]), deepcopy(operation["value"]), replace=True)


def _move(document: Any, operation: Operation) -> Any:
    value = _find(document, _tokens(operation["from"]))
    document = _remove(document, {"path": operation["from"]})
    return _put(document, _tokens(operation["path"]), value, replace=False)


def _copy(document: Any, operation: Operation) -> Any:
    value = deepcopy(_find(document, _tokens(operation["from"])))
    return _put(document, _tokens(operation["path"]), value, replace=False)


def _test(document: Any, operation: Operation) -> Any:
    if _find(document, _tokens(operation["path"])) != operation["value"]:
        raise ValueError("differs")
    return document


OPERATIONS: Final[Mapping[str, Callable[[Any, Operation], Any]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _tokens(pointer: str) -> list[str]:
    """Split a JSON pointer (RFC 6901)."""
    if pointer == "":
        return []
    if not pointer.startswith("/"):
        raise ValueError("a pointer starts with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]


def _find(document: Any, way: Sequence[str]) -> Any:
    for token in way:
        document = document[_key(document, token)]
    return document


def _put(document: Any, way: Sequence[str], value: Any, *, replace: bool) -> Any:
    if not way:
        return value
    parent = _find(document, way[:-1])
    if isinstance(parent, list) and not replace:
        index = len(parent) if way[-1] == "-" else int(way[-1])
        if not 0 <= index <= len(parent):
            raise IndexError(index)
        parent.insert(index, value)
    else:
        parent[_key(parent, way[-1])] = value
    return document


def _key(parent: Any, token: str) -> str | int:
    if isinstance(parent, list):
        index = int(token)
        if index < 0:
            raise IndexError(index)
        return index
    if not isinstance(parent, dict):
        raise TypeError("neither an object nor a list")
    return token
