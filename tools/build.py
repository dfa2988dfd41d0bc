"""Builds programs from Go modules, at the versions that the modules in tools/go pin."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from tools.sources import HERE, ModuleFile, Source, ToolError

GO_MISSING = """\
Go {needed} or newer is needed to build {titles}: they are not on PATH, not in the cache,
and the vendors' releases could not be downloaded.
  Debian, Ubuntu: the newest Go is at https://go.dev/dl (the distribution's is often older)
  macOS:          brew install go
Or put the programs themselves on PATH; tools/toolchain.toml says which and in what version."""


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def needed_go() -> str:
    """The newest Go version that one of the modules asks for."""
    found = []
    for module in HERE.glob("go/*/go.mod"):
        line = re.search(r"^go (\S+)$", module.read_text(), re.MULTILINE)
        if line:
            found.append(line.group(1))
    return max(found, key=_number)


def check_go(titles: list[str]) -> None:
    """Refuse at once, with how to get it, where Go is missing or too old."""
    missing = ToolError(GO_MISSING.format(needed=needed_go(), titles=", ".join(titles)))
    if not shutil.which("go"):
        raise missing
    shown = subprocess.run(["go", "version"], capture_output=True, text=True, check=False).stdout
    if _number(shown.partition("go version ")[2]) < _number(needed_go()):
        raise ToolError(f"{missing}\nFound: {shown.strip()}")


def _run(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        tail = "\n".join(done.stderr.strip().splitlines()[-15:])
        hint = (
            "\nThe disk is full: the builds need about 15 GiB for Go's own cache "
            "(`go clean -cache` empties it afterwards)."
            if "no space left" in done.stderr
            else ""
        )
        raise ToolError(f"{' '.join(command[:2])} failed in {folder}:\n{tail}{hint}")
    return done.stdout


def _module_file(file: ModuleFile, target: Path) -> None:
    """Copy a file out of a module, without the module becoming part of a build."""
    answer = json.loads(
        _run(["go", "mod", "download", "-json", f"{file.module}@{file.version}"], HERE)
    )
    shutil.copyfile(Path(answer["Dir"]) / file.path, target / Path(file.path).name)


def build(source: Source, target: Path) -> str:
    """Put the programs of a source into `target`; returns how they were made."""
    flags = ["-s", "-w"]
    for name, value in source.build.define.items():
        flags += ["-X", f"{name}={source.text(value)}"]
    folder = HERE / "go" / source.build.module
    command = ["go", "build", "-trimpath", "-mod=readonly", "-ldflags", " ".join(flags)]
    _run([*command, "-o", f"{target}{os.sep}", *source.build.packages], folder)
    for file in source.files:
        _module_file(file, target)
    for name, program in source.build.links.items():
        os.link(target / program, target / name)
    return f"built from Go modules ({', '.join(source.build.packages)})"
