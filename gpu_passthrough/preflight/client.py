"""Reading the Proxmox VE API with a token: one answer per path, and words where none comes."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from gpu_passthrough.checks.finding import Evidence
from gpu_passthrough.config import Proxmox
from gpu_passthrough.preflight.token import VARIABLE as TOKEN
from gpu_passthrough.preflight.token import TokenError, read_token

__all__ = ["TOKEN", "Client", "DeniedError", "TokenError", "UnreachableError"]

TIMEOUT_S: Final = 10.0
AUTHORITIES: Final = "SSL_CERT_FILE"
"""Variable with a file of authorities."""
SHOWN: Final = 300
"""Characters of an answer that are shown as evidence."""
OK: Final = 200
UNAUTHORIZED: Final = 401
BAD_GATEWAY: Final = 502
"""From here on somebody else says that the one who was asked does not answer."""
NOT_PROXMOX: Final = "what answers is not the API of Proxmox VE"


class UnreachableError(Exception):
    """The API does not answer, or not as Proxmox VE does; the message says how."""


class DeniedError(Exception):
    """The API refuses to answer; its own words."""

    def __init__(self, path: str, status: int, words: str) -> None:
        super().__init__(f"{status} {words}")
        self.path = path
        self.status = status


@dataclass
class Client:
    """One endpoint. It sends nothing but GET."""

    site: Proxmox
    timeout_s: float = TIMEOUT_S
    """Longest wait for one answer, in seconds."""
    _answers: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from proxmoxer import ProxmoxAPI

        token = read_token(self.site)
        place = urlsplit(self.site.endpoint)
        self._api: Any = ProxmoxAPI(
            place.hostname,
            port=place.port or 8006,
            user=token.user,
            token_name=token.name,
            token_value=token.secret,
            verify_ssl=False if self.site.insecure else authorities(),
            timeout=self.timeout_s,
        )

    def connect(self) -> None:
        """See that Proxmox VE answers.

        Raises:
            UnreachableError: nothing or something else does.
            TokenError: the API does not know the token.
        """
        try:
            found = self.get("version")
        except DeniedError as refusal:
            raise UnreachableError(f"it answers {refusal}") from None
        if not (isinstance(found, dict) and "version" in found):
            raise UnreachableError(NOT_PROXMOX)

    def fresh(self, path: str) -> Any:
        """What the API answers now; see `get`."""
        self._answers.pop(path, None)
        return self.get(path)

    def get(self, path: str) -> Any:
        """What the API answers, once asked.

        Raises:
            UnreachableError: nothing answers any more.
            TokenError: the API does not know the token.
            DeniedError: it refuses this path, or cannot answer it.
        """
        if path not in self._answers:
            self._answers[path] = self._ask(path)
        found = self._answers[path]
        if isinstance(found, Exception):
            raise found
        return found

    def evidence(self, path: str, answer: object = None) -> Evidence:
        """What was asked, and the part of the answer that matters."""
        text = str(self._answers.get(path) if answer is None else answer)
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
        return Evidence(asked=f"GET {self.site.endpoint}/api2/json/{path}", answered=shown)

    def _ask(self, path: str) -> Any:
        from proxmoxer import AuthenticationError, ResourceException

        try:
            found = self._api.get(path)
        except ResourceException as error:
            words = str(error.content or error.status_message).strip()
            if error.status_code == UNAUTHORIZED:
                return TokenError(f"the API does not accept the token: {words}")
            return DeniedError(path, error.status_code, words)
        except AuthenticationError as error:
            return TokenError(f"the API does not accept the token: {error}")
        except OSError as error:  # those of requests are some, too
            return UnreachableError(_reason(error))
        except (AttributeError, LookupError, TypeError, ValueError):  # JSON of somebody else
            return DeniedError(path, OK, NOT_PROXMOX)
        if isinstance(found, dict) and isinstance(found.get("errors"), bytes):
            return DeniedError(path, OK, f"{NOT_PROXMOX}: no JSON")
        return found


def authorities() -> str | bool:
    """Whom to trust: as the provider's plugin does, and not by the list that requests brings."""
    system = ssl.get_default_verify_paths()
    return os.environ.get(AUTHORITIES) or system.cafile or system.capath or True


REASONS: Final = (
    ("Hostname mismatch", "its certificate is for another name"),
    ("certificate has expired", "its certificate has expired"),
    ("self-signed certificate", "certificate verify failed: no known authority signed it"),
    ("self signed certificate", "certificate verify failed: no known authority signed it"),
    ("certificate verify failed", "certificate verify failed"),
    ("invalid path", f"the file that {AUTHORITIES} names is not there"),
    ("WRONG_VERSION_NUMBER", "what listens there does not speak TLS"),
    ("Name or service not known", "Name or service not known"),
    ("Failed to resolve", "the host's name cannot be resolved"),
    ("refused", "refused: nothing listens there"),
    ("timed out", "timed out"),
    ("No route to host", "no route to host"),
    ("unreachable", "the network is unreachable"),
    ("closed connection", "it closes the connection without an answer"),
)
"""What the errors of the connection's libraries hold, and what that means."""


def _reason(error: BaseException) -> str:
    """Why a connection fails, without the classes around it and without any header of ours."""
    text = str(error)
    found = next((words for mark, words in REASONS if mark in text), type(error).__name__)
    return f"the connection fails: {found}"
