"""Reads toolchain.toml: which programs, which versions, where they come from."""

from __future__ import annotations

import platform
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class ToolError(Exception):
    """A program cannot be had; the text says what to do."""


@dataclass(frozen=True)
class Download:
    """A vendor's release: an asset of a GitHub release, or one URL per program."""

    repository: str = ""
    tag: str = ""
    asset: str = ""
    url: str = ""
    checksum: str = ""
    arch: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ModuleFile:
    """A file that a Go module carries beside its packages."""

    module: str
    version: str
    path: str


@dataclass(frozen=True)
class Build:
    """Packages of one of the modules in tools/go; minutes on two cores with nothing cached."""

    module: str
    packages: tuple[str, ...]
    minutes: int
    define: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """One entry of toolchain.toml: programs that come together."""

    key: str
    title: str
    version: str
    programs: tuple[str, ...]
    download: Download
    build: Build
    files: tuple[ModuleFile, ...]
    minimum: str
    exact: bool
    show_version: tuple[str, ...]

    def text(self, template: str, program: str = "") -> str:
        """Fill version, operating system and architecture into a template."""
        arch = architecture()
        return template.format(
            version=self.version,
            os=operating_system(),
            arch=self.download.arch.get(arch, arch),
            program=program,
        )


@dataclass(frozen=True)
class MachineProgram:
    """A program that the machine itself has to bring."""

    program: str
    needed_for: str
    debian: str
    macos: str


def operating_system() -> str:
    """`linux` or `darwin`; anything else is refused."""
    name = platform.system().lower()
    if name not in ("linux", "darwin"):
        raise ToolError(
            f"{platform.system()} is not supported: use Linux or macOS (WSL 2 is Linux)."
        )
    return name


def architecture() -> str:
    """`amd64` or `arm64`; anything else is refused."""
    machine = platform.machine().lower()
    if machine not in ARCHITECTURES:
        raise ToolError(f"the processor {machine} is not supported: use x86-64 or arm64.")
    return ARCHITECTURES[machine]


def _source(key: str, entry: dict[str, Any]) -> Source:
    build = entry["build"]
    return Source(
        key=key,
        title=entry["title"],
        version=entry["version"],
        programs=tuple(entry["programs"]),
        download=Download(**entry["download"]),
        build=Build(**{**build, "packages": tuple(build["packages"])}),
        files=tuple(ModuleFile(**file) for file in entry.get("build-file", ())),
        minimum=entry.get("minimum", entry["version"]),
        exact=entry.get("exact", False),
        show_version=tuple(entry.get("show-version", ())),
    )


def load() -> tuple[list[Source], list[MachineProgram]]:
    """Every program of the project, and what the machine has to bring, in the file's order."""
    document = tomllib.loads((HERE / "toolchain.toml").read_text())
    sources = [_source(key, entry) for key, entry in document["source"].items()]
    machine = [
        MachineProgram(entry["program"], entry["needed-for"], entry["debian"], entry["macos"])
        for entry in document["machine"]
    ]
    return sources, machine
