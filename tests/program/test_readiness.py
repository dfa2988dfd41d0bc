"""The gates between the layers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pulumi
import pytest

from components import readiness
from components.readiness import NotReady, Wait, expected_gpus, missing_api, missing_gpus
from gpu_passthrough.kubeapi import KubernetesApi, parse
from tests.program.stacks import MACHINES, stack, without

GPU = "nvidia.com/gpu"
READY = [{"metadata": {"name": "cluster-policy"}, "status": {"state": "ready"}}]


def node(name: str, gpus: str | None = None) -> dict[str, Any]:
    offered = {GPU: gpus} if gpus else {}
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", **offered}}}


def missing(
    expected: dict[str, int] | None, *nodes: dict[str, Any], policies: Any = READY
) -> list[str]:
    return missing_gpus(policies, nodes, expected=expected, resource=GPU)


class Clock:
    """Time that passes only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def wait(*reads: Sequence[str], timeout_s: float = 600) -> tuple[list[str], Clock, int]:
    """Let a gate read these answers; the last one is repeated."""
    clock, said, count = Clock(), list[str](), 0

    def read() -> Sequence[str]:
        nonlocal count
        count += 1
        return reads[min(count, len(reads)) - 1]

    gate = Wait(subject="the GPUs", timeout_s=timeout_s, why="W.", fix="F.", setting="timeouts.x")
    asyncio.run(gate.until_ready(read, said.append, clock.sleep, clock))
    return said, clock, count


def test_one_good_read_is_not_enough() -> None:
    assert wait([])[2] == 2
    assert wait([], ["gone"], [])[2] == 4


def test_it_says_what_is_missing_once_and_again_when_that_changes() -> None:
    said, _, _ = wait(["a"], ["a"], ["b"], [])
    assert said == ["waiting for the GPUs (0 s): a", "waiting for the GPUs (2 s): b"]


def test_a_long_wait_is_not_silent() -> None:
    said, _, _ = wait(*[["a"]] * 65, [])
    assert [text.partition(")")[0] for text in said] == [
        f"waiting for the GPUs ({second} s" for second in (0, 30, 60)
    ]


def test_it_gives_up_in_time_and_says_what_why_and_what_to_do() -> None:
    with pytest.raises(NotReady) as error:
        wait(["node a offers 0 of 1", "node b has not joined"], timeout_s=5)
    text = str(error.value)
    for part in (
        "the GPUs not ready after 5 s",
        "- node a offers 0 of 1\n",
        "- node b has not joined\n",
        "Why: W.",
        "Fix: F.",
        "pulumi up",
        "timeouts.x",
    ):
        assert part in text


def test_a_good_read_at_the_last_moment_still_counts() -> None:
    _, clock, _ = wait(*[["a"]] * 5, [], timeout_s=5)
    assert clock.now == 6


def test_nothing_is_missing_where_policy_and_nodes_agree() -> None:
    assert missing({"w1": 1, "w2": 1}, node("cp"), node("w1", "1"), node("w2", "2")) == []


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ([], "node w1 has not joined the cluster"),
        ([node("w1")], "node w1 offers 0 of 2 nvidia.com/gpu"),
        ([node("w1", "1")], "node w1 offers 1 of 2 nvidia.com/gpu"),
    ],
)
def test_a_node_without_its_gpus_is_named(nodes: list[dict[str, Any]], problem: str) -> None:
    assert missing({"w1": 2}, *nodes) == [problem]


def test_a_ready_policy_is_no_gpu() -> None:
    """The operator is ready on a cluster without a single GPU node as well."""
    assert missing(None, node("w1")) == ["no node offers nvidia.com/gpu"]
    assert missing(None, node("w1"), node("w2", "1")) == []
    assert missing({}, node("w1")) == []


def test_the_policy_says_itself_what_it_waits_for() -> None:
    status = {
        "state": "notReady",
        "conditions": [
            {"type": "Ready", "status": "False", "message": "x"},
            {"type": "Error", "status": "True", "message": "ClusterPolicy is not ready"},
        ],
    }
    policies = [{"metadata": {"name": "cluster-policy"}, "status": status}]
    assert missing({}, policies=policies) == [
        "ClusterPolicy cluster-policy is notReady (ClusterPolicy is not ready)"
    ]
    fresh = [{"metadata": {"name": "cluster-policy"}}]
    assert missing({}, policies=fresh) == ["ClusterPolicy cluster-policy is without a state"]
    assert missing({}, policies=[]) == ["the ClusterPolicy does not exist"]


