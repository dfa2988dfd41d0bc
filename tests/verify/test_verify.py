"""What verify says of a cluster, without one: states and answers of the probe as JSON."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from gpu_passthrough.checks.diagnose import diagnose
from gpu_passthrough.checks.finding import Finding
from gpu_passthrough.config import Stack, Taint
from gpu_passthrough.judging import judge
from gpu_passthrough.verify import apps, compute, dcgm, host, soak
from gpu_passthrough.verify.cluster import (
    Cluster,
    ForbiddenError,
    Probed,
    UnreachableError,
    program,
    read_answer,
)
from gpu_passthrough.verify.run import CHECKS, Choice, looked, verify
from gpu_passthrough.verify.state import State, allocatable, claimed
from gpu_passthrough.watch.metrics import Told as Exporter
from gpu_passthrough.watch.sample import GpuSample
from tests.unit.stacks import changed

IMAGE = "ghcr.io/immich-app/immich-machine-learning:v3.0.0-cuda"
READY = {"type": "Ready", "status": "True"}
EXTENSION = "extensions.talos.dev/nonfree-kmod-nvidia-lts"
LABELS = {
    "nvidia.com/gpu.count": "1",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.sharing-strategy": "none",
}
CARDS = {
    "k8s-worker-1": {"product": "NVIDIA-GeForce-RTX-3090", "memory": "24576", "minor": "6"},
    "k8s-worker-2": {
        "product": "NVIDIA-GeForce-RTX-4070-Ti-SUPER",
        "memory": "16376",
        "minor": "9",
    },
}


def node(name: str) -> dict[str, Any]:
    card = CARDS.get(name)
    labels = {EXTENSION: "580.178.04-v1.13.9"} if card else {}
    if card:
        labels |= LABELS | {
            "nvidia.com/gpu.product": card["product"],
            "nvidia.com/gpu.memory": card["memory"],
            "nvidia.com/gpu.compute.major": "8",
            "nvidia.com/gpu.compute.minor": card["minor"],
            "nvidia.com/gpu.family": "ampere",
        }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "conditions": [READY],
            "nodeInfo": {"osImage": "Talos (v1.13.9)"},
            "allocatable": {"nvidia.com/gpu": "1"} if card else {},
        },
    }


def pod(name: str = "immich-machine-learning-1", **changes: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "immich",
            "labels": {"app.kubernetes.io/name": "immich-machine-learning"},
        },
        "spec": {
            "nodeName": "k8s-worker-1",
            "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
        "status": {"phase": "Running", "conditions": [READY]},
        **changes,
    }


def healthy() -> State:
    names = ("k8s-cp-1", *CARDS)
    claim = {"name": "immich-machine-learning-cache", "namespace": "immich"}
    deployment = {"name": "immich-machine-learning", "namespace": "immich"}
    return State(
        nodes={name: node(name) for name in names},
        pods=[pod()],
        runtime_classes={"nvidia": {"handler": "nvidia"}},
        policies=[
            {"metadata": {"name": "cluster-policy"}, "spec": {}, "status": {"state": "ready"}}
        ],
        daemon_sets=[
            {
                "metadata": {"name": "nvidia-device-plugin-daemonset"},
                "status": {"desiredNumberScheduled": 2, "numberReady": 2},
            }
        ],
        deployments=[
            {
                "metadata": deployment,
                "spec": {
                    "replicas": 1,
                    "strategy": {"type": "Recreate"},
                    "template": {
                        "spec": {
                            "runtimeClassName": "nvidia",
                            "containers": [
                                {"image": IMAGE, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
                            ],
                        }
                    },
                },
            },
            {
                "metadata": {
                    "name": "gpu-operator",
                    "namespace": "gpu-operator",
                    "labels": {"app.kubernetes.io/managed-by": "Helm"},
                },
                "spec": {"replicas": 1},
                "status": {"readyReplicas": 1},
            },
        ],
        claims=[
            {
                "metadata": claim,
                "spec": {"accessModes": ["ReadWriteOnce"]},
                "status": {"phase": "Bound"},
            }
        ],
        namespace={
            "metadata": {
                "name": "gpu-operator",
                "labels": {"pod-security.kubernetes.io/enforce": "privileged"},
            }
        },
        reboot_events=[],
    )


@pytest.fixture
def stack() -> Stack:
    return judge(changed({"cluster": {"extensions": {"driver": "580.178.04"}}}))


def findings(stack: Stack, state: State) -> list[Finding]:
    return list(looked(stack, state))


def test_a_healthy_cluster_passes(stack: Stack) -> None:
    found = findings(stack, healthy())
    assert [(one.id, one.cause) for one in found if one.status != "passed"] == []
    assert {one.id for one in found} <= set(CHECKS)


def not_ready(state: State) -> None:
    state.nodes["k8s-worker-2"]["status"]["conditions"] = [
        {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}
    ]


def gone(state: State) -> None:
    state.nodes.pop("k8s-worker-2")  # type: ignore[attr-defined]


def other_talos(state: State) -> None:
    state.nodes["k8s-cp-1"]["status"]["nodeInfo"]["osImage"] = "Talos (v1.12.0)"


def other_driver(state: State) -> None:
    state.nodes["k8s-worker-1"]["metadata"]["labels"][EXTENSION] = "595.1-v1.13.9"


def no_extension(state: State) -> None:
    del state.nodes["k8s-worker-1"]["metadata"]["labels"][EXTENSION]


def no_gpu(state: State) -> None:
    state.nodes["k8s-worker-1"]["status"]["allocatable"] = {"nvidia.com/gpu": "0"}


def too_many(state: State) -> None:
    state.nodes["k8s-cp-1"]["status"]["allocatable"] = {"nvidia.com/gpu": "1"}


def wrong_label(state: State) -> None:
    state.nodes["k8s-worker-1"]["metadata"]["labels"]["nvidia.com/gpu.memory"] = "12288"


def no_policy(state: State) -> None:
    state.policies.clear()


def policy_not_ready(state: State) -> None:
    state.policies[0]["status"] = {"state": "notReady", "conditions": [{"message": "why"}]}


def operand_down(state: State) -> None:
    state.daemon_sets[0]["status"]["numberReady"] = 1


def nowhere(state: State) -> None:
    state.daemon_sets[0]["status"] = {"desiredNumberScheduled": 0, "numberReady": 0}


def mig_manager_nowhere(state: State) -> None:
    state.daemon_sets.append({"metadata": {"name": "nvidia-mig-manager"}, "status": {}})


def driver_on(state: State) -> None:
    state.daemon_sets.append({"metadata": {"name": "nvidia-driver-daemonset"}, "status": {}})


def plugin_off(state: State) -> None:
    state.policies[0]["spec"]["devicePlugin"] = {"enabled": False}


def baseline(state: State) -> None:
    assert state.namespace
    state.namespace["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "baseline"}


def no_operator(state: State) -> None:
    state.deployments[1].update(spec={"replicas": 0}, status={})


def operator_down(state: State) -> None:
    state.deployments[1]["status"] = {}


def tainted(state: State) -> None:
    taint = {"key": "team", "value": "ml", "effect": "NoExecute"}
    state.nodes["k8s-worker-1"]["spec"]["taints"] = [taint]


def cordoned(state: State) -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    state.nodes["k8s-worker-1"]["spec"]["taints"] = [taint]


def without_class(state: State) -> None:
    del state.deployments[0]["spec"]["template"]["spec"]["runtimeClassName"]


def without_limit(state: State) -> None:
    del state.deployments[0]["spec"]["template"]["spec"]["containers"][0]["resources"]


def other_image(state: State) -> None:
    state.deployments[0]["spec"]["template"]["spec"]["containers"][0]["image"] = "other:1"


def scaled(state: State) -> None:
    state.deployments[0]["spec"]["replicas"] = 3


def no_class(state: State) -> None:
    state.runtime_classes.pop("nvidia")  # type: ignore[attr-defined]


def other_handler(state: State) -> None:
    state.runtime_classes["nvidia"]["handler"] = "runc"


def pending(state: State) -> None:
    state.pods[0]["spec"].pop("nodeName")
    message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    scheduled = {"type": "PodScheduled", "status": "False", "message": message}
    state.pods[0]["status"] = {"phase": "Pending", "conditions": [scheduled]}


def stuck_rollout(state: State) -> None:
    waiting = {"state": {"waiting": {"reason": "ContainerCreating"}}}
    state.pods.append(pod("second", status={"phase": "Pending", "containerStatuses": [waiting]}))


def restarting(state: State) -> None:
    about = {"kind": "Node", "name": "k8s-worker-2"}
    state.reboot_events.append({"involvedObject": about, "count": 2})
    state.reboot_events.append({"involvedObject": about})
    state.reboot_events.append({"involvedObject": {"kind": "Node", "name": "k8s-worker-1"}})


def too_small(state: State) -> None:
    """An app that wants more memory than the card has on which its pod runs."""
    state.pods[0]["spec"]["nodeName"] = "k8s-worker-2"


def refused() -> dict[str, Any]:
    """A pod as a restart of its node leaves it."""
    return pod("old", status={"phase": "Failed", "reason": "UnexpectedAdmissionError"})


def held_up(state: State) -> None:
    state.pods[:] = [refused()]


def rolling(state: State) -> None:
    state.deployments[0]["spec"]["strategy"]["type"] = "RollingUpdate"


def unbound(state: State) -> None:
    state.claims[0]["status"]["phase"] = "Pending"


@pytest.mark.parametrize(
    ("change", "ids", "layer", "cause"),
    [
        (not_ready, {"node"}, "talos", "Kubelet stopped posting"),
        (gone, {"node"}, "talos", "there is no such node"),
        (other_talos, {"talos-version"}, "talos", "Talos (v1.12.0)"),
        (other_driver, {"driver"}, "talos", "595.1"),
        (no_extension, {"driver"}, "talos", "not at all"),
        (restarting, {"restarts"}, "talos", "it restarted 3 times in the last 15 minutes"),
        (no_gpu, {"allocatable"}, "operator", "offers 0 GPUs"),
        (too_many, {"allocatable"}, "operator", "offers 1 GPUs, the stack says 0"),
        (wrong_label, {"labels"}, "operator", "is 12288, not 24576"),
        (no_policy, {"operands"}, "operator", "there is none"),
        (policy_not_ready, {"operands"}, "operator", "it is notReady: why"),
        (operand_down, {"operands"}, "operator", "1 of 2 pods"),
        (nowhere, {"operands"}, "operator", "wants no pod, and the stack has 2 GPU nodes"),
        (driver_on, {"operands"}, "operator", "driver.enabled: true"),
        (plugin_off, {"operands"}, "operator", "devicePlugin.enabled: false, and the stack"),
        (baseline, {"operands"}, "operator", "is baseline, not privileged"),
        (no_operator, {"operands"}, "operator", "0 of its pods are ready, 0 are wanted"),
        (operator_down, {"operands"}, "operator", "0 of its pods are ready, 1 are wanted"),
        (tainted, {"taints"}, "kubernetes", "it has the taint team:NoExecute"),
        (cordoned, {"taints"}, "kubernetes", "unschedulable:NoSchedule"),
        (without_class, {"app"}, "app", "runtimeClassName is absent, the stack says nvidia"),
        (without_limit, {"app"}, "app", "limit nvidia.com/gpu is absent, the stack says 1"),
        (other_image, {"app"}, "app", "image is other:1, the stack says ghcr.io"),
        (scaled, {"app"}, "app", "replicas is 3, the stack says 1"),
        (no_class, {"runtime-class"}, "runtime-class", "does not exist"),
        (other_handler, {"runtime-class"}, "runtime-class", "its handler is runc"),
        (pending, {"app"}, "app", "Insufficient nvidia.com/gpu"),
        (
            held_up,
            {"failed-pods", "app"},
            "app",
            "failed pods are left (1): UnexpectedAdmissionErr",
        ),
        (unbound, {"volumes"}, "app", "the claim is Pending"),
        (rolling, {"volumes"}, "app", "its strategy is RollingUpdate"),
        (stuck_rollout, {"app"}, "app", "a rollout does not end: 2 pods for 1: ContainerCreating"),
    ],
)
def test_what_is_broken_is_named_with_its_layer(
    stack: Stack, change: Callable[[State], None], ids: set[str], layer: str, cause: str
) -> None:
    state = deepcopy(healthy())
    change(state)
    failed = [one for one in findings(stack, state) if one.fails]
    assert {one.id for one in failed} == ids
    assert any(cause in one.cause for one in failed)
    assert f"Broken layer: {layer}" in diagnose(failed).text
    assert all(one.fix and one.consequence and one.evidence for one in failed)


def test_a_pod_on_a_card_that_does_not_fit() -> None:
    stack = judge(changed({"apps": {"immich-machine-learning": {"vramMib": 20000}}}))
    state = deepcopy(healthy())
    assert not [one for one in apps.apps(stack, state, None) if one.fails]
    too_small(state)
    failed = [one for one in apps.apps(stack, state, None) if one.fails]
    assert [one.id for one in failed] == ["app"]
    assert "k8s-worker-2: " in failed[0].cause
    assert "20000 MiB asked" in failed[0].cause


def test_taints_that_are_there_on_purpose(stack: Stack) -> None:
    own = {"key": "team", "effect": "NoSchedule"}
    known = stack.model_copy(update={"gpu_taint": Taint(key="team")})
    state = deepcopy(healthy())
    state.nodes["k8s-worker-1"]["spec"]["taints"] = [
        own,
        {"key": "x", "effect": "PreferNoSchedule"},
    ]
    state.nodes["k8s-cp-1"]["spec"]["taints"] = [{"key": "any", "effect": "NoSchedule"}]
    assert not [one for one in looked(known, state) if one.fails]


def test_failed_pods_are_a_warning_until_a_rollout_waits_for_them(stack: Stack) -> None:
    state = deepcopy(healthy())
    state.pods.append(refused())
    assert [one.id for one in looked(stack, state) if one.status == "warning"] == ["failed-pods"]
    rolling(state)
    assert not [one for one in looked(stack, state) if one.id == "failed-pods"]


def test_an_operand_for_special_cards_may_be_nowhere(stack: Stack) -> None:
    state = deepcopy(healthy())
    mig_manager_nowhere(state)
    assert not [one for one in findings(stack, state) if one.fails]


def test_a_rolling_update_of_a_shared_volume_is_fine(stack: Stack) -> None:
    state = deepcopy(healthy())
    rolling(state)
    state.claims[0]["spec"]["accessModes"] = ["ReadWriteMany"]
    assert not [one for one in findings(stack, state) if one.fails]


def test_what_fails_above_follows_from_the_lowest_layer(stack: Stack) -> None:
    state = deepcopy(healthy())
    for change in (not_ready, no_gpu, no_class, pending):
        change(state)
    found = diagnose([one for one in findings(stack, state) if one.fails])
    assert {one.id for one in found.causes} == {"node"}
    assert {one.id for one in found.follow} == {"allocatable", "runtime-class", "app"}
    assert diagnose([]).text == ""


def container(gpus: int, **more: Any) -> dict[str, Any]:
    return {"name": f"c{gpus}", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}, **more}


@pytest.mark.parametrize(
    ("first", "count"),
    [
        ([], 1),
        ([container(2, restartPolicy="Always")], 3),
        ([container(2)], 2),
        ([container(1)], 1),
        ([container(2), container(3, restartPolicy="Always")], 4),
    ],
)
def test_a_pod_claims_what_the_scheduler_counts(first: list[Any], count: int) -> None:
    spec = {"containers": [container(1)], "initContainers": first}
    assert claimed(pod(spec=spec)) == count


def test_slots_that_are_renamed_have_labels_without_a_suffix() -> None:
    sharing = {"sharing": {"replicas": 4, "rename": True}}
    stack = judge(changed({"gpuOperator": sharing}))
    state = deepcopy(healthy())
    node = state.nodes["k8s-worker-1"]
    node["status"]["allocatable"] = {"nvidia.com/gpu.shared": "4"}
    node["metadata"]["labels"] |= {
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
    }
    found = [one for one in looked(stack, state) if one.subject == "k8s-worker-1"]
    assert [one.cause for one in found if one.id == "labels" and one.fails] == []


def test_a_volume_that_waits_for_its_first_pod_is_fine() -> None:
    stack = judge(changed({"apps": {"immich-machine-learning": {"replicas": 0}}}))
    state = deepcopy(healthy())
    state.pods.clear()
    state.deployments[0]["spec"]["replicas"] = 0
    unbound(state)
    assert not [one for one in apps.apps(stack, state, None) if one.fails]


def test_counting() -> None:
    state = healthy()
    assert (state.free("k8s-worker-1"), state.free("k8s-worker-2")) == (0, 1)
    done = pod("done", status={"phase": "Succeeded"})
    assert State(**{**vars(state), "pods": [done]}).free("k8s-worker-1") == 1
    assert claimed(pod()) == 1
    assert allocatable({"status": {"allocatable": {"nvidia.com/gpu.shared": "4"}}}) == 4


CUDA: dict[str, Any] = {
    "path": "/usr/local/lib/libcuda.so.1",
    "init": 0,
    "driver": 13000,
    "gpus": [{"name": "NVIDIA GeForce RTX 3090", "computes": True, "error": ""}],
    "error": "",
}


COMPAT = "/usr/local/cuda/compat/libcuda.so.590.44.01"


def answered(**cuda: Any) -> Probed:
    return Probed(answer={"devices": [], "cuda": {**CUDA, **cuda}, "onnx": None})


@pytest.mark.parametrize(
    ("probed", "status", "says"),
    [
        (answered(), "passed", "libcuda from /usr/local/lib"),
        (answered(init=-1, gpus=[], error="cannot open"), "failed", "does not load: cannot open"),
        (answered(init=100, gpus=[], error="cuInit gives 100"), "failed", "cuInit gives 100"),
        (answered(gpus=[]), "failed", "0 of 1 GPUs compute"),
        (
            answered(gpus=[{"name": "x", "computes": False, "error": "cuMemAlloc gives 2"}]),
            "failed",
            "cuMemAlloc gives 2",
        ),
        (answered(path="/usr/local/lib/libcuda.so.580.178.04"), "passed", "580.178.04"),
        (
            answered(path=COMPAT),
            "failed",
            "it computes with libcuda 590.44.01 from /usr/local/cuda",
        ),
        (
            answered(path=COMPAT, init=804, gpus=[], error="cuInit gives 804"),
            "failed",
            "cuInit gives 804; it is libcuda 590.44.01",
        ),
        (Probed(problem="the pod is Pending after 60 s"), "failed", "Pending"),
        (Probed(problem='exec: "python3": executable file not found'), "could-not-tell", "no py"),
    ],
)
def test_what_the_probe_proves(probed: Probed, status: str, says: str) -> None:
    found = compute.judge(compute.BY_CLAIM, "node", probed, 1, "580.178.04")
    assert (found.status, says in found.cause) == (status, True)


@pytest.mark.parametrize(
    ("session", "status"),
    [
        ({"built": ["CUDAExecutionProvider"], "got": ["CUDAExecutionProvider"]}, "passed"),
        ({"built": ["CUDAExecutionProvider"], "got": ["CPUExecutionProvider"]}, "failed"),
        ({"built": ["CPUExecutionProvider"], "got": ["CPUExecutionProvider"]}, "could-not-tell"),
    ],
)
def test_a_fall_back_to_the_cpu_is_no_pass(session: dict[str, Any], status: str) -> None:
    assert compute._provider("pod", {**session, "error": ""}).status == status


def test_the_probes_answer_is_found_among_other_output() -> None:
    line = json.dumps({"devices": [], "cuda": {}, "onnx": None})
    assert read_answer(f"warning\n{line}\n").answer["devices"] == []
    assert "no output" in read_answer("").problem
    assert "Traceback" in read_answer("Traceback").problem


def test_the_probe_needs_nothing_but_python() -> None:
    tree = ast.parse(program(), feature_version=(3, 8))
    imported = {
        alias.name for one in ast.walk(tree) if isinstance(one, ast.Import) for alias in one.names
    }
    assert imported == {"ctypes", "glob", "json", "onnxruntime"}


class Refusing(Cluster):
    """A cluster that cannot be asked."""

    def __init__(self, error: Exception) -> None:
        self.host = "https://127.0.0.1:1"
        self._error = error

    def get(self, path: str) -> Any:
        raise self._error


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (UnreachableError("it does not answer"), 3, "failed"),
        (ForbiddenError("GET /api/v1/nodes: 403"), 1, "could-not-tell"),
    ],
)
def test_a_cluster_that_cannot_be_asked(
    stack: Stack, error: Exception, code: int, status: str
) -> None:
    report = verify("test", stack, Refusing(error), Choice(asks_host=False))
    assert [(one.id, one.status) for one in report.findings] == [("kube-api", status)]
    assert report.exit_code == code


@pytest.mark.parametrize("layer", ["host", "vm", "talos", "kubernetes", "operator", "app"])
def test_a_layer_of_which_nothing_could_be_asked_is_no_pass(stack: Stack, layer: Any) -> None:
    refusing = Refusing(ForbiddenError("GET /api/v1/nodes: 403"))
    report = verify("test", stack, refusing, Choice(layer=layer, asks_host=False))
    assert report.exit_code == 1
    assert report.ignoring({"kube-api"}).exit_code == 1


def test_a_host_that_is_silent_explains_a_cluster_that_is(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXMOX_VE_API_TOKEN", "a@pve!b=01234567-89ab-cdef-0123-456789abcdef")
    assert stack.proxmox
    site = stack.proxmox.model_copy(update={"endpoint": "https://127.0.0.1:1"})
    below = stack.model_copy(update={"proxmox": site})
    report = verify("test", below, Refusing(UnreachableError("it does not answer")), Choice())
    assert {one.layer for one in report.failures} == {"api", "kubernetes"}
    assert diagnose(report.failures).causes[0].subject == "https://127.0.0.1:1"


def test_who_has_no_way_to_the_host_can_verify_the_cluster(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PROXMOX_VE_API_TOKEN", raising=False)
    found = host.ask("test", stack, lambda _: None).findings
    assert [(one.id, one.status, one.fails) for one in found] == [
        ("token", "could-not-tell", False)
    ]


def test_a_port_where_nobody_listens(stack: Stack, tmp_path: Any) -> None:
    file = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {}}
    document = {"clusters": [cluster], "contexts": [context], "users": [user]}
    file.write_text(json.dumps({**document, "current-context": "c", "apiVersion": "v1"}))
    report = verify("test", stack, Cluster(str(file)), Choice(asks_host=False))
    assert report.exit_code == 3
    assert "does not answer" in report.findings[0].cause
    with pytest.raises(UnreachableError):
        Cluster(str(tmp_path / "missing"))


class Told:
    """DCGM's exporters, without any."""

    def __init__(self, **told: Any) -> None:
        self.told = {name.replace("_", "-"): found for name, found in told.items()}

    def __call__(self, *_: object) -> Any:
        return self.told


