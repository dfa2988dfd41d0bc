"""Finds every program: on PATH, in the cache, in the vendor's release, or by building it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools import build, cache, download
from tools.progress import Step, say
from tools.sources import MachineProgram, Source, load, operating_system

BIN = Path(__file__).parent.parent / ".tools" / "bin"
"""Links to the resolved programs; this folder goes on PATH."""


@dataclass(frozen=True)
class Resolved:
    """A source whose programs are there, and where they were found."""

    source: Source
    origin: str
    programs: dict[str, Path]


def _outside(name: str) -> str | None:
    """A program on PATH, without what an earlier run linked."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    path = os.pathsep.join(folder for folder in folders if Path(folder) != BIN)
    return shutil.which(name, path=path)


def usable(source: Source, shown: str) -> bool:
    """Whether the version that a program on PATH shows will do."""
    found = re.search(r"\d+\.\d+\.\d+", shown)
    if not found:
        return False

    def number(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split("."))

    if source.exact:
        return number(found.group()) == number(source.version)
    return number(found.group()) >= number(source.minimum)


def on_path(source: Source) -> Resolved | None:
    """The programs on PATH, where all are there at a usable version."""
    paths = {name: _outside(name) for name in source.programs}
    if not all(paths.values()):
        return None
    found = {name: Path(path) for name, path in paths.items() if path}
    if source.show_version:
        command = [str(found[source.programs[0]]), *source.show_version]
        shown = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        if not usable(source, shown.stdout + shown.stderr):
            return None
    return Resolved(source, "on PATH", found)


def cached(source: Source) -> Resolved | None:
    """The programs in the cache, where the entry is whole; a broken one is named."""
    entry = cache.Entry.of(source)
    problem = entry.problem(source.programs)
    if problem == "absent":
        return None
    if problem:
        say(f"The cached {source.title} is broken ({problem}): it is made anew.")
        return None
    programs = {name: entry.program(name) for name in source.programs}
    return Resolved(source, f"in the cache, {entry.origin()}", programs)


def _download(missing: list[Source]) -> list[Source]:
    """Fetch vendors' releases into the cache; returns the sources that have none here."""
    refused: dict[str, list[Source]] = {}
    for source in missing:
        try:
            with Step(f"Looking for {source.title} {source.version} at its vendor's"):
                cache.Entry.of(source).fill(partial(download.fetch, source))
        except download.NotOfferedError as refusal:
            refused.setdefault(str(refusal), []).append(source)
    for reason, sources in refused.items():
        say(f"Not downloaded: {', '.join(source.title for source in sources)} ({reason}).")
    return [source for source in missing if any(source in sources for sources in refused.values())]


def _build(source: Source, rest: list[Source]) -> None:
    left = sum(other.build.minutes for other in rest)
    names = f"{len(rest)} more, about {left} min" if rest else ""
    with Step(f"Building {source.title} {source.version}", source.build.minutes * 60, names):
        cache.Entry.of(source).fill(partial(build.build, source))


def _make(missing: list[Source]) -> None:
    """Bring what is neither on PATH nor cached into the cache."""
    to_build = _download(missing)
    if not to_build:
        return
    build.check_go([source.title for source in to_build])
    minutes = sum(source.build.minutes for source in to_build)
    say(f"{len(to_build)} of the programs are built from Go modules, once: about {minutes} min.")
    for number, source in enumerate(to_build):
        _build(source, to_build[number + 1 :])


def link(resolved: list[Resolved]) -> None:
    """Put links to the programs into BIN, and nothing else."""
    BIN.mkdir(parents=True, exist_ok=True)
    wanted = {name: path for one in resolved for name, path in one.programs.items()}
    for present in BIN.iterdir():
        if present.name not in wanted:
            present.unlink()
    for name, path in wanted.items():
        place = BIN / name
        if not (place.is_symlink() and place.readlink() == path):
            place.unlink(missing_ok=True)
            place.symlink_to(path)


def resolve() -> list[Resolved]:
    """Make every program available, in the order of toolchain.toml.

    Raises ToolError with what to do where one cannot be had.
    """
    sources, _ = load()
    found = {source.key: on_path(source) or cached(source) for source in sources}
    missing = [source for source in sources if not found[source.key]]
    if missing:
        with cache.lock():
            # Another process may have made them while this one waited for the lock.
            _make([source for source in missing if not cached(source)])
        found.update({source.key: cached(source) for source in missing})
    resolved = [one for one in found.values() if one]
    link(resolved)
    return resolved


def missing_on_machine() -> list[MachineProgram]:
    """What the machine itself lacks."""
    _, machine = load()
    return [one for one in machine if not shutil.which(one.program)]


def how_to_get(one: MachineProgram) -> str:
    """One line that names a missing program, its use and the command that brings it."""
    command = one.macos if operating_system() == "darwin" else one.debian
    return f"{one.program} is missing: it is needed for {one.needed_for}. Get it by: {command}"