def test_each_card_is_expected_once_or_as_often_as_it_is_shared() -> None:
    assert expected_gpus(stack()) == {"k8s-worker-1": 1, "k8s-worker-2": 1}
    shared = stack(gpuOperator={"sharing": {"replicas": 4}})
    assert expected_gpus(shared) == {"k8s-worker-1": 4, "k8s-worker-2": 4}
    machines = without("proxmox", "nodes", machines=MACHINES)
    assert expected_gpus(machines) == {"k8s-worker-1": 1, "k8s-worker-2": 1}
    access = {"kubeconfig": "x"}
    assert expected_gpus(without("proxmox", "nodes", "cluster", kubernetes=access)) is None


class Api(BaseHTTPRequestHandler):
    """A Kubernetes API that knows a few paths."""

    answers: dict[str, Any]

    def do_GET(self) -> None:
        known = self.path in self.answers
        body = json.dumps(self.answers.get(self.path, {"kind": "Status", "code": 404})).encode()
        self.send_response(200 if known else 404, "OK" if known else "Not Found")
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def api() -> Iterator[tuple[dict[str, Any], Any]]:
    """Answers to fill in, and a client for them."""
    answers: dict[str, Any] = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Api", (Api,), {"answers": answers}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield answers, KubernetesApi(parse(kubeconfig(server.server_port)))
    server.shutdown()
    server.server_close()


def kubeconfig(port: int) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "a", "user": {}}],
        }
    )


def test_the_api_is_ready_when_it_reads_what_always_exists(api: tuple[dict[str, Any], Any]) -> None:
    answers, client = api
    (problem,) = readiness._read(client, missing_api)
    assert problem == "namespace default does not exist"
    answers["/api/v1/namespaces/default"] = {"metadata": {"name": "default"}}
    assert readiness._read(client, missing_api) == []


def test_an_api_that_is_down_is_missing_and_no_failure() -> None:
    client = KubernetesApi(parse(kubeconfig(1)))
    (problem,) = readiness._read(client, missing_api)
    assert problem == "http://127.0.0.1:1 does not answer: [Errno 111] Connection refused"


def test_the_gpus_are_read_as_the_api_gives_them(api: tuple[dict[str, Any], Any]) -> None:
    answers, client = api
    nodes = {"items": [node("w1", "1")]}
    answers["/api/v1/nodes"] = nodes
    assert readiness._policies_and_nodes(client)[0] == []
    answers["/apis/nvidia.com/v1/clusterpolicies"] = {"items": READY}
    policies, found = readiness._policies_and_nodes(client)
    assert missing_gpus(policies, found, expected={"w1": 1}, resource=GPU) == []


def test_a_gate_that_gave_up_after_a_change_ends_the_run() -> None:
    """The engine only warns of what fails after an update."""
    ends = asyncio.run(given_up())
    assert "the GPUs not ready" in ends


async def given_up() -> str:
    access = readiness.Access(kubeconfig=pulumi.Output.from_input(kubeconfig(1)))
    wait = Wait(subject="the GPUs", timeout_s=0, why="w", fix="f", setting="s")
    gate = object.__new__(readiness.Gate)  # without an engine to register with
    gate._access, gate._wait, gate._missing = access, wait, missing_api
    gate._passed, gate._failure = False, ""
    assert gate._failure == ""
    with pytest.raises(NotReady):
        await gate._gate(cast("pulumi.ResourceHookArgs", None))
    return gate._failure


OURS = {"metadata": {"managedFields": [{"manager": "pulumi-kubernetes-1a2b"}]}}
OTHERS = {"metadata": {"managedFields": [{"manager": "helm"}, {"manager": "kubectl-edit"}]}}


@pytest.mark.parametrize(
    ("found", "ours"), [(OURS, True), (OTHERS, False), ({"metadata": {}}, False)]
)
def test_whose_namespace_it_is(found: dict[str, Any], ours: bool) -> None:
    assert readiness._is_pulumis(found) == ours