def gpu(name: str) -> GpuSample:
    return GpuSample(node="n", uuid=name, name="card", bus_id="0", source="dcgm")


@pytest.mark.parametrize(
    ("told", "status", "says"),
    [
        (Exporter([gpu("GPU-1")]), "passed", "1 of 1"),
        (Exporter([gpu("GPU-1"), gpu("GPU-1")]), "passed", "1 of 1"),
        (Exporter([gpu("GPU-1"), gpu("GPU-2")]), "failed", "tells of 2 cards, the stack says 1"),
        (Exporter([], "its DCGM exporter names no GPU"), "failed", "names no GPU"),
        (Exporter([], "port-forward is refused", is_refused=True), "could-not-tell", "refused"),
        (None, "failed", "no DCGM exporter runs"),
    ],
)
def test_metrics(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, told: Any, status: str, says: str
) -> None:
    both = {"k8s_worker_1": told, "k8s_worker_2": Exporter([gpu("GPU-9")])}
    answers = {name: one for name, one in both.items() if one is not None}
    monkeypatch.setattr(dcgm, "exporters", Told(**answers))
    first, second = dcgm.metrics(Refusing(AssertionError()), stack, healthy())
    assert (first.status, says in first.cause, first.fails) == (status, True, status != "passed")
    assert second.status == "passed"


