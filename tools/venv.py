"""Makes .venv: a link to a virtual environment in the tool cache, one per set of requirements.

Runs with the machine's own python3 and nothing else, because nothing else is there yet.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent
REQUIREMENTS = ("requirements.txt", "requirements-dev.txt", "constraints.txt")
OLDEST = (3, 11)
DONE = ".complete"


BASE = getattr(sys, "_base_executable", sys.executable)
"""The machine's own interpreter, also where a virtual environment's runs this: with .venv on PATH
`python3` is the one that was made here before."""


def _key() -> str:
    digest = hashlib.sha256(sys.version.encode() + sys.base_prefix.encode())
    for name in REQUIREMENTS:
        digest.update((CHECKOUT / name).read_bytes())
    return f"python{sys.version_info.major}.{sys.version_info.minor}-{digest.hexdigest()[:16]}"


def _install(folder: Path) -> None:
    print("Installing the Python packages … (about a minute, once)", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([BASE, "-m", "venv", str(folder)], check=True)
    subprocess.run(
        [
            str(folder / "bin" / "python"),
            *("-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--requirement", str(CHECKOUT / "requirements-dev.txt")),
            *("--constraint", str(CHECKOUT / "constraints.txt")),
        ],
        check=True,
    )
    (folder / DONE).touch()


def main() -> int:
    """Install what the requirements name, where it is not installed yet, and link it."""
    if sys.version_info < OLDEST:
        print(
            f"error: Python 3.11 or newer is needed; this is {sys.version.split()[0]}.\n"
            "  Debian, Ubuntu: apt-get install python3 python3-venv\n"
            "  macOS:          brew install python",
            file=sys.stderr,
        )
        return 1
    from tools import cache

    folder = cache.root() / "python" / _key()
    link = CHECKOUT / ".venv"
    try:
        if not (folder / DONE).exists():
            with cache.lock():
                if not (folder / DONE).exists():
                    _install(folder)
    except subprocess.CalledProcessError:
        print(
            "error: the Python packages could not be installed; pip's own words are above.\n"
            "  On Debian and Ubuntu, apt-get install python3-venv brings what venv needs.",
            file=sys.stderr,
        )
        return 1
    if not (link.is_symlink() and link.readlink() == folder):
        if link.is_symlink():
            link.unlink()
        elif link.exists():
            shutil.rmtree(link)
        link.symlink_to(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
