"""What verify asks of a cluster: reads, a program in a pod, and pods of its own."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final

ANSWER_S: Final = 10
LOOK_S: Final = 0.3
PATIENCE_S: Final = 5.0
"""How long a pod may have reasons not to start before it is given up."""
GPU: Final = "nvidia.com/gpu"
OWN: Final = {"app.kubernetes.io/name": "gpu-verify"}
Object = dict[str, Any]


class UnreachableError(Exception):
    """The API server does not answer, or does not let us in; the message says how."""


class ForbiddenError(Exception):
    """The API server refuses one question."""


@dataclass(frozen=True)
class Probed:
    """What the probe printed in a pod, or why it did not."""

    answer: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


class Cluster:
    """One cluster, named by a kubeconfig: a file, or its content."""

    def __init__(self, kubeconfig: str | Mapping[str, Any], context: str | None = None) -> None:
        from kubernetes import client, config

        settings = client.Configuration()
        try:
            if isinstance(kubeconfig, str):
                config.load_kube_config(kubeconfig, context, client_configuration=settings)
            else:
                config.load_kube_config_from_dict(
                    kubeconfig, context, client_configuration=settings
                )
        except config.ConfigException as error:
            source = kubeconfig if isinstance(kubeconfig, str) else "the kubeconfig"
            raise UnreachableError(f"{source}: {error}") from None
        settings.retries = False
        self.host: str = settings.host
        self._settings = settings
        self._api = client.ApiClient(settings)

    def get(self, path: str) -> Any:
        """What the API server answers; None for 404.

        Raises:
            UnreachableError: nothing answers, or nobody is let in.
            ForbiddenError: this question is refused.
        """
        return self._request("GET", path)

    def _request(self, method: str, path: str, body: object = None) -> Any:
        from urllib3.exceptions import HTTPError

        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        try:
            answer = self._api.call_api(
                method, self.host + path, headers, body, _request_timeout=ANSWER_S
            )
            text = answer.read()
        except (HTTPError, OSError) as error:
            raise UnreachableError(f"{self.host} does not answer: {_innermost(error)}") from None
        if answer.status == 404:
            return None
        if answer.status == 401:
            raise UnreachableError(f"{self.host} does not accept the credentials (401)")
        if answer.status >= 400:
            raise ForbiddenError(f"{method} {path}: {answer.status} {_message(text)}")
        try:
            return json.loads(text)
        except ValueError:
            raise UnreachableError(f"{self.host} does not answer as a Kubernetes API") from None

    def items(self, path: str) -> list[Object]:
        """A collection; empty where its kind does not exist."""
        found = self.get(path)
        return [] if found is None else list(found["items"])

    def core(self) -> Any:
        """The client's core API, for streams; one of its own, because a stream takes it over."""
        from kubernetes import client

        return client.CoreV1Api(client.ApiClient(self._settings))

    def probe_pod(self, spec: Object, namespace: str, seconds: float) -> Probed:
        """Run the probe in a pod of its own, which is gone afterwards."""
        name = f"gpu-verify-{uuid.uuid4().hex[:8]}"
        folder = f"/api/v1/namespaces/{namespace}/pods"
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": OWN},
            "spec": {"restartPolicy": "Never", "enableServiceLinks": False, **spec},
        }
        self._request("POST", folder, body)
        try:
            return self._await(f"{folder}/{name}", seconds)
        finally:
            self._request("DELETE", f"{folder}/{name}?gracePeriodSeconds=0")

    def _await(self, path: str, seconds: float) -> Probed:
        begin = time.monotonic()
        while True:
            pod = self.get(path)
            if pod is None:
                return Probed(problem="the pod was removed by somebody else")
            phase = pod["status"].get("phase")
            if phase in ("Succeeded", "Failed"):
                return self._logs(path, pod)
            waited = time.monotonic() - begin
            said = self._complaints(pod) if waited > PATIENCE_S else []
            if waited > seconds or said:
                why = f" ({'; '.join(said)})" if said else _why(pod)
                return Probed(problem=f"the pod is {phase} after {waited:.0f} s{why}")
            time.sleep(LOOK_S)

    def _complaints(self, pod: Object) -> list[str]:
        """What keeps a pod from starting, in the words of scheduler and kubelet."""
        meta, conditions = pod["metadata"], pod["status"].get("conditions") or ()
        folder = f"/api/v1/namespaces/{meta['namespace']}/events"
        chosen = f"involvedObject.uid%3D{meta['uid']}%2Ctype%3DWarning"
        try:
            events = self.items(f"{folder}?fieldSelector={chosen}")
        except ForbiddenError:
            events = []
        said = self._silence(pod)
        said += [one.get("message") for one in conditions if one.get("reason") == "Unschedulable"]
        said += [one["message"] for one in events if one.get("reason") != "FailedScheduling"]
        return list(dict.fromkeys(str(text) for text in said if text))

    def _silence(self, pod: Object) -> list[str]:
        """A node that has fallen silent starts nothing."""
        name = pod["spec"].get("nodeName")
        node = self.get(f"/api/v1/nodes/{name}") if name else None
        conditions = (node or {}).get("status", {}).get("conditions") or ()
        return [
            f"node {name} is not ready: {one.get('message')}"
            for one in conditions
            if one["type"] == "Ready" and one["status"] != "True"
        ]

    def _logs(self, path: str, pod: Object) -> Probed:
        answer = self._api.call_api(
            "GET", f"{self.host}{path}/log", {"Accept": "*/*"}, _request_timeout=ANSWER_S
        )
        text = answer.read().decode(errors="replace")
        found = read_answer(text)
        if found.problem and pod["status"].get("phase") == "Failed":
            return Probed(problem=f"the pod failed{_why(pod)}: {text.strip()[-300:]}")
        return found


class NoCluster(Cluster):
    """A cluster to which there is no way: every question ends with the reason."""

    def __init__(self, why: str) -> None:
        self.host = "no cluster"
        self._why = why

    def _request(self, method: str, path: str, body: object = None) -> Any:
        raise UnreachableError(self._why)


def program() -> str:
    """The probe's text."""
    return resources.files(__package__).joinpath("probe_program.py").read_text("utf-8")


def read_answer(text: str) -> Probed:
    """The probe's line among whatever else was printed."""
    for line in reversed(text.strip().splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and "cuda" in found:
            return Probed(answer=found)
    return Probed(problem=f"the probe did not answer: {text.strip()[-300:] or 'no output'}")


def _why(pod: Object) -> str:
    """The reasons in a pod's status."""
    status = pod["status"]
    said = [one.get("message", "") for one in status.get("conditions") or ()]
    for one in status.get("containerStatuses") or ():
        for state in one["state"].values():
            said += [state.get("reason", ""), state.get("message", "")]
    texts = list(dict.fromkeys(text for text in said if text))
    return f" ({'; '.join(texts)})" if texts else ""


def _message(text: bytes) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.decode(errors="replace").strip()[:200]


def _innermost(error: BaseException) -> str:
    reason = getattr(error, "reason", None) or error.__cause__
    return _innermost(reason) if isinstance(reason, BaseException) else str(error)
