"""Files of the rack's home: complete or not there, and readable by their owner only."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


class DamagedFileError(Exception):
    """A file of the home cannot be understood."""


def private_folder(folder: Path) -> Path:
    """Make a folder that only its owner can enter."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def write_private(path: Path, content: str | bytes) -> None:
    """Replace a file at once: a reader sees the old content or the new, never a part.

    Raises:
        OSError: the disk is full or the folder cannot be written; the old file is as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
