"""Starting and stopping the daemon from another process."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import time
from typing import Final

import requests

from rack.files import private_folder
from rack.process import POLL_SECONDS, running_pid, wait_until_gone
from rack.settings import CHECKOUT, Settings

READY_SECONDS: Final = 30.0
STOP_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 5.0
SHOWN_LINES: Final = 15


class LaunchError(Exception):
    """The daemon did not start or stop; the message says why and what to do."""


def start(settings: Settings) -> bool:
    """Start the daemon and wait until it answers; False when it ran already.

    Raises:
        LaunchError: it cannot start, with what it said last.
    """
    if running_pid(settings) is not None:
        _await_other(settings)
        return False
    try:
        private_folder(settings.home)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        log = os.fdopen(os.open(settings.log_file, flags, 0o600), "ab")
    except OSError as error:
        raise LaunchError(
            f"cannot write the simulated rack's home {settings.home}: {error.strerror}. Make room"
            " or correct its permissions, or set RACK_HOME to another folder"
        ) from None
    begin = os.fstat(log.fileno()).st_size
    heard, said = os.pipe()
    with log:
        process = subprocess.Popen(
            [sys.executable, "-m", "rack", "serve", "--ready-descriptor", str(said)],
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[said],
            start_new_session=True,
        )
    os.close(said)
    try:
        return _await_ready(settings, process, heard, begin)
    finally:
        os.close(heard)


def _await_other(settings: Settings) -> None:
    """Wait until a daemon that somebody else started answers."""
    deadline = time.monotonic() + READY_SECONDS
    while about(settings) is None:
        if time.monotonic() > deadline:
            raise LaunchError(
                f"the simulated rack in {settings.home} runs but does not answer at"
                f" {settings.services_url}. Its log is {settings.log_file}; `python -m rack stop`"
                " ends it"
            )
        time.sleep(POLL_SECONDS)


def _await_ready(
    settings: Settings, process: subprocess.Popen[bytes], heard: int, begin: int
) -> bool:
    """Read what the daemon says through its pipe: a word when it is ready, nothing when it died.

    False when it died because another one was started at the same moment.
    """
    ready, _, _ = select.select([heard], [], [], READY_SECONDS)
    if ready and os.read(heard, 16):
        return True
    if not ready:
        process.terminate()
        raise LaunchError(
            f"the simulated rack did not answer within {READY_SECONDS:g} s and was ended."
            f" {_last_lines(settings, begin)}"
        )
    process.wait()
    if running_pid(settings) is None:
        raise LaunchError(f"the simulated rack did not start. {_last_lines(settings, begin)}")
    _await_other(settings)
    return False


def _last_lines(settings: Settings, begin: int) -> str:
    with settings.log_file.open("rb") as log:
        log.seek(begin)
        lines = log.read().decode(errors="replace").strip().splitlines()
    if not lines:
        return f"It said nothing in {settings.log_file}."
    return "\n".join([f"From {settings.log_file}:", *lines[-SHOWN_LINES:]])


def stop(settings: Settings) -> bool:
    """Stop the daemon and wait until it is gone; False when none ran.

    Raises:
        LaunchError: it is still there after a minute.
    """
    pid = running_pid(settings)
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return True
    if not wait_until_gone(pid, STOP_SECONDS):
        raise LaunchError(
            f"the simulated rack (process {pid}) did not stop within {STOP_SECONDS:g} s. Its log is"
            f" {settings.log_file}; `kill -9 {pid}` ends it, the world on disk stays as it is"
        )
    return True


def _ask(
    settings: Settings, method: str, path: str, body: list[str] | None = None
) -> requests.Response:
    with requests.Session() as session:
        # A proxy of the environment does not reach the loopback address of this machine.
        session.trust_env = False
        return session.request(
            method, settings.services_url + path, json=body, timeout=ANSWER_SECONDS
        )


def about(settings: Settings) -> dict[str, object] | None:
    """What the running rack says about itself; None where it does not answer."""
    try:
        answer = _ask(settings, "GET", "/rack")
        answer.raise_for_status()
        found: dict[str, object] = answer.json()
    except (requests.RequestException, ValueError):
        return None
    return found if found.get("simulated_rack") else None


def power_cycle(settings: Settings, host: str, *, guests: bool) -> None:
    """Cut a host's power and boot it; with guests, its VMs that have onboot start again.

    Raises:
        LaunchError: the rack does not run, or has no such host.
    """
    _command(settings, "POST", f"/rack/hosts/{host}/power-cycle?guests={guests:d}")


def faults(settings: Settings) -> dict[str, str]:
    """What is broken on purpose: arguments by fault.

    Raises:
        LaunchError: the rack does not run.
    """
    found: dict[str, str] = _command(settings, "GET", "/rack/faults").json()
    return found


def inject(settings: Settings, fault: str, arguments: list[str]) -> None:
    """Break something.

    Raises:
        LaunchError: the rack does not run, or it cannot be broken so.
    """
    _command(settings, "POST", f"/rack/faults/{fault}", arguments)


def clear(settings: Settings, fault: str) -> None:
    """Undo a fault, or all of them.

    Raises:
        LaunchError: the rack does not run, or knows no such fault.
    """
    _command(settings, "DELETE", f"/rack/faults/{fault}")


def _command(
    settings: Settings, method: str, path: str, body: list[str] | None = None
) -> requests.Response:
    try:
        answer = _ask(settings, method, path, body)
    except requests.RequestException:
        raise LaunchError(
            f"no simulated rack answers at {settings.services_url}; `python -m rack up` starts it"
        ) from None
    if not answer.ok:
        raise LaunchError(answer.json().get("error", f"HTTP {answer.status_code}"))
    return answer


def shell_environment(settings: Settings) -> str:
    """Lines for a shell: the plugins' folder, the token, the kubeconfig.

    The token itself is not in them: the shell reads it from its file.
    """
    plugins = shlex.quote(str(CHECKOUT / "rack" / "plugins" / "bin"))
    token = shlex.quote(str(settings.token_file))
    return "\n".join(
        [
            f'case ":$PATH:" in *:{plugins}:*) ;; *) export PATH={plugins}:"$PATH" ;; esac',
            f'export PROXMOX_VE_API_TOKEN="$(cat {token})"',
            f"export KUBECONFIG={shlex.quote(str(settings.kubeconfig))}",
        ]
    )
