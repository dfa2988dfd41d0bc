"""The tool cache: one folder per source and version, outside every checkout.

An entry appears whole or not at all, and carries a manifest by which a file that was
cut short or changed is noticed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.sources import Source, architecture, operating_system

MANIFEST = "manifest.json"


def root() -> Path:
    """`$GPU_PASSTHROUGH_CACHE`, or gpu-passthrough in the user's cache folder."""
    named = os.environ.get("GPU_PASSTHROUGH_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "gpu-passthrough"


def sha256(path: Path) -> str:
    """Checksum of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Entry:
    """Where the programs of one source are cached."""

    folder: Path

    @classmethod
    def of(cls, source: Source) -> Entry:
        """The entry of a source on this kind of machine."""
        kind = f"{operating_system()}-{architecture()}"
        return cls(root() / "tools" / kind / f"{source.key}-{source.version}")

    def problem(self, programs: tuple[str, ...]) -> str:
        """Why the entry cannot be used; empty where it can. Absent is a problem too."""
        try:
            manifest = json.loads((self.folder / MANIFEST).read_text())
        except FileNotFoundError:
            return "absent"
        except (OSError, ValueError):
            return "its manifest cannot be read"
        missing = [name for name in programs if name not in manifest["files"]]
        if missing:
            return f"it lacks {', '.join(missing)}"
        return next(filter(None, map(self._damage, manifest["files"].items())), "")

    def _damage(self, item: tuple[str, dict[str, object]]) -> str:
        name, known = item
        path = self.folder / name
        if not path.is_file():
            return f"{name} is missing"
        stat = path.stat()
        if (stat.st_size, stat.st_mtime_ns) == (known["size"], known["mtime"]):
            return ""
        return "" if sha256(path) == known["sha256"] else f"{name} was cut short or changed"

    def program(self, name: str) -> Path:
        """Path of a program of this entry."""
        return self.folder / name

    def fill(self, make: Callable[[Path], str]) -> None:
        """Let `make` put programs into a folder, which then becomes the entry.

        `make` returns where they came from; where it raises, the cache stays as it was.
        """
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder.parent))
        try:
            self._seal(work, make(work))
            shutil.rmtree(self.folder, ignore_errors=True)
            work.chmod(0o755)
            work.rename(self.folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    @staticmethod
    def _seal(work: Path, origin: str) -> None:
        files: dict[str, dict[str, object]] = {}
        for path in sorted(work.iterdir()):
            path.chmod(0o755)
            stat = path.stat()
            files[path.name] = {
                "size": stat.st_size,
                "mtime": stat.st_mtime_ns,
                "sha256": sha256(path),
            }
        (work / MANIFEST).write_text(json.dumps({"origin": origin, "files": files}, indent=1))

    def origin(self) -> str:
        """How the entry came about: a download's address, or a build from Go modules."""
        return str(json.loads((self.folder / MANIFEST).read_text())["origin"])


@contextmanager
def lock() -> Iterator[bool]:
    """Let one process at a time fill the cache; gives whether another one had to be awaited."""
    root().mkdir(parents=True, exist_ok=True)
    with (root() / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            waited = False
        except BlockingIOError:
            fcntl.flock(file, fcntl.LOCK_EX)
            waited = True
        yield waited
