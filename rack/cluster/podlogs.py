"""What containers have written: files in the format of container runtimes, one for each run."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path

from rack.files import private_folder, write_private
from rack.settings import Settings


def log_file(settings: Settings, uid: str, container: str, previous: bool = False) -> Path:
    """Where a container's log is, and that of its run before."""
    suffix = ".previous.log" if previous else ".log"
    return settings.home / "logs" / uid / f"{container}{suffix}"


def begin(settings: Settings, uid: str, container: str, lines: Iterable[str]) -> None:
    """Begin the log of a run; the one before becomes the previous."""
    file = log_file(settings, uid, container)
    private_folder(settings.home / "logs")
    private_folder(file.parent)
    if file.exists():
        file.replace(log_file(settings, uid, container, previous=True))
    write_private(file, "".join(map(_line, lines)))


def extend(settings: Settings, uid: str, container: str, lines: Iterable[str]) -> None:
    """Add what a run has written since."""
    with log_file(settings, uid, container).open("a") as file:
        file.writelines(map(_line, lines))


def _line(text: str) -> str:
    """A line as container runtimes write it."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return f"{now} stdout F {text}\n"


def keep_only(settings: Settings, uids: Collection[str]) -> None:
    """Remove the logs of pods that are gone."""
    folder = settings.home / "logs"
    for one in folder.iterdir() if folder.exists() else ():
        if one.name not in uids:
            shutil.rmtree(one, ignore_errors=True)
