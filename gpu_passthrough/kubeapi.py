"""One Kubernetes API, asked with plain paths: an answer, or words about why there is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import urllib3
import yaml

ANSWER_S: Final = 10
"""Longest wait for one answer, in seconds."""
NOT_FOUND: Final = 404
NOW_NOT: Final = (429, 500, 502, 503, 504)
"""The API server is there and does not serve at the moment."""
SHOWN: Final = 200
Object = dict[str, Any]


class UnreachableError(Exception):
    """The API server does not answer, or does not let us in; the message says how."""


class ForbiddenError(Exception):
    """The API server refuses one question."""


def parse(text: str) -> Object:
    """A kubeconfig's content. What is wrong with it is said without a word of it: it is a secret.

    Raises:
        UnreachableError: it is no kubeconfig.
    """
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise UnreachableError(f"the kubeconfig is no YAML{where}") from None
    if not isinstance(found, dict) or "clusters" not in found:
        raise UnreachableError("the kubeconfig has no clusters: is it empty, or still base64?")
    return found


def with_context(kubeconfig: str, context: str | None) -> str:
    """The same kubeconfig with another current context; what is no kubeconfig stays as it is."""
    if context is None:
        return kubeconfig
    try:
        return yaml.safe_dump({**parse(kubeconfig), "current-context": context})
    except UnreachableError:
        return kubeconfig


class KubernetesApi:
    """One cluster, named by a kubeconfig: a file, or its content."""

    def __init__(self, kubeconfig: str | Mapping[str, Any], context: str | None = None) -> None:
        """Connect to nothing yet.

        Raises:
            UnreachableError: the kubeconfig is missing, is none, or lacks the context.
        """
        from kubernetes import client, config

        settings = client.Configuration()
        source = kubeconfig if isinstance(kubeconfig, str) else "the kubeconfig"
        try:
            if isinstance(kubeconfig, str):
                config.load_kube_config(kubeconfig, context, client_configuration=settings)
            else:
                config.load_kube_config_from_dict(
                    kubeconfig, context, client_configuration=settings
                )
        except (config.ConfigException, OSError) as error:
            raise UnreachableError(f"{source}: {_first_line(error)}") from None
        except (yaml.YAMLError, AttributeError, LookupError, TypeError, ValueError):
            raise UnreachableError(f"{source}: it is no kubeconfig") from None
        settings.retries = False
        if not settings.verify_ssl:
            # The kubeconfig says so, and a warning for each question would hide the answers.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self.host: str = settings.host
        self._settings = settings
        self._api = client.ApiClient(settings)

    def get(self, path: str) -> Any:
        """What the API server answers; None for 404.

        Raises:
            UnreachableError: nothing answers, or nobody is let in.
            ForbiddenError: this question is refused.
        """
        return self._object("GET", path)

    def items(self, path: str) -> list[Object]:
        """A collection; empty where its kind does not exist. Raises as `get` does."""
        found = self.get(path)
        return [] if found is None else list(found["items"])

    def create(self, path: str, body: Object) -> None:
        """Create an object in a collection. Raises as `get` does, also where that is missing."""
        if self._object("POST", path, body) is None:
            raise ForbiddenError(f"POST {path}: 404, the namespace does not exist")

    def delete(self, path: str) -> None:
        """Delete an object; one that is gone is fine. Raises as `get` does."""
        self._object("DELETE", path)

    def text(self, path: str) -> str:
        """What the API server answers as text, such as a log. Raises as `get` does."""
        return (self.request("GET", path, accept="*/*") or b"").decode(errors="replace")

    def core(self) -> Any:
        """The client's core API, for streams; one of its own, because a stream takes it over."""
        from kubernetes import client

        return client.CoreV1Api(client.ApiClient(self._settings))

    def _object(self, method: str, path: str, body: Object | None = None) -> Any:
        text = self.request(method, path, body)
        if text is None:
            return None
        try:
            return json.loads(text)
        except ValueError:
            raise UnreachableError(f"{self.host} does not answer as a Kubernetes API") from None

    def request(
        self, method: str, path: str, body: Object | None = None, accept: str = "application/json"
    ) -> bytes | None:
        """The bytes of an answer; None for 404."""
        from kubernetes.client import ApiException

        headers = {"Accept": accept, "Content-Type": "application/json"}
        try:
            self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
            answer = self._api.call_api(
                method, self.host + path, headers, body, _request_timeout=ANSWER_S
            )
            text = bytes(answer.read())
        except (ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            raise UnreachableError(f"{self.host} does not answer: {_innermost(error)}") from None
        self._refuse(method, path, answer.status, text)
        return None if answer.status == NOT_FOUND else text

    def _refuse(self, method: str, path: str, status: int, text: bytes) -> None:
        if status == 401:
            raise UnreachableError(f"{self.host} does not accept the credentials (401)")
        said = f"{method} {path}: {status} {_message(text)}"
        if status in NOW_NOT:
            raise UnreachableError(f"{self.host} cannot serve at the moment: {said}")
        if status >= 400 and status != NOT_FOUND:
            raise ForbiddenError(said)


def _message(text: bytes) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, LookupError, TypeError):
        return text.decode(errors="replace").strip()[:SHOWN]


def _innermost(error: BaseException) -> str:
    """The last line of the innermost reason: what is before it are names of classes."""
    reason = getattr(error, "reason", None) or error.__cause__
    if isinstance(reason, BaseException):
        return _innermost(reason)
    return (str(reason or error).strip().splitlines() or [type(error).__name__])[-1]


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
