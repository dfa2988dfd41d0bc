"""Starts a program of the pod by its name, as a container runtime does: no shell in between."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rack.programs.container import Container, NoContainerError, load, of_pod
from rack.programs.process import Main, Process, empty

_MODULES: Final[dict[str, str]] = {
    "nvidia-smi": "nvidia_smi",
    "python": "python",
    "python3": "python",
    "ls": "ls",
    "sh": "shell",
    "bash": "shell",
    "ldconfig": "ldconfig",
    **dict.fromkeys(("cat", "cut", "grep", "head", "sort", "tail", "tr", "uniq", "wc"), "text"),
    **dict.fromkeys(("[", "test"), "condition"),
}
"""Module of each program; every other one is in `simple`."""
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126


def program(container: Container, name: str, path_variable: str) -> Main | int:
    """A program by its name; or the exit status where it cannot run."""
    path = container.tree.program(name, path_variable)
    if path is None:
        return NOT_FOUND
    plain = path.rpartition("/")[2]
    is_injected = plain.startswith("nvidia-")
    if is_injected and container.image["libc"] != "glibc":
        # Its loader is not there, and the kernel reports that as a missing file.
        return NOT_EXECUTABLE
    return by_name(plain)


def by_name(name: str) -> Main:
    """A program of the rack; every program that an image may have is one."""
    module = importlib.import_module(f"rack.programs.{_MODULES.get(name, 'simple')}")
    found: Main = module.PROGRAMS.get(name, _nothing)
    return found


def _nothing(process: Process) -> int:
    return process.refuse("this program")


def run(process: Process) -> int:
    """Run a process to its end and return its exit status."""
    name = process.argv[0]
    found = program(process.container, name, process.env.get("PATH", ""))
    if isinstance(found, int):
        process.err.write(_missing(name, found))
        return found
    try:
        return found(process)
    except BrokenPipeError:
        return 141


def _missing(name: str, status: int) -> str:
    if status == NOT_EXECUTABLE:
        return f"exec {name}: no such file or directory\n"
    if "/" in name:
        return f'exec: "{name}": stat {name}: no such file or directory\n'
    return f'exec: "{name}": executable file not found in $PATH\n'


def run_command(pod: Mapping[str, Any], container: str, argv: Sequence[str]) -> tuple[int, str]:
    """Run a container's own command: its exit status, and what it wrote to both streams.

    Args:
        pod: the pod's view as JSON.
        container: name of the container.
        argv: the command with its arguments.

    """
    found = of_pod(pod, container)
    written = io.StringIO()
    env = dict(found.env)
    status = run(Process(found, list(argv), env, stdin=empty(), out=written, err=written))
    return status, written.getvalue()


def main(argv: list[str]) -> int:
    """Run a program for `kubectl exec`; `argv` begins with its name."""
    try:
        container = load()
    except NoContainerError as error:
        sys.stderr.write(f"{error}\n")
        return NOT_EXECUTABLE
    return run(Process(container, argv, dict(container.env)))
