"""The environment of a shell that runs Pulumi here: programs, state and passphrase.

Printed as shell text, so that `eval` takes it. A secret is never in it, only the name
of the file that holds it.
"""

from __future__ import annotations

import os
import secrets
import shlex
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent
STATE = CHECKOUT / ".state"
PASSPHRASE = STATE / "passphrase"

LOCAL_STATE_SWITCHES = {
    # A new clone of a stack finds how its secrets are encrypted in the state, not in the file.
    "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",
    "PULUMI_SKIP_UPDATE_CHECK": "true",
}


def _own_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)


def _passphrase_file() -> Path:
    """The file with this checkout's passphrase, made at first use; only the owner reads it."""
    _own_folder(STATE)
    try:
        handle = os.open(PASSPHRASE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return PASSPHRASE
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_urlsafe(32))
    return PASSPHRASE


def variables() -> dict[str, str]:
    """Pulumi's variables; what the user has set already stays as it is."""
    wanted = dict(LOCAL_STATE_SWITCHES)
    if "PULUMI_BACKEND_URL" not in os.environ and "PULUMI_ACCESS_TOKEN" not in os.environ:
        _own_folder(STATE)
        _own_folder(STATE / "pulumi")
        wanted["PULUMI_BACKEND_URL"] = f"file://{STATE / 'pulumi'}"
    if not {"PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"} & set(os.environ):
        wanted["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(_passphrase_file())
    return wanted


def shell_text() -> str:
    """The `export` lines."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables().items()]
    first = shlex.quote(f"{CHECKOUT / '.venv' / 'bin'}:{CHECKOUT / '.tools' / 'bin'}")
    lines.append(f'case ":$PATH:" in *:{first}:*) ;; *) export PATH={first}:"$PATH" ;; esac')
    return "\n".join(lines)
