"""`ls`, as in coreutils, on the pod's filesystem. Patterns are a shell's work, not its own."""

from __future__ import annotations

import posixpath
from typing import Final

from rack.programs.process import Main, Process
from rack.world.filetree import Entry

_KNOWN: Final = frozenset("1aAlLdFhrtR")
_MODES: Final = {
    "folder": "drwxr-xr-x",
    "link": "lrwxrwxrwx",
    "device": "crw-rw-rw-",
    "program": "-rwxr-xr-x",
    "file": "-rw-r--r--",
}
_TROUBLE: Final = 2


def ls(process: Process) -> int:
    """List files first, then folders; 2 where a named one is missing."""
    options, names = _options(process)
    if unknown := options - _KNOWN:
        process.complain(f"invalid option -- '{min(unknown)}'")
        return _TROUBLE
    if "R" in options:
        return process.refuse("-R")
    status = 0
    files: list[str] = []
    folders: list[str] = []
    for name in names or ["."]:
        entry = process.find(name, follow="l" not in options)
        if entry is None:
            process.complain(f"cannot access '{name}': No such file or directory")
            status = _TROUBLE
        elif entry.kind == "folder" and "d" not in options:
            folders.append(name)
        else:
            files.append(name)
    for name in sorted(files):
        process.say(_line(process, name, name, options))
    for index, folder in enumerate(sorted(folders)):
        if len(names) > 1:
            process.say(f"{chr(10) if index or files else ''}{folder}:")
        for child in _children(process, folder, options):
            process.say(_line(process, posixpath.join(folder, child), child, options))
    return status


def _options(process: Process) -> tuple[set[str], list[str]]:
    options: set[str] = set()
    names: list[str] = []
    for arg in process.args:
        if arg.startswith("--"):
            continue  # long ones change colours and widths
        if arg.startswith("-") and arg != "-":
            options |= set(arg[1:])
        else:
            names.append(arg)
    return options, names


def _children(process: Process, folder: str, options: set[str]) -> list[str]:
    names = process.container.tree.children(process.path(folder))
    if "a" in options:
        return [".", "..", *names]
    return names if "A" in options else [name for name in names if not name.startswith(".")]


def _line(process: Process, path: str, shown: str, options: set[str]) -> str:
    entry = process.find(path, follow="L" in options)
    if entry is None:
        return shown
    mark = _mark(entry) if "F" in options else ""
    if "l" not in options:
        return shown + mark
    target = f" -> {entry.text}" if entry.kind == "link" else ""
    size = len(entry.text.encode())
    return f"{_MODES[entry.kind]} 1 root root {size:>8} Jan  1 00:00 {shown}{mark}{target}"


def _mark(entry: Entry) -> str:
    return {"folder": "/", "link": "@", "program": "*"}.get(entry.kind, "")


PROGRAMS: Final[dict[str, Main]] = {"ls": ls}
