"""A client of the Proxmox VE HTTP API: requests, errors and tasks.

Everything below `/api2/json`, token authentication, form-encoded parameters, answers in `data`.
The client refuses a host that does not identify itself as a simulated rack, before anything else.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import requests
from urllib3.exceptions import InsecureRequestWarning

from rack.plugins.contract import PluginError

RACK_REPOID: Final = "simulated-rack"
REQUEST_SECONDS: Final = 60.0
POLL_FIRST_SECONDS: Final = 0.02
POLL_LAST_SECONDS: Final = 1.0
POLL_GROWTH: Final = 1.5
PROXY_STATUSES: Final = range(595, 600)
"""Pseudo status codes of PVE's proxy between nodes: the request may not have arrived."""
PROXY_ATTEMPTS: Final = 4
GONE_TEXTS: Final = (
    "does not exist",
    "no such resource",
    "No such file or directory",
    "not found",
    "no such volume",
)
EXISTS_TEXTS: Final = ("already exists", "already defined", "refusing to override existing file")

Parameters = Mapping[str, Any]


class ApiError(PluginError):
    """An answer of the API other than success."""

    def __init__(self, method: str, path: str, status: int, message: str) -> None:
        super().__init__(f"{method} {path}: received an HTTP {status} response - Reason: {message}")
        self.status = status
        self.message = message

    @property
    def gone(self) -> bool:
        """Whether the thing asked for is not there."""
        return self.status == 404 or (
            self.status == 500 and any(text in self.message for text in GONE_TEXTS)
        )

    @property
    def exists(self) -> bool:
        """Whether the thing to be made is there already."""
        return any(text in self.message for text in EXISTS_TEXTS)


class TaskError(PluginError):
    """A task of the host that ended with something other than OK."""

    @property
    def gone(self) -> bool:
        """Whether the task failed because what it worked on is not there."""
        return any(text in str(self) for text in GONE_TEXTS)


class CancelledError(PluginError):
    """The engine or the user asked to stop while the host was still at work."""


