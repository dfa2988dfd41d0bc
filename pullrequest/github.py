"""The little of GitHub's API that comments need."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

PATIENCE = 30
"""Seconds that an answer may take."""
PAGE = 100
MOST_PAGES = 30


class GitHubError(OSError):
    """GitHub refused a request."""


@dataclass(frozen=True)
class Api:
    """The API of one repository."""

    url: str
    repository: str
    token: str

    @classmethod
    def from_environment(cls) -> Api:
        """The repository and token of the running job."""
        return cls(
            url=os.environ.get("GITHUB_API_URL", "https://api.github.com"),
            repository=os.environ["GITHUB_REPOSITORY"],
            token=os.environ["GITHUB_TOKEN"],
        )

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request below the repository; GitHubError with GitHub's words where it fails."""
        request = urllib.request.Request(  # noqa: S310 - the runner's own API address
            f"{self.url}/repos/{self.repository}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {self.token}",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
                text = answer.read()
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")[:500]
            raise GitHubError(f"{method} {path}: {error.code} {said}") from None
        return json.loads(text) if text else None

    def pull_request(self, run: dict[str, Any]) -> int | None:
        """The open pull request that a workflow run belongs to.

        For a fork the event names none, so it is looked up by the branch; its commit has to be
        the run's, or it is another one or has moved on.
        """
        head = f"{run['head_repository']['owner']['login']}:{run['head_branch']}"
        found = self.call("GET", f"/pulls?state=open&per_page={PAGE}&head={quote(head, safe='')}")
        numbers = [one["number"] for one in found if one["head"]["sha"] == run["head_sha"]]
        return int(numbers[0]) if numbers else None

    def comments(self, number: int) -> list[dict[str, Any]]:
        """The comments of a pull request that bots wrote."""
        found: list[dict[str, Any]] = []
        for page in range(1, MOST_PAGES + 1):
            path = f"/issues/{number}/comments?per_page={PAGE}&page={page}"
            some = self.call("GET", path)
            found += [one for one in some if one["user"]["type"] == "Bot"]
            if len(some) < PAGE:
                break
        return found
