"""Layers 3 to 5: the operator on the nodes that there are, and the pods that claim their cards."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from ruamel.yaml import YAML

from rack.charts.repository import build
from rack.world import gfd
from rack.world.nodefacts import NodeFacts
from rack.world.operator import DaemonSetView, NodeView, nfd_labels, plan, status
from rack.world.operator import device_list_strategy as strategies
from rack.world.pod import PodContext, admit, start
from rack.world.sharing import Sharing, sharing

from .hardware import Failure

Object = Mapping[str, Any]
PLAIN: Final = (
    *("toolkit", "dcgm", "gfd", "gds", "gdrcopy", "vgpuManager", "vgpuDeviceManager"),
    *("vfioManager", "kataManager", "sandboxDevicePlugin", "sandboxWorkloads", "mig", "psa", "cdi"),
    *("hostPaths", "daemonsets"),
)
"""Parts of the chart's values that become parts of the ClusterPolicy as they are."""
ROUNDS: Final = 8
"""More than the operator's longest chain of waits."""
CONTROL_PLANE: Final = [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]
"""What a part of node feature discovery tolerates where the values say nothing."""
KEEP_OUT: Final = ("NoSchedule", "NoExecute")


@cache
def chart_values(version: str) -> dict[str, Any]:
    """The default values of a release of the chart; a Failure where there is none."""
    package = build().get(f"gpu-operator-{version}.tgz")
    if package is None:
        raise Failure("helm", f'chart "gpu-operator" version "{version}" not found')
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        file = archive.extractfile("gpu-operator/values.yaml")
        found: dict[str, Any] = YAML(typ="safe", pure=True).load(file)
    return found


def overlaid(defaults: Any, given: Any) -> Any:
    """Values over a chart's own, as Helm lays them: maps by key, null takes away."""
    if not (isinstance(defaults, dict) and isinstance(given, Mapping)):
        return given
    merged = {**defaults, **{k: overlaid(defaults.get(k), v) for k, v in given.items()}}
    return {key: value for key, value in merged.items() if value is not None}


def cluster_policy(version: str, given: Object) -> dict[str, Any]:
    """The ClusterPolicy that the chart makes of values."""
    values = overlaid(chart_values(version), given)
    spec = {name: values[name] for name in PLAIN if name in values}
    for name in ("operator", "validator", "driver", "devicePlugin", "migManager", "dcgmExporter"):
        spec[name] = dict(values[name])
    spec["validator"].setdefault("version", version)
    return {"metadata": {"name": "cluster-policy"}, "spec": spec}


@dataclass
class NodeState:
    """A node: what it is, and what has become of it."""

    facts: NodeFacts
    labels: dict[str, str]
    markers: frozenset[str] = frozenset()
    offers: dict[str, int] = field(default_factory=dict)
    """Slots by resource name."""
    sharing: Sharing = field(default_factory=Sharing)
    taken: int = 0

    def admits(self, spec: Object) -> bool:
        """The scheduler's filters for a pod: selector, affinity, taints."""
        wanted = spec.get("nodeSelector") or {}
        if any(self.labels.get(key) != value for key, value in wanted.items()):
            return False
        tolerations = spec.get("tolerations") or ()
        taints = [one for one in self.facts.taints if one["effect"] in KEEP_OUT]
        return self._is_wanted(spec) and all(
            any(_tolerates(one, taint) for one in tolerations) for taint in taints
        )

    def _is_wanted(self, spec: Object) -> bool:
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
        terms = required.get("nodeSelectorTerms") or []
        return not terms or any(
            all(self.labels.get(one["key"]) in one["values"] for one in term["matchExpressions"])
            for term in terms
        )

    def context(self, spec: Object, classes: Mapping[str, str], how: tuple[str, ...]) -> PodContext:
        """What the kubelet knows for a pod that claims slots: the cards that are still free."""
        gpus: dict[str, tuple[str, ...]] = {}
        for container in spec["containers"]:
            count = sum(int(n) for n in claims(container).values())
            free = [one.uuid for one in self.facts.gpus for _ in range(self.sharing.replicas)]
            gpus[container["name"]] = tuple(free[self.taken : self.taken + count])
            self.taken += count
        return PodContext(
            gpus=gpus,
            runtime_classes=dict(classes),
            device_list_strategy=how,
            markers=self.markers,
            gpu_capacity=sum(self.offers.values()),
            largest_claim=self.sharing.largest_claim,
        )


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return (toleration.get("key"), toleration.get("value", "")) == (taint["key"], taint["value"])


