"""The API token, taken from where the program takes it. Its secret is shown nowhere."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from gpu_passthrough.config import NAMESPACE, Proxmox
from gpu_passthrough.fields import ENCRYPTED
from gpu_passthrough.recover.engine import Engine, EngineError
from gpu_passthrough.rules.access import TOKEN as FORM

VARIABLE: Final = "PROXMOX_VE_API_TOKEN"
KEY: Final = f"{NAMESPACE}:proxmox.apiToken"


class TokenError(Exception):
    """There is no token, it is malformed, or the API does not know it.

    fix: what to do; empty where only a new token helps.
    """

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


@dataclass(frozen=True)
class Token:
    """An API token, USER@REALM!NAME=SECRET."""

    user: str
    name: str
    secret: str = field(repr=False)


def read_token(site: Proxmox) -> Token:
    """The token of the configuration, else that of the environment.

    Raises:
        TokenError: there is none, or it is not of the form; the secret is never shown.
    """
    text = site.api_token.get_secret_value() if site.api_token else os.environ.get(VARIABLE, "")
    if not text:
        raise TokenError(f"there is no API token: set {VARIABLE}, or proxmox.apiToken as a secret")
    if text == ENCRYPTED:
        raise TokenError("the stack's API token is encrypted")
    if not FORM.fullmatch(text.strip()):
        raise TokenError("the API token is not of the form USER@REALM!TOKENID=SECRET")
    identity, _, secret = text.strip().partition("=")
    user, _, name = identity.partition("!")
    return Token(user, name, secret)


def revealed(site: Proxmox, stack: str, folder: Path) -> Proxmox:
    """The same site with its token readable: Pulumi decrypts what the stack file holds encrypted.

    Args:
        site: as the stack file says, with a stand-in for an encrypted token.
        stack: the stack's name.
        folder: where the stack file is.

    Raises:
        TokenError: Pulumi cannot decrypt it; its own words.
    """
    if site.api_token is None or site.api_token.get_secret_value() != ENCRYPTED:
        return site
    try:
        found = Engine(stack, folder).run("config", "get", "--stack", stack, "--path", KEY)
    except EngineError as error:
        words = str(error).splitlines() or ["no reason"]
        text = f"the stack's API token is encrypted, and Pulumi cannot decrypt it: {words[0]}"
        command = f"pulumi config get --stack {stack} --path {KEY}"
        raise TokenError(text, f"See that this works; it shows the secret: {command}") from None
    return site.model_copy(update={"api_token": SecretStr(found.strip())})
