"""What `kubectl exec` and `kubectl logs` reach: kwok's Exec and Logs objects, one pair per pod.

kwok starts the named program with these variables on this machine; its PATH holds the rack's
programs and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rack.cluster.api import Api, ApiError, Object
from rack.files import private_folder, write_private
from rack.programs.container import CONTAINER, POD
from rack.settings import Settings

GROUP: Final = "kwok.x-k8s.io"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KINDS: Final = (("Exec", "execs", "exec"), ("Logs", "logs", "logs"), ("Stage", "stages", "stage"))
"""Kinds that kwok reads; it does not start without the last, of which there are none."""
PYTHON: Final = "RACK_PYTHON"


def install(api: Api) -> None:
    """Make the kinds known to the API server."""
    for kind, plural, singular in _KINDS:
        body = _definition(kind, plural, singular)
        if api.get(f"{_DEFINITIONS}/{body['metadata']['name']}") is None:
            api.create(_DEFINITIONS, body)


def _definition(kind: str, plural: str, singular: str) -> Object:
    is_namespaced = kind != "Stage"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            # The group belongs to the Kubernetes project, whose definitions are reviewed.
            "annotations": {"api-approved.kubernetes.io": "unapproved, simulated rack"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if is_namespaced else "Cluster",
            "names": {
                "kind": kind,
                "plural": plural,
                "singular": singular,
                "listKind": f"{kind}List",
            },
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def log_file(settings: Settings, uid: str, container: str, previous: bool = False) -> Path:
    """Where a container's log is, and that of its run before."""
    suffix = ".previous.log" if previous else ".log"
    return settings.home / "logs" / uid / f"{container}{suffix}"


def write_log(settings: Settings, uid: str, container: str, lines: Iterable[str]) -> None:
    """Begin the log of a run; the one before becomes the previous."""
    file = log_file(settings, uid, container)
    private_folder(settings.home / "logs")
    private_folder(file.parent)
    if file.exists():
        file.replace(log_file(settings, uid, container, previous=True))
    write_private(file, "".join(map(_line, lines)))


def extend_log(settings: Settings, uid: str, container: str, lines: Iterable[str]) -> None:
    """Add what a run has written since."""
    with log_file(settings, uid, container).open("a") as file:
        file.writelines(map(_line, lines))


def _line(text: str) -> str:
    """A line as container runtimes write it."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return f"{now} stdout F {text}\n"


def publish(api: Api, settings: Settings, pod: Mapping[str, Any]) -> None:
    """Let people into the pod. The objects go with it, by garbage collection."""
    names = [
        one["name"]
        for part in ("initContainers", "containers")
        for one in pod["spec"].get(part) or ()
    ]
    _put(api, pod, "Exec", "execs", {"execs": [_exec(settings, pod, name) for name in names]})
    _put(api, pod, "Logs", "logs", {"logs": [_logs(settings, pod, name) for name in names]})


def _exec(settings: Settings, pod: Mapping[str, Any], container: str) -> Object:
    variables = {
        POD: str(settings.pods_home / f"{pod['metadata']['uid']}.json"),
        CONTAINER: container,
        PYTHON: sys.executable,
    }
    envs = [{"name": name, "value": value} for name, value in variables.items()]
    return {"containers": [container], "local": {"envs": envs}}


def _logs(settings: Settings, pod: Mapping[str, Any], container: str) -> Object:
    uid = pod["metadata"]["uid"]
    return {
        "containers": [container],
        "logsFile": str(log_file(settings, uid, container)),
        "previousLogsFile": str(log_file(settings, uid, container, previous=True)),
        "follow": False,
    }


def _put(api: Api, pod: Mapping[str, Any], kind: str, plural: str, spec: Object) -> None:
    meta = pod["metadata"]
    folder = f"/apis/{GROUP}/v1alpha1/namespaces/{meta['namespace']}/{plural}"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    body: Object = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "ownerReferences": [owner],
        },
        "spec": spec,
    }
    try:
        api.create(folder, body)
    except ApiError as error:
        if error.status != 409:
            raise
        # Left from a pod of the same name, or from before the daemon's restart.
        api.merge(f"{folder}/{meta['name']}", body)
