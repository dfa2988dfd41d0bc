"""What verify asks of a cluster: reads, a program in a pod, and pods of its own."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final

from gpu_passthrough.kubeapi import ForbiddenError, KubernetesApi, Object, UnreachableError

__all__ = ["Cluster", "ForbiddenError", "NoCluster", "Object", "Probed", "UnreachableError"]

LOOK_S: Final = 0.3
PATIENCE_S: Final = 5.0
"""How long a pod may have reasons not to start before it is given up."""
LINGERS_S: Final = 60
"""How much longer a probe's pod may run than somebody waits for it."""
GPU: Final = "nvidia.com/gpu"
OWN: Final = {"app.kubernetes.io/name": "gpu-verify"}


@dataclass(frozen=True)
class Probed:
    """What the probe printed in a pod, or why it did not."""

    answer: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


class Cluster(KubernetesApi):
    """A cluster in which the probe runs in pods of its own."""

    def probe_pod(self, spec: Object, namespace: str, seconds: float) -> Probed:
        """Run the probe in a pod of its own, which is gone afterwards."""
        name = f"gpu-verify-{uuid.uuid4().hex[:8]}"
        folder = f"/api/v1/namespaces/{namespace}/pods"
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": OWN},
            "spec": {
                "restartPolicy": "Never",
                "enableServiceLinks": False,
                "automountServiceAccountToken": False,
                # Whoever waits for it may be killed: it ends by itself then, and frees its GPUs.
                "activeDeadlineSeconds": int(seconds) + LINGERS_S,
                **spec,
            },
        }
        self.create(folder, body)
        try:
            return self._await(f"{folder}/{name}", seconds)
        finally:
            self.delete(f"{folder}/{name}?gracePeriodSeconds=0")

    def _await(self, path: str, seconds: float) -> Probed:
        begin = time.monotonic()
        before: list[str] = []
        while True:
            pod = self.get(path)
            if pod is None:
                return Probed(problem="the pod was removed by somebody else")
            phase = pod["status"].get("phase")
            if phase in ("Succeeded", "Failed"):
                return self._logs(path, pod)
            waited = time.monotonic() - begin
            if waited > seconds:
                return Probed(problem=f"the pod is {phase} after {waited:.0f} s{_why(pod)}")
            # What is said once may pass; what is said again, with new words or old, does not.
            is_late = phase == "Pending" and waited > PATIENCE_S
            said = self._complaints(pod) if is_late else []
            if said and before and waited > 2 * PATIENCE_S:
                why = "; ".join(said)
                return Probed(problem=f"the pod is {phase} after {waited:.0f} s ({why})")
            before = before or said
            time.sleep(LOOK_S if not said else 1.0)

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
        text = self.text(f"{path}/log")
        found = read_answer(text)
        if found.problem and pod["status"].get("phase") == "Failed":
            return Probed(problem=f"the pod failed{_why(pod)}: {text.strip()[-300:]}")
        return found


class NoCluster(Cluster):
    """A cluster to which there is no way: every question ends with the reason."""

    def __init__(self, why: str) -> None:
        self.host = "no cluster"
        self._why = why

    def request(
        self, method: str, path: str, body: Object | None = None, accept: str = ""
    ) -> bytes | None:
        """Raise UnreachableError."""
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