class Ageing(Cluster):
    """A cluster that changes from look to look; None is a look without an answer."""

    def __init__(self, *looks: dict[str, Any] | None) -> None:
        self.looks = list(looks)
        self.now = 0.0

    def items(self, path: str) -> list[Any]:
        look = self.looks[0]
        if look is None:
            self.looks.pop(0)
            raise UnreachableError("silent")
        if path.endswith("nodes"):
            return [
                {**node(name), "status": {"conditions": [READY], "nodeInfo": {"bootID": boot}}}
                for name, boot in look["boots"].items()
            ]
        found = [
            pod(
                status={
                    "phase": "Running",
                    "containerStatuses": [{"restartCount": look["restarts"]}],
                }
            )
        ]
        if len(self.looks) > 1:
            self.looks.pop(0)
        return found

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def life(boot: str = "a", restarts: int = 0) -> dict[str, Any]:
    return {
        "boots": {"k8s-cp-1": "a", "k8s-worker-1": "a", "k8s-worker-2": boot},
        "restarts": restarts,
    }


@pytest.mark.parametrize(
    ("looks", "failed", "seconds"),
    [
        ([life()], set(), 600),
        ([life(), life("b")], {("soak", "k8s-worker-2")}, 5),
        ([life(), None, None, life("b")], {("soak", "k8s-worker-2")}, 15),
        ([life(), None, life()], set(), 600),
        ([life(), life(), life(restarts=1)], {("soak-app", "immich/immich-machine-learning")}, 10),
    ],
)
def test_a_soak_sees_what_restarts_and_ends_there(
    stack: Stack, looks: list[Any], failed: set[tuple[str, str]], seconds: float
) -> None:
    cluster = Ageing(*looks)
    said: list[str] = []
    watch = soak.Soak(cluster, stack, 600, said.append, cluster.sleep, lambda: cluster.now)
    found = list(watch.run())
    assert {(one.id, one.subject) for one in found if one.fails} == failed
    assert len(found) == 4
    assert cluster.now == seconds
    assert len(said) == seconds // 60


def test_a_soak_that_ends_in_silence_is_no_pass(stack: Stack) -> None:
    cluster = Ageing(life(), *[None] * 10)
    with pytest.raises(UnreachableError):
        list(soak.Soak(cluster, stack, 20, print, cluster.sleep, lambda: cluster.now).run())
