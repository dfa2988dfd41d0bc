"""Finding things in a container's filesystem: paths, links, folders, patterns."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol


class Entry(Protocol):
    """One thing in a filesystem, as podview.FileView is one."""

    @property
    def kind(self) -> str:
        """file, program, folder, link or device."""

    @property
    def text(self) -> str:
        """Content of a file, target of a link."""


@dataclass(frozen=True)
class File:
    """An entry without pydantic: programs in pods start faster without it."""

    kind: str
    text: str = ""


_FOLDER: Final = File("folder")
_MAX_LINKS: Final = 40
"""As Linux: more links in a row than these are a loop."""


class FileTree:
    """A filesystem of which only the leaves were given; folders follow from their paths."""

    def __init__(self, files: Mapping[str, Entry]) -> None:
        self._files: dict[str, Entry] = {"/": _FOLDER, **files}
        for path in files:
            while (path := posixpath.dirname(path)) != "/":
                self._files.setdefault(path, _FOLDER)

    def real_path(self, path: str, *, follow: bool = True) -> str | None:
        """The path without links; None where there is nothing. `follow`: the last link too."""
        return self._walk(path, follow, _MAX_LINKS)

    def _walk(self, path: str, follow: bool, links: int) -> str | None:
        parts = [part for part in path.split("/") if part not in ("", ".")]
        at = "/"
        for index, part in enumerate(parts):
            at = posixpath.dirname(at) if part == ".." else posixpath.join(at, part)
            found = self._files.get(at)
            if found is None:
                return None
            is_last = index == len(parts) - 1
            if found.kind == "link" and (follow or not is_last):
                if links == 0:
                    return None
                rest = posixpath.join(posixpath.dirname(at), found.text, *parts[index + 1 :])
                return self._walk(rest, follow, links - 1)
            if found.kind != "folder" and not is_last:
                return None
        return at

    def get(self, path: str, *, follow: bool = True) -> Entry | None:
        """What is at a path; None where there is nothing."""
        real = self.real_path(path, follow=follow)
        return None if real is None else self._files[real]

    def put(self, path: str, entry: Entry) -> None:
        """Add or replace a thing; the folder that it is in exists."""
        parent, name = posixpath.split(path)
        self._files[posixpath.join(self.real_path(parent) or parent, name)] = entry

    def children(self, path: str) -> list[str]:
        """Names in a folder, sorted; empty for anything else."""
        real = self.real_path(path)
        if real is None:
            return []
        return sorted(
            posixpath.basename(one)
            for one in self._files
            if one != "/" and posixpath.dirname(one) == real
        )

    def glob(self, pattern: str) -> list[str]:
        """Paths that a shell's pattern stands for, sorted; hidden names only for `.`."""
        found = ["/"] if pattern.startswith("/") else [""]
        for part in (one for one in pattern.split("/") if one):
            found = [match for base in found for match in self._matches(base, part)]
        return sorted(found)

    def _matches(self, base: str, part: str) -> list[str]:
        if not any(mark in part for mark in "*?["):
            path = posixpath.join(base, part)
            return [path] if self.get(path, follow=False) is not None else []
        return [
            posixpath.join(base, name)
            for name in self.children(base or "/")
            if fnmatch.fnmatchcase(name, part) and name.startswith(".") <= part.startswith(".")
        ]

    def program(self, name: str, path_variable: str) -> str | None:
        """Where a program's name leads by PATH; None where there is no such program."""
        folders = [""] if "/" in name else path_variable.split(":")
        for folder in folders:
            found = self.get(posixpath.join(folder, name) if folder else name)
            if found is not None and found.kind == "program":
                return posixpath.join(folder, name) if folder else name
        return None