def claims(container: Object) -> dict[str, str]:
    """The GPU resources that a container claims."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return {name: count for name, count in limits.items() if name.startswith("nvidia.com/")}


class Cluster:
    """A cluster with a release of the operator."""

    def __init__(self, nodes: list[NodeFacts], release: Object, *, is_new: bool) -> None:
        self.version = str(release["version"])
        self.namespace = str(release["namespace"])
        self.values = overlaid(chart_values(self.version), release["values"])
        self.policy = cluster_policy(self.version, release["values"])
        self.config = (release["values"].get("devicePlugin") or {}).get("config") or {}
        # A cluster that exists may have node feature discovery of its own.
        discovers = not is_new or (release["values"].get("nfd") or {}).get("enabled", True)
        self.nodes = {one.name: NodeState(one, _labels(one, discovers)) for one in nodes}
        self._place_release()
        self.classes: dict[str, str] = {}
        self.pending: dict[str, str] = {}
        """What keeps an operand from being ready, by daemon set and node."""

    def _place_release(self) -> None:
        """Each of the release's own Deployments finds a node, or Helm waits in vain."""
        found = self.values["node-feature-discovery"]
        parts = {"gpu-operator": self.values["operator"]}
        parts |= {f"nfd-{one}": found.get(one) or {} for one in ("master", "gc")}
        for name, part in parts.items():
            spec = {"tolerations": part.get("tolerations", CONTROL_PLANE)}
            if not any(node.admits(spec) for node in self.nodes.values()):
                raise Failure("helm", f"Deployment {name} stays Pending: no node admits its pod")

    def settle(self) -> None:
        """Let the operator and its operands work until nothing changes any more.

        Raises:
            Failure: the ClusterPolicy does not become ready, or a card is not offered.
        """
        for _ in range(ROUNDS):
            views = [NodeView(name=name, labels=one.labels) for name, one in self.nodes.items()]
            done = plan(self.policy, views, self.namespace)
            for name, changes in done.node_labels.items():
                _relabel(self.nodes[name].labels, changes)
            if done.error:
                raise Failure("operator", done.error)
            self.classes = dict(done.runtime_classes)
            sets = [self._run(one) for one in done.daemon_sets]
        found = status(done, sets)
        if found.state != "ready":
            said = "; ".join(f"{who}: {what}" for who, what in self.pending.items())
            raise Failure("operator", f"{found.conditions[1].message} ({said})")

    def _run(self, manifest: Object) -> DaemonSetView:
        """One daemon set on every node that it goes to."""
        spec, name = manifest["spec"]["template"]["spec"], manifest["metadata"]["name"]
        places = [one for one in self.nodes.values() if one.admits(spec)]
        problems = {one.facts.name: self._operand(name, spec, one) for one in places}
        self.pending = {k: v for k, v in self.pending.items() if not k.startswith(f"{name} ")}
        self.pending |= {f"{name} on {node}": text for node, text in problems.items() if text}
        unready = sum(1 for text in problems.values() if text)
        return DaemonSetView(state=name, desired=len(places), unavailable=unready)

    def _operand(self, name: str, spec: Object, node: NodeState) -> str:
        """Run an operand's pod; say what it waits for."""
        pod = {"metadata": {"name": name, "namespace": self.namespace}, "spec": spec}
        how = strategies(self.policy)
        node.taken = 0
        context = node.context(spec, self.classes, how)
        if rejection := admit(pod, node.facts, self.classes, context):
            return rejection.message
        outcome = start(pod, node.facts, context)
        node.markers |= outcome.markers
        for part, one in {**outcome.init, **outcome.containers}.items():
            if one.state != "running" and not (one.state == "exited" and one.exit_code == 0):
                return f"{part}: {one.reason} {' / '.join(one.log_lines[-2:])}"
            if part in outcome.init and one.state == "running":
                return f"{part}: {' / '.join(one.log_lines[-2:])}"
        self._ready(name, node)
        return ""

    def _ready(self, name: str, node: NodeState) -> None:
        node.sharing = sharing(self.policy, self.config.get("data") or {}, node.labels)
        if name == "nvidia-device-plugin-daemonset":
            node.offers = {node.sharing.resource: len(node.facts.gpus) * node.sharing.replicas}
        if name == "gpu-feature-discovery":
            version = str(self.policy["spec"]["gfd"]["version"])
            node.labels |= gfd.labels(node.facts, version, node.sharing)

    def offers(self, expected: Mapping[str, int]) -> None:
        """Every card is offered.

        Raises:
            Failure: a node offers fewer slots than expected.
        """
        for name, count in expected.items():
            if sum(self.nodes[name].offers.values()) < count:
                raise Failure("operator", f"node {name} offers {self.nodes[name].offers}")


def _labels(facts: NodeFacts, discovers: bool) -> dict[str, str]:
    own = {"kubernetes.io/hostname": facts.name, "kubernetes.io/os": "linux"}
    return {**facts.labels, **own, **(nfd_labels(facts) if discovers else {})}


def _relabel(labels: dict[str, str], changes: Mapping[str, str | None]) -> None:
    for key, value in changes.items():
        if value is None:
            labels.pop(key, None)
        else:
            labels[key] = value


NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SERVICE: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
ENV: Final = re.compile(r"[ -<>-~]+")
IMAGE: Final = re.compile(
    r"([a-zA-Z0-9.-]+(:\d+)?/)?[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*"
    r"(:\w[\w.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)


def objects_problem(recorded: Iterator[tuple[str, str, Object]]) -> str:
    """What the API server refuses of objects: kind, resource name and inputs of each."""
    seen: set[tuple[str, str, str]] = set()
    for kind, name, inputs in recorded:
        metadata = inputs.get("metadata") or {}
        wanted = SERVICE if kind == "Service" else NAME
        own = metadata.get("name")
        if own is not None and not (len(own) <= 63 or kind == "PersistentVolumeClaim"):
            return f"{kind} {own}: must be no more than 63 characters"
        if own is not None and not wanted.fullmatch(own):
            return f"{kind} {own}: metadata.name: Invalid value"
        identity = (kind, metadata.get("namespace") or "", own or name)
        if identity in seen:
            return f"{kind} {own} already exists"
        seen.add(identity)
    return ""


def pod_problem(spec: Object) -> str:
    """What the API server, or the kubelet at once, refuses of a pod."""
    for container in spec["containers"]:
        names = [one["name"] for one in container.get("env") or ()]
        wrong = next((one for one in names if not ENV.fullmatch(one)), None)
        if wrong is not None:
            return f"env name {wrong!r}: a valid environment variable name must consist of…"
        if not IMAGE.fullmatch(container["image"]):
            return f"InvalidImageName: couldn't parse image reference {container['image']!r}"
        places = [one["mountPath"] for one in container.get("volumeMounts") or ()]
        if len(set(places)) < len(places):
            return f"volumeMounts: must be unique: {places}"
    return ""
