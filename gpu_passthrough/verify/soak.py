"""A soak: look for a while whether anything restarts.

A machine with the NVIDIA extensions and without a card runs well for more than an hour and then
reboots for ever; one look shows nothing of that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from gpu_passthrough.checks.finding import Finding
from gpu_passthrough.config import Stack
from gpu_passthrough.verify.check import Check
from gpu_passthrough.verify.cluster import Cluster, Object, UnreachableError
from gpu_passthrough.verify.state import is_ready

SOAK_NODE: Final = Check("soak", "The machine does not restart while it is watched", "talos")
SOAK_APP: Final = Check("soak-app", "The app does not restart while it is watched", "app")
LOOK_S: Final = 5.0
"""From one look to the next."""
SAY_S: Final = 60.0
"""A quiet soak says so this often."""


@dataclass
class Soak:
    """One soak: how things were at its begin, and what has changed since."""

    cluster: Cluster
    stack: Stack
    seconds: float
    say: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _changed: dict[str, str] = field(default_factory=dict)
    """What happened to whom."""
    _silent: str = ""
    """Why the last look found no cluster."""

    def run(self) -> Iterator[Finding]:
        """Watch until the time is over or something has restarted."""
        begin = spoken = self.clock()
        first = self._look()
        while not self._changed and (left := begin + self.seconds - self.clock()) > 0:
            self.sleep(min(LOOK_S, left))
            now = self.clock()
            self._compare(first, now - begin)
            if now - spoken >= SAY_S:
                self.say(f"watching: {now - begin:.0f} of {self.seconds:.0f} s, nothing restarts")
                spoken = now
        yield from self._findings(self.clock() - begin)

    def _look(self) -> dict[str, str]:
        """What marks one life of each node and app."""
        nodes = {one["metadata"]["name"]: one for one in self.cluster.items("/api/v1/nodes")}
        pods = self.cluster.items("/api/v1/pods")
        lives = {name: _boot(nodes.get(name)) for name in self.stack.members}
        return lives | {
            f"{app.namespace}/{name}": _restarts(pods, app.namespace, name)
            for name, app in self.stack.apps.items()
        }

    def _compare(self, first: dict[str, str], after: float) -> None:
        try:
            now = self._look()
        except UnreachableError as error:
            # A control plane that restarts is silent; its boot shows afterwards.
            self._silent = str(error)
            return
        self._silent = ""
        for name, life in first.items():
            if now[name] != life:
                self._changed[name] = f"after {after:.0f} s: {now[name]}, before: {life}"

    def _findings(self, watched: float) -> Iterator[Finding]:
        if self._silent:
            raise UnreachableError(self._silent)
        for name in self.stack.members:
            yield self._node(name, watched)
        for name, app in self.stack.apps.items():
            yield self._app(f"{app.namespace}/{name}", watched)

    def _node(self, name: str, watched: float) -> Finding:
        if name not in self._changed:
            return SOAK_NODE.passed(name, f"no restart in {watched:.0f} s")
        return SOAK_NODE.failed(
            name,
            f"it restarted or fell silent {self._changed[name]}",
            "Everything on it ends with it, again and again where the image is the wrong one.",
            "Does the machine have the card that its image's NVIDIA extensions expect? Without one"
            " it restarts for ever. Otherwise talosctl dmesg and the host's task log say who did"
            " it.",
            f"kubectl get node {name} -o jsonpath={{.status.nodeInfo.bootID}}",
            self._changed[name],
        )

    def _app(self, name: str, watched: float) -> Finding:
        if name not in self._changed:
            return SOAK_APP.passed(name, f"no restart in {watched:.0f} s")
        namespace, _, app = name.partition("/")
        return SOAK_APP.failed(
            name,
            f"its pods changed {self._changed[name]}",
            "What it computed is lost.",
            f"kubectl -n {namespace} describe pods -l app.kubernetes.io/name={app}; the log of the"
            " container before: kubectl logs --previous",
            f"kubectl -n {namespace} get pods -l app.kubernetes.io/name={app}",
            self._changed[name],
        )


def _boot(node: Object | None) -> str:
    if node is None:
        return "no such node"
    if not is_ready(node):
        return "not ready"
    return f"boot {node['status']['nodeInfo'].get('bootID', 'without an id')}"


def _restarts(pods: list[Object], namespace: str, app: str) -> str:
    """Pods of an app with the restarts of their containers."""
    own = [
        pod
        for pod in pods
        if pod["metadata"]["namespace"] == namespace
        and (pod["metadata"].get("labels") or {}).get("app.kubernetes.io/name") == app
    ]
    lives = [f"{pod['metadata']['name']} with {_count(pod)} restarts" for pod in own]
    return ", ".join(sorted(lives)) or "no pod"


def _count(pod: dict[str, Any]) -> int:
    statuses = pod["status"].get("containerStatuses") or ()
    return sum(int(one.get("restartCount", 0)) for one in statuses)
