"""Reading the Proxmox VE API with a token: one answer per path, and words where none comes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from gpu_passthrough.checks.finding import Evidence
from gpu_passthrough.config import Proxmox

TOKEN: Final = "PROXMOX_VE_API_TOKEN"  # noqa: S105 - a variable's name
TIMEOUT_S: Final = 10
SHOWN: Final = 300
"""Characters of an answer that are shown as evidence."""


class UnreachableError(Exception):
    """The API does not answer, or not as Proxmox VE does; the message says how."""


class TokenError(Exception):
    """There is no token, it is malformed, or the API does not know it."""


class DeniedError(Exception):
    """The API refuses to answer; its own words."""

    def __init__(self, path: str, status: int, words: str) -> None:
        super().__init__(f"{status} {words}")
        self.path = path
        self.status = status


@dataclass
class Client:
    """One endpoint."""

    site: Proxmox
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
            verify_ssl=not self.site.insecure,
            timeout=TIMEOUT_S,
        )

    def fresh(self, path: str) -> Any:
        """What the API answers now; see `get`."""
        self._answers.pop(path, None)
        return self.get(path)

    def get(self, path: str) -> Any:
        """What the API answers, once asked.

        Raises:
            UnreachableError: nothing or something else than Proxmox VE answers.
            TokenError: the API does not know the token.
            DeniedError: it refuses this path.
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
        from requests import RequestException

        try:
            return self._api.get(path)
        except ResourceException as error:
            words = str(error.content or error.status_message).strip()
            if error.status_code == 401:
                return TokenError(f"the API does not accept the token: {words}")
            if error.status_code >= 500 and error.status_code not in (500, 501):
                return UnreachableError(f"it answers {error.status_code} {words}")
            return DeniedError(path, error.status_code, words)
        except AuthenticationError as error:
            return TokenError(f"the API does not accept the token: {error}")
        except RequestException as error:
            return UnreachableError(_innermost(error))
        except ValueError:
            return UnreachableError("what answers is not the API of Proxmox VE: no JSON")


@dataclass(frozen=True)
class Token:
    """An API token, USER@REALM!NAME=SECRET."""

    user: str
    name: str
    secret: str


def read_token(site: Proxmox) -> Token:
    """The token of the configuration, else that of the environment.

    Raises:
        TokenError: there is none, or it is not of the form; the secret is never shown.
    """
    text = site.api_token.get_secret_value() if site.api_token else os.environ.get(TOKEN, "")
    if not text:
        raise TokenError(f"there is no API token: set {TOKEN}, or proxmox.apiToken as a secret")
    identity, _, secret = text.strip().partition("=")
    user, _, name = identity.partition("!")
    if not (secret and name and "@" in user):
        raise TokenError("the API token is not of the form USER@REALM!TOKENID=SECRET")
    return Token(user, name, secret)


def _innermost(error: BaseException) -> str:
    """The reason of a failed connection without the classes around it."""
    text = str(error)
    for mark in ("certificate verify failed", "Name or service not known", "refused", "timed out"):
        if mark in text:
            return f"the connection fails: {mark}"
    return f"the connection fails: {type(error).__name__}"
