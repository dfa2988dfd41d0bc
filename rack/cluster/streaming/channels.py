"""The streams of one `kubectl exec`, whatever protocol carries them."""

from __future__ import annotations

import json
from typing import Final, Literal, Protocol

Name = Literal["stdin", "stdout", "stderr", "error", "resize"]
PROTOCOL: Final = "v4.channel.k8s.io"
"""Both carriers speak this version: the error channel gives the status as JSON."""


class Input(Protocol):
    """Takes what comes in."""

    def __call__(self, name: Name, data: bytes, *, is_last: bool) -> None:
        """Take data of a channel; the last may be empty."""


class Channels(Protocol):
    """A connection with its channels."""

    def write(self, name: Name, data: bytes, *, is_last: bool = False) -> None:
        """Send data.

        Raises:
            OSError: the client is gone.
        """

    def read(self, take: Input) -> None:
        """Hand over what comes in, until the client has gone; it ends without an error."""

    def close(self) -> None:
        """Say that nothing follows, and end the connection."""


def ended(exit_code: int) -> bytes:
    """Status of a command that has run."""
    if exit_code == 0:
        return _status({"status": "Success"})
    return _status(
        {
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {exit_code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
        }
    )


def failed(cause: str) -> bytes:
    """Status of a command that could not be started."""
    text = f"error executing command in container: {cause}"
    return _status(
        {
            "status": "Failure",
            "message": f"Internal error occurred: {text}",
            "reason": "InternalError",
            "details": {"causes": [{"message": text}]},
            "code": 500,
        }
    )


def _status(fields: dict[str, object]) -> bytes:
    return json.dumps({"metadata": {}, **fields}).encode()
