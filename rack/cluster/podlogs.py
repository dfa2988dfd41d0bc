"""What containers have written, in files of the format that container runtimes use."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rack.files import private_folder


def pod_folder(home: Path, pod: Mapping[str, Any]) -> Path:
    """Folder of a pod's logs, named as a kubelet names it."""
    meta = pod["metadata"]
    return home / f"{meta['namespace']}_{meta['name']}_{meta['uid']}"


def log_file(home: Path, pod: Mapping[str, Any], container: str, number: int) -> Path:
    """Log of one run of a container."""
    return pod_folder(home, pod) / container / f"{number}.log"


class PodLogs:
    """The logs of all pods below one folder."""

    def __init__(self, home: Path) -> None:
        self._home = private_folder(home)
        self._written: dict[Path, int] = {}
        """Lines of each run that are in its file already."""

    def write(
        self,
        pod: Mapping[str, Any],
        container: str,
        number: int,
        lines: Sequence[str],
        at: float,
    ) -> None:
        """Bring a run's log to these lines; what is there already stays."""
        file = log_file(self._home, pod, container, number)
        if file not in self._written:
            private_folder(file.parent)
            self._written[file] = len(entries(file))
        fresh = lines[self._written[file] :]
        if not fresh and file.exists():
            return
        moment = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        with file.open("a", encoding="utf-8") as log:
            log.writelines(f"{moment} stdout F {line}\n" for line in fresh)
        self._written[file] += len(fresh)

    def keep_only(self, pods: Collection[Mapping[str, Any]]) -> None:
        """Remove the logs of pods that do not exist any more."""
        kept = {pod_folder(self._home, pod) for pod in pods}
        for folder in self._home.iterdir():
            if folder not in kept:
                shutil.rmtree(folder, ignore_errors=True)
        self._written = {file: n for file, n in self._written.items() if file.parents[1] in kept}


def entries(file: Path) -> list[tuple[str, str]]:
    """Time and text of each line of a log; none where there is no such file."""
    return list(_entries(file))


def _entries(file: Path) -> Iterator[tuple[str, str]]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    for line in text.splitlines():
        moment, _, rest = line.partition(" ")
        yield moment, rest.split(" ", 2)[2]
