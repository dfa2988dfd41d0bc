"""Secrets that a run needs and that nobody gave, with the commands that set them.

Only a run needs them: to judge a stack file they may be encrypted, or somewhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpu_passthrough.config import NAMESPACE, Stack
from gpu_passthrough.problems import Path, Problem, where
from gpu_passthrough.rules.access import TOKEN

PROXMOX_TOKEN = "PROXMOX_VE_API_TOKEN"  # noqa: S105 - a variable's name
"""The provider reads it where the stack has no token."""


def command(stack_name: str, path: Path) -> str:
    """Write the command that puts a secret into a stack file; it asks for the value."""
    key = f"{NAMESPACE}:{where(path)}"
    return f"pulumi config set --stack {stack_name} --secret --path '{key}'"


def secrets(stack: Stack, stack_name: str, environment: Mapping[str, str]) -> Iterator[Problem]:
    """What is missing of a stack that is right otherwise."""
    yield from _proxmox_token(stack, stack_name, environment)
    for path, value in _given(stack):
        if not value.strip():
            yield Problem(
                path,
                "This secret is empty.",
                rule="secret-missing",
                why="The layer behind it lets nobody in without it.",
                fix=f"Set it: {command(stack_name, path)}",
            )


def _proxmox_token(
    stack: Stack, stack_name: str, environment: Mapping[str, str]
) -> Iterator[Problem]:
    if stack.proxmox is None or stack.proxmox.api_token is not None:
        return
    token = environment.get(PROXMOX_TOKEN, "")
    if TOKEN.fullmatch(token):
        return
    path: Path = ("proxmox", "apiToken")
    yield Problem(
        path,
        f"{PROXMOX_TOKEN} is not in the form USER@REALM!TOKENID=UUID."
        if token
        else f"There is no API token for {stack.proxmox.endpoint}.",
        rule="secret-missing",
        why="Proxmox lets nobody in without it. docs/real-hardware.md has the commands that make"
        " a role and a token which may do no more than this stack needs.",
        fix=f"export {PROXMOX_TOKEN}='USER@REALM!TOKENID=UUID'\n   or: {command(stack_name, path)}",
    )


def _given(stack: Stack) -> Iterator[tuple[Path, str]]:
    """Every secret that the stack has."""
    if stack.proxmox and stack.proxmox.api_token:
        yield ("proxmox", "apiToken"), stack.proxmox.api_token.get_secret_value()
    if stack.kubernetes:
        path: Path = ("kubernetes", "kubeconfig")
        yield path, stack.kubernetes.kubeconfig.get_secret_value()
    if stack.talos:
        keys = {
            "caCertificate": stack.talos.ca_certificate,
            "clientCertificate": stack.talos.client_certificate,
            "clientKey": stack.talos.client_key,
        }
        for key, secret in keys.items():
            yield ("talos", key), secret.get_secret_value()
