"""The apps: as the stack says, on cards that fit, with their volumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpu_passthrough import placement
from gpu_passthrough.checks.finding import Finding
from gpu_passthrough.config import App, Stack
from gpu_passthrough.verify.check import Check
from gpu_passthrough.verify.state import State, is_ready

FAILED_PODS: Final = Check("failed-pods", "No failed pods hold up the app's next rollout", "app")
APP: Final = Check("app", "The app's pods run on a card that fits", "app")
VOLUMES: Final = Check("volumes", "The app's volumes are bound and its strategy fits them", "app")


def apps(stack: Stack, state: State, only: str | None) -> Iterator[Finding]:
    """Each app's Deployment, pods and volumes."""
    for name, app in stack.apps.items():
        if only not in (None, name):
            continue
        yield from _drift(stack, state, name)
        yield from _failed_pods(stack, state, name)
        yield _pods(stack, state, name)
        claims = [f"{name}-{volume}" for volume in app.volumes]
        for claim in claims:
            yield _volume(state, app, claim)
        if claims:
            yield _strategy(state, app.namespace, name, claims)


def _pods(stack: Stack, state: State, name: str) -> Finding:
    app = stack.apps[name]
    pods = state.pods_of(app.namespace, name)
    ready = [pod for pod in pods if is_ready(pod)]
    phases = [pod["status"].get("phase") for pod in pods]
    if len(ready) < app.replicas:
        return APP.failed(
            name,
            f"{len(ready)} of {app.replicas} pods are ready{_waiting(pods)}",
            "The app does not serve.",
            f"kubectl -n {app.namespace} describe pods -l app.kubernetes.io/name={name}",
            f"kubectl -n {app.namespace} get pods",
            phases,
        )
    if len(pods) > app.replicas:
        return APP.failed(
            name,
            f"a rollout does not end: {len(pods)} pods for {app.replicas}{_waiting(pods)}",
            "The old version serves, and no change reaches it.",
            f"kubectl -n {app.namespace} get events; a Multi-Attach error means that the new"
            " pod waits for a volume of the old one: strategy Recreate.",
            f"kubectl -n {app.namespace} rollout status deployment/{name}",
            phases,
        )
    if misplaced := _misplaced(stack, name, ready):
        return APP.failed(
            name,
            "; ".join(misplaced.values()),
            "It ends with an error at the first call, or when the card's memory is full.",
            "Pin the app to a card that fits: nodeSelector nvidia.com/gpu.product in the stack"
            " file; `python -m gpu_passthrough plan` says which do.",
            f"kubectl -n {app.namespace} get pods -o wide",
            sorted(misplaced),
        )
    places = ", ".join(sorted({pod["spec"]["nodeName"] for pod in ready}))
    return APP.passed(name, f"{len(ready)} on {places}" if places else "no replicas asked")


def _failed_pods(stack: Stack, state: State, name: str) -> Iterator[Finding]:
    """Kubernetes looks at a Recreate rollout again when no pod is left, and counts failed ones.

    A restart of a GPU node leaves some: kubelet starts pods before the device plugin is back.
    Source: deletePod in pkg/controller/deployment/deployment_controller.go of Kubernetes 1.34.
    """
    app = stack.apps[name]
    failed = state.failed_pods_of(app.namespace, name)
    deployment = state.deployment(app.namespace, name) or {}
    strategy = deployment.get("spec", {}).get("strategy") or {}
    if not failed or strategy.get("type") != "Recreate":
        return
    is_stuck = bool(app.replicas) and not state.pods_of(app.namespace, name)
    report = FAILED_PODS.failed if is_stuck else FAILED_PODS.warned
    reasons = sorted({str(pod["status"].get("reason") or "Failed") for pod in failed})
    yield report(
        name,
        f"failed pods are left ({len(failed)}): {', '.join(reasons)}",
        "The next rollout waits for them after the old pod has gone: no new pod is made.",
        f"kubectl -n {app.namespace} delete pods -l app.kubernetes.io/name={name}"
        " --field-selector status.phase=Failed",
        f"kubectl -n {app.namespace} get pods -l app.kubernetes.io/name={name}",
        [pod["metadata"]["name"] for pod in failed],
    )


