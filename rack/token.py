"""The API token that a rack makes for its clients: one line in a file of its home."""

from __future__ import annotations

import os
import uuid
from typing import Final

from rack.files import private_folder
from rack.settings import Settings

TOKEN_ID: Final = "pulumi@pve!gpu-passthrough"  # noqa: S105 - its name, not its secret


def read_token(settings: Settings) -> str:
    """Return `USER@REALM!NAME=UUID`, made at first use; only the owner can read the file."""
    private_folder(settings.home)
    try:
        handle = os.open(settings.token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return settings.token_file.read_text(encoding="utf-8").strip()
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f"{TOKEN_ID}={uuid.uuid4()}\n")
    return settings.token_file.read_text(encoding="utf-8").strip()
