"""A client of the simulated rack's services port: image factory and machine API.

The machine API stands in for Talos' gRPC on port 50000. Instead of mutual TLS, a request carries
the client certificate and an Ed25519 signature of its body; the private key never leaves the
plugin. The client refuses a server that does not identify itself as a simulated rack, at its first
contact, so that a preview of a stack that does not exist yet needs no rack.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import requests

from rack.plugins.contract import PluginError
from rack.plugins.talos import pki

REQUEST_SECONDS: Final = 60.0
POLL_FIRST_SECONDS: Final = 0.05
POLL_LAST_SECONDS: Final = 1.0
POLL_GROWTH: Final = 1.5
CERTIFICATE_HEADER: Final = "X-Talos-Certificate"
SIGNATURE_HEADER: Final = "X-Talos-Signature"
OFFICIAL_FACTORY: Final = "https://factory.talos.dev"
INVALID_ARGUMENT: Final = "InvalidArgument"

Result = TypeVar("Result")


class ApiError(PluginError):
    """The rack's answer other than success, with the gRPC code that Talos would have given."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {message}")
        self.code = code

    @property
    def final(self) -> bool:
        """Whether trying again can never help."""
        return self.code == INVALID_ARGUMENT


class UnreachableError(PluginError):
    """The services port does not answer."""


class CancelledError(PluginError):
    """The engine or the user asked to stop."""


@dataclass(frozen=True, repr=False)
class Access:
    """A client certificate of the Talos API and its key, PEM. Never shown."""

    certificate: bytes
    key: bytes

    @classmethod
    def of(cls, client_configuration: Mapping[str, Any]) -> Access:
        """Read the official plugin's `clientConfiguration`.

        Raises `PluginError`: a value is not base64; the message names the property only.
        """
        values = {}
        for name in ("clientCertificate", "clientKey"):
            try:
                values[name] = pki.decode(client_configuration[name])
            except ValueError as error:
                raise PluginError(f"clientConfiguration.{name}: {error}") from None
        return cls(values["clientCertificate"], values["clientKey"])

    def __repr__(self) -> str:
        return "Access(…)"

    def headers(self, body: bytes) -> dict[str, str]:
        """Return the headers that authenticate a request with this body."""
        try:
            signature = pki.sign(self.key, body)
        except ValueError as error:
            raise PluginError(f"clientConfiguration.clientKey: {error}") from None
        return {
            CERTIFICATE_HEADER: base64.b64encode(self.certificate).decode(),
            SIGNATURE_HEADER: base64.b64encode(signature).decode(),
        }


@dataclass
class Rack:
    """The services port of one simulated rack, usable from any thread."""

    url: str
    cancelled: threading.Event = field(default_factory=threading.Event)
    _local: threading.local = field(default_factory=threading.local, repr=False)
    _confirmed: bool = False

    def create_schematic(self, text: str) -> str:
        """Register a schematic with the image factory and return its id."""
        return str(self._call("POST", "/schematics", body=text.encode())["id"])

    def talos_versions(self) -> list[str]:
        """Return the Talos versions that the image factory builds."""
        return list(self._call("GET", "/versions"))

    def extensions(self, talos_version: str) -> list[dict[str, Any]]:
        """Return the official extensions of a Talos version."""
        return list(self._call("GET", f"/version/{talos_version}/extensions/official"))

    def machine(self, address: str) -> dict[str, Any]:
        """Return what a machine shows to anyone: its stage and Talos version."""
        return dict(self._call("GET", f"/machines/{address}"))

    def command(
        self, address: str, name: str, access: Access, parameters: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Call the machine API: apply, bootstrap, kubeconfig, reset."""
        body = json.dumps(parameters).encode()
        path = f"/machines/{address}/{name}"
        return dict(self._call("POST", path, body=body, headers=access.headers(body)) or {})

    def persist(self, what: str, seconds: float, action: Callable[[], Result]) -> Result:
        """Try `action` until it succeeds, gives a final error, or `seconds` are over.

        Raises `PluginError`: the last error, with what was attempted and for how long.
        """
        deadline = time.monotonic() + seconds
        interval = POLL_FIRST_SECONDS
        while True:
            self.confirm()
            try:
                return action()
            except (ApiError, UnreachableError) as error:
                if isinstance(error, ApiError) and error.final:
                    raise PluginError(f"{what}: {error}") from None
                left = deadline - time.monotonic()
                if left <= 0:
                    raise PluginError(f"{what}: gave up after {seconds:g} s: {error}") from None
            if self.cancelled.wait(min(interval, left)):
                raise CancelledError(f"{what}: cancelled")
            interval = min(interval * POLL_GROWTH, POLL_LAST_SECONDS)

    def confirm(self) -> None:
        """Make sure, once, that the server is a simulated rack.

        Raises `PluginError`: it is something else, or nothing answers.
        """
        if self._confirmed:
            return
        if self.url != OFFICIAL_FACTORY and self._is_rack():
            self._confirmed = True
            return
        raise PluginError(
            f"refusing to run against {self.url}: not a simulated rack. This plugin is the "
            "simulated rack's stand-in: the state of a real site must never hold its machines. For "
            "a real site, take it off PATH and let Pulumi download the official plugin; for the "
            "rack, set the talos provider's imageFactoryUrl to its services port"
        )

    def _is_rack(self) -> bool:
        try:
            answer = self._send("GET", "/rack", b"", {})
            return answer.ok and answer.json().get("simulated_rack") is True
        except (ValueError, AttributeError):
            return False

    def _call(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Any:
        self.confirm()
        answer = self._send(method, path, body, headers or {})
        if not answer.ok:
            raise _error(answer)
        return answer.json() if answer.content else None

    def _send(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> requests.Response:
        try:
            return self._session().request(
                method,
                f"{self.url}{path}",
                data=body or None,
                headers={"Content-Type": "application/json", **headers},
                timeout=REQUEST_SECONDS,
                allow_redirects=False,
            )
        except requests.exceptions.RequestException:
            raise UnreachableError(
                f"nothing answers at {self.url} (the talos provider's imageFactoryUrl). Is the "
                "simulated rack running?"
            ) from None

    def _session(self) -> requests.Session:
        # A session is not safe to share between threads.
        if not hasattr(self._local, "session"):
            session = requests.Session()
            session.trust_env = False
            self._local.session = session
        return self._local.session  # type: ignore[no-any-return]


def _error(answer: requests.Response) -> ApiError:
    try:
        body = answer.json()
        return ApiError(str(body.get("code", "Unknown")), str(body.get("message", "")))
    except (ValueError, AttributeError):
        return ApiError("Unknown", f"HTTP {answer.status_code}: {answer.text.strip()}")
