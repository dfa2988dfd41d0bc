"""References and status of pods."""

from __future__ import annotations

from typing import Any

import pytest

from rack.cluster.pod_status import is_initialised, status
from rack.cluster.references import missing_variable, missing_volume

NOW = 1_800_000_000.0
KNOWN = {("configmap", "there"), ("secret", "there")}


def with_volume(**source: Any) -> dict[str, Any]:
    return {"spec": {"volumes": [{"name": "v", **source}]}}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMap": {"name": "there"}}, ""),
        ({"configMap": {"name": "gone"}}, 'configmap "gone" not found'),
        ({"configMap": {"name": "gone", "optional": True}}, ""),
        ({"secret": {"secretName": "there"}}, ""),
        ({"secret": {"secretName": "gone"}}, 'secret "gone" not found'),
        ({"projected": {"sources": [{"configMap": {"name": "there"}}]}}, ""),
        (
            {"projected": {"sources": [{"secret": {"name": "gone"}}]}},
            'secret "gone" not found',
        ),
        ({"emptyDir": {}}, ""),
    ],
)
def test_volumes_whose_source_is_missing(source: dict[str, Any], message: str) -> None:
    assert missing_volume(with_volume(**source), KNOWN) == (("v" if message else ""), message)


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"envFrom": [{"secretRef": {"name": "there"}}]}, ""),
        ({"envFrom": [{"secretRef": {"name": "gone"}}]}, 'secret "gone" not found'),
        ({"envFrom": [{"configMapRef": {"name": "gone", "optional": True}}]}, ""),
        (
            {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "gone"}}}]},
            'configmap "gone" not found',
        ),
        ({"env": [{"name": "A", "value": "b"}]}, ""),
        ({}, ""),
    ],
)
def test_variables_whose_source_is_missing(container: dict[str, Any], message: str) -> None:
    assert missing_variable(container, KNOWN) == message


def one(state: str, code: int = 0, *, last: bool = False) -> dict[str, Any]:
    states: dict[str, Any] = {
        "running": {"startedAt": "2026-01-01T00:00:00Z"},
        "waiting": {"reason": "CrashLoopBackOff"},
        "terminated": {"exitCode": code},
    }
    return {
        "name": "c",
        "ready": state == "running" or (state == "terminated" and code == 0),
        "started": state == "running",
        "state": {state: states[state]},
        "lastState": {"terminated": {"exitCode": 1}} if last else {},
    }


def found(policy: str, containers: list[Any], init: list[Any] | None = None) -> dict[str, Any]:
    pod = {"metadata": {"uid": "u"}, "spec": {"restartPolicy": policy}}
    return status(
        pod,
        init or [],
        containers,
        has_sandbox=True,
        address="10.244.1.2",
        host_address="127.0.0.2",
        now=NOW,
    )


@pytest.mark.parametrize(
    ("policy", "containers", "phase"),
    [
        ("Always", [one("running")], "Running"),
        ("Always", [one("running"), one("waiting")], "Running"),
        ("Always", [one("waiting")], "Pending"),
        ("Always", [one("waiting", last=True)], "Running"),
        ("Always", [one("terminated", 1)], "Running"),
        ("Always", [one("terminated", 0)], "Running"),
        ("OnFailure", [one("terminated", 0)], "Succeeded"),
        ("OnFailure", [one("terminated", 1)], "Running"),
        ("Never", [one("terminated", 0)], "Succeeded"),
        ("Never", [one("terminated", 1)], "Failed"),
        ("Never", [one("terminated", 1), one("running")], "Running"),
    ],
)
def test_phases(policy: str, containers: list[Any], phase: str) -> None:
    assert found(policy, containers)["phase"] == phase


@pytest.mark.parametrize(
    ("policy", "init", "phase"),
    [
        ("Always", one("running"), "Running"),  # a sidecar that has started
        ("Always", one("terminated", 1), "Pending"),
        ("Never", one("terminated", 1), "Failed"),
        ("Never", one("terminated", 0), "Running"),
    ],
)
def test_phases_while_it_initialises(policy: str, init: dict[str, Any], phase: str) -> None:
    main = one("running") if is_initialised([init]) else one("waiting")
    assert found(policy, [main], [init])["phase"] == phase


def test_conditions_of_a_running_and_a_waiting_pod() -> None:
    def values(of: dict[str, Any]) -> dict[str, str]:
        return {one["type"]: one["status"] for one in of["conditions"]}

    assert set(values(found("Always", [one("running")])).values()) == {"True"}
    waiting = found("Always", [one("waiting")])
    assert values(waiting)["Ready"] == values(waiting)["ContainersReady"] == "False"
    ready = next(one for one in waiting["conditions"] if one["type"] == "Ready")
    assert ready["message"] == "containers with unready status: [c]"


def test_a_condition_of_others_stays() -> None:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "x"}
    pod = {"metadata": {"uid": "u"}, "spec": {}, "status": {"conditions": [scheduled]}}
    made = status(
        pod, [], [one("running")], has_sandbox=True, address="a", host_address="b", now=NOW
    )
    assert scheduled in made["conditions"]
