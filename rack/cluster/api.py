"""The Kubernetes API in plain JSON, as everything here that talks to the cluster uses it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from kubernetes import client, config

Object = dict[str, Any]

_TIMEOUT_S: Final = 10.0
_WATCH_S: Final = 120
"""The API server ends a watch after this long, and the watcher begins anew."""
_MERGE: Final = "application/merge-patch+json"


class ApiError(Exception):
    """The API server refused a request; `message` is its own text."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Api:
    """One API server, reached with an administrator's kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        settings = client.Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=settings)
        settings.retries = False
        self._client = client.ApiClient(settings)
        self._host: str = settings.host

    def request(self, method: str, path: str, body: object = None, kind: str = "") -> Object:
        """Ask, and return the answer's JSON.

        Raises:
            ApiError: the server refused.
            urllib3.exceptions.HTTPError: it did not answer.

        """
        headers = {"Accept": "application/json", "Content-Type": kind or "application/json"}
        answer = self._client.call_api(
            method, self._host + path, headers, body, _request_timeout=_TIMEOUT_S
        )
        text = answer.read()
        if answer.status >= 400:
            raise ApiError(answer.status, _message(text) or answer.reason)
        found: Object = json.loads(text) if text else {}
        return found

    def get(self, path: str) -> Object | None:
        """An object; None where there is none, or where its kind does not exist."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, path: str) -> list[Object]:
        """The objects of a collection; none where its kind does not exist."""
        found = self.get(path)
        return [] if found is None else cast("list[Object]", found["items"])

    def create(self, path: str, body: Mapping[str, Any]) -> Object:
        """Make an object in a collection."""
        return self.request("POST", path, body)

    def replace(self, path: str, body: Mapping[str, Any]) -> Object:
        """Write a whole object; it carries its `resourceVersion`."""
        return self.request("PUT", path, body)

    def merge(self, path: str, body: Mapping[str, Any]) -> Object:
        """Change parts of an object; None removes a key."""
        return self.request("PATCH", path, body, _MERGE)

    def watch(self, path: str, version: str) -> Iterator[Object]:
        """Events of a collection after a `resourceVersion`, until the server ends the stream.

        Raises:
            ApiError: the server refused; 410 where the version is too old.
            urllib3.exceptions.HTTPError: the connection broke.

        """
        query = f"watch=1&resourceVersion={version}&timeoutSeconds={_WATCH_S}"
        answer = self._client.call_api(
            "GET",
            f"{self._host}{path}?{query}&allowWatchBookmarks=true",
            {"Accept": "application/json"},
            _request_timeout=(_TIMEOUT_S, _WATCH_S + _TIMEOUT_S),
        )
        if answer.status >= 400:
            raise ApiError(answer.status, _message(answer.read()) or answer.reason)
        for line in answer.response:
            event: Object = json.loads(line)
            if event["type"] == "ERROR":
                raise ApiError(event["object"].get("code", 500), event["object"]["message"])
            yield event

    def delete(self, path: str, options: Mapping[str, Any] | None = None) -> None:
        """Remove an object, which may be gone already; `options` are Kubernetes' DeleteOptions."""
        try:
            self.request("DELETE", path, options)
        except ApiError as error:
            if error.status != 404:
                raise


def _message(text: bytes) -> str:
    """What the API server says of a refusal; an unknown path is answered in plain text."""
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.decode(errors="replace").strip()