@dataclass
class Client:
    """Calls one host's API, from any thread.

    Set `cancelled` to make everything that waits raise `CancelledError`.
    """

    endpoint: str
    token: str = field(repr=False)
    insecure: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)
    _local: threading.local = field(default_factory=threading.local, repr=False)
    _known_rack: bool = False

    def get(self, path: str, **parameters: Any) -> Any:
        """GET, repeated a few times when PVE's proxy lost the request."""
        for attempt in range(1, PROXY_ATTEMPTS):
            try:
                return self._call("GET", path, parameters)
            except ApiError as error:
                if error.status not in PROXY_STATUSES:
                    raise
                self._sleep(POLL_FIRST_SECONDS * POLL_GROWTH**attempt)
        return self._call("GET", path, parameters)

    def post(self, path: str, parameters: Parameters | None = None) -> Any:
        """POST form-encoded parameters; a list becomes a repeated parameter."""
        return self._call("POST", path, parameters or {})

    def put(self, path: str, parameters: Parameters) -> Any:
        """PUT form-encoded parameters."""
        return self._call("PUT", path, parameters)

    def delete(self, path: str, **parameters: Any) -> Any:
        """DELETE with parameters in the query."""
        return self._call("DELETE", path, parameters)

    def wait(self, upid: Any, what: str, seconds: float) -> None:
        """Wait until the task `upid` has stopped; nothing to wait for when it is no UPID.

        Raises `TaskError` with the task's own exit status, or when `seconds` are over.
        """
        if not isinstance(upid, str) or not upid.startswith("UPID:"):
            return
        path = f"/nodes/{upid.split(':')[1]}/tasks/{quote(upid, safe='')}/status"
        for _ in self.until(seconds):
            task = self.get(path)
            if task["status"] == "stopped":
                exit_status = str(task.get("exitstatus", "unexpected status"))
                if exit_status == "OK" or exit_status.startswith("WARNINGS"):
                    return
                raise TaskError(f"{what} failed: {exit_status} (task {upid})")
        raise TaskError(f"{what}: the task is still running after {seconds:g} s (task {upid})")

    def until(self, seconds: float) -> Iterator[None]:
        """Yield at growing intervals until `seconds` are over: the beat of every wait."""
        deadline = time.monotonic() + seconds
        interval = POLL_FIRST_SECONDS
        while True:
            yield
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._sleep(min(interval, left))
            interval = min(interval * POLL_GROWTH, POLL_LAST_SECONDS)

    def _sleep(self, seconds: float) -> None:
        if self.cancelled.wait(seconds):
            raise CancelledError(
                "cancelled while waiting for the Proxmox host; what it had started goes on there"
            )

    def _call(self, method: str, path: str, parameters: Parameters) -> Any:
        if not self._known_rack:
            self._require_rack()
        return self._send(method, path, parameters)

    def _require_rack(self) -> None:
        answer = self._send("GET", "/version", {})
        if not isinstance(answer, dict) or answer.get("repoid") != RACK_REPOID:
            raise PluginError(
                f"refusing to run against {self.endpoint}: not a simulated rack. This plugin is the"
                " simulated rack's stand-in: the state of a real site must never hold its VMs. For"
                " a real host, take it off PATH and let Pulumi download the official plugin"
            )
        self._known_rack = True

    def _send(self, method: str, path: str, parameters: Parameters) -> Any:
        values = {name: _wire(value) for name, value in parameters.items() if value is not None}
        in_body = method in ("POST", "PUT")
        try:
            response = self._session().request(
                method,
                f"{self.endpoint}/api2/json{path}",
                timeout=REQUEST_SECONDS,
                verify=False if self.insecure else os.environ.get("SSL_CERT_FILE", True),
                data=values if in_body else None,
                params=None if in_body else values,
            )
        except requests.exceptions.SSLError as error:
            raise PluginError(
                f"cannot verify the certificate of {self.endpoint}: {_innermost(error)}. Trust its "
                "issuer (SSL_CERT_FILE), or set the provider's `insecure` to true"
            ) from None
        except requests.exceptions.RequestException as error:
            raise PluginError(
                f"cannot reach the Proxmox VE API at {self.endpoint}: {_innermost(error)}. Is the "
                "simulated rack running?"
            ) from None
        if response.ok:
            return response.json().get("data")
        raise ApiError(method, path, response.status_code, _message(response))

    def _session(self) -> requests.Session:
        # A session is not safe to share between threads.
        if not hasattr(self._local, "session"):
            session = requests.Session()
            session.trust_env = False
            session.headers["Authorization"] = f"PVEAPIToken={self.token}"
            session.headers["Accept"] = "application/json"
            self._local.session = session
            warnings.simplefilter("ignore", InsecureRequestWarning)
        return self._local.session  # type: ignore[no-any-return]


def volume_path(node: str, volume: str) -> str:
    """Return the API path of a stored file or disk, `storage:rest`."""
    storage = volume.partition(":")[0]
    return f"/nodes/{node}/storage/{storage}/content/{quote(volume, safe='')}"


def _wire(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return [_wire(item) for item in value] if isinstance(value, list) else value


def _message(response: requests.Response) -> str:
    """Join the reason phrase with what the body adds to it."""
    reason = (response.reason or "").strip()
    details: list[str] = []
    with contextlib.suppress(json.JSONDecodeError, AttributeError):
        body = response.json()
        details += [f"{name}: {str(e).strip()}" for name, e in (body.get("errors") or {}).items()]
        lines = str(body.get("message") or "").splitlines()
        details += [line for line in lines if line and not (reason and line.startswith(reason))]
    if not reason:
        return " - ".join(details)
    return f"{reason} ({' - '.join(details)})" if details else reason


def _innermost(error: BaseException) -> str:
    """Say what went wrong at the bottom of nested exceptions, without the URL and its wrapping."""
    while isinstance(error.args[0] if error.args else None, BaseException):
        error = error.args[0]
    reason = getattr(error, "reason", None)
    return str(reason if reason is not None else error)