def _drift(stack: Stack, state: State, name: str) -> Iterator[Finding]:
    """Somebody changed the Deployment in what brings it to its GPU."""
    app = stack.apps[name]
    deployment = state.deployment(app.namespace, name)
    if deployment is None:
        yield APP.failed(
            f"deployment {name}",
            "there is no such Deployment",
            "Nothing of the app runs.",
            "`pulumi up --refresh` makes it again.",
            f"kubectl -n {app.namespace} get deployments",
            "not found",
        )
        return
    spec = deployment["spec"]
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    limits = (container.get("resources") or {}).get("limits") or {}
    wanted_and_found = {
        "runtimeClassName": (app.runtime_class_name, pod.get("runtimeClassName")),
        f"limit {stack.gpu_resource}": (str(app.gpus), limits.get(stack.gpu_resource)),
        "image": (app.image, container.get("image")),
        "replicas": (app.replicas, spec.get("replicas", 1)),
        "nodeSelector": (dict(app.node_selector), pod.get("nodeSelector") or {}),
    }
    changed = [
        f"{key} is {_said(found, 'absent')}, the stack says {_said(wanted, 'none')}"
        for key, (wanted, found) in wanted_and_found.items()
        if wanted != found
    ]
    if changed:
        yield APP.failed(
            f"deployment {name}",
            "; ".join(changed),
            "What was checked before it was built no longer holds.",
            _put_back(app, name, spec),
            f"kubectl -n {app.namespace} get deployment {name} -o yaml",
            "; ".join(changed),
        )


def _said(value: object, nothing: str) -> object:
    return nothing if value is None or value == {} else value


def _put_back(app: App, name: str, spec: Mapping[str, Any]) -> str:
    """Server-side apply refuses to take the number of replicas back from `kubectl scale`."""
    refresh = "`pulumi up --refresh` puts the stack's own back."
    if spec.get("replicas", 1) == app.replicas:
        return refresh
    scale = f"kubectl -n {app.namespace} scale deployment {name} --replicas {app.replicas}"
    return f"{scale}; of the rest {refresh}"


def _misplaced(stack: Stack, name: str, pods: list[Any]) -> dict[str, str]:
    """Nodes of an app's pods whose cards do not fit it, each with why; unknown cards fit."""
    kinds = {offer.node: offer.kind for offer in placement.offers(stack)}
    places = sorted({pod["spec"]["nodeName"] for pod in pods} & set(kinds))
    reasons = {
        node: placement.reason_against(stack.apps[name], node, kinds[node]) for node in places
    }
    return {node: f"{node}: {reason}" for node, reason in reasons.items() if reason}


def _strategy(state: State, namespace: str, name: str, claims: list[str]) -> Finding:
    """A rolling update never ends where old and new pod want the same volume on two nodes."""
    deployment = state.deployment(namespace, name)
    kind = ((deployment or {}).get("spec", {}).get("strategy") or {}).get("type", "absent")
    single = [
        one["metadata"]["name"]
        for one in state.claims
        if one["metadata"]["namespace"] == namespace
        and one["metadata"]["name"] in claims
        and "ReadWriteMany" not in one["spec"]["accessModes"]
    ]
    if kind != "RollingUpdate" or not single:
        return VOLUMES.passed(f"deployment {name}", f"strategy {kind}")
    return VOLUMES.failed(
        f"deployment {name}",
        f"its strategy is RollingUpdate, and {', '.join(single)} attaches to one node at a time",
        "The next rollout waits for ever as soon as the new pod lands on another node.",
        "Set strategy Recreate; `pulumi up --refresh` puts the stack's own back.",
        f"kubectl -n {namespace} get deployment {name} -o jsonpath={{.spec.strategy}}",
        kind,
    )


def _waiting(pods: list[Any]) -> str:
    """Why pods are not ready, in the words of scheduler and kubelet."""
    said: list[str] = []
    for pod in pods:
        if is_ready(pod):
            continue
        said += [
            str(one.get("message"))
            for one in pod["status"].get("conditions") or ()
            if one["type"] == "PodScheduled" and one["status"] != "True"
        ]
        for one in pod["status"].get("containerStatuses") or ():
            waiting = one["state"].get("waiting") or {}
            said += [str(text) for text in (waiting.get("reason"), waiting.get("message")) if text]
    texts = list(dict.fromkeys(text for text in said if text != "None"))
    return f": {'; '.join(texts)}" if texts else ""


def _volume(state: State, app: App, name: str) -> Finding:
    namespace = app.namespace
    found = next(
        (
            one
            for one in state.claims
            if (one["metadata"]["namespace"], one["metadata"]["name"]) == (namespace, name)
        ),
        None,
    )
    phase = (found or {}).get("status", {}).get("phase", "absent")
    if phase == "Bound":
        return VOLUMES.passed(name, "bound")
    if phase == "Pending" and not app.replicas:
        return VOLUMES.passed(name, "waits for the first pod; none is asked for")
    return VOLUMES.failed(
        name,
        f"the claim is {phase}",
        "The pod waits for its volume.",
        "Does the storage class exist, and can its provisioner make volumes?"
        f" kubectl -n {namespace} describe pvc {name}",
        f"kubectl -n {namespace} get pvc {name}",
        phase,
    )
