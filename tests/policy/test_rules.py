"""Every rule of the policy pack, with the neighbours that must pass."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "policy"))

import rules

GPU = {"limits": {"nvidia.com/gpu": "1"}}
PINNED = "registry.example/app:v3.0.0-cuda"


def pod(resources: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": PINNED, "resources": resources or {}}
    return {"containers": [container], **spec}


def workload(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Put a pod specification where a kind of workload has it."""
    value: dict[str, Any] = spec
    for key in reversed(rules.POD_PATHS[kind]):
        value = {key: value}
    return value


def violated(kind: str, props: dict[str, Any]) -> set[str]:
    return {rule.name for rule in rules.RULES if list(rule.check(kind, props))}


@pytest.mark.parametrize("kind", sorted(rules.POD_PATHS))
def test_a_gpu_limit_needs_the_runtime_class_in_every_kind_of_workload(kind: str) -> None:
    assert violated(kind, workload(kind, pod(GPU))) == {"gpu-limit-needs-runtime-class"}
    assert violated(kind, workload(kind, pod(GPU, runtimeClassName="nvidia"))) == set()


def test_a_runtime_class_one_level_too_high_does_not_count() -> None:
    kind = "kubernetes:apps/v1:Deployment"
    props = workload(kind, pod(GPU))
    props["spec"]["runtimeClassName"] = "nvidia"
    assert violated(kind, props) == {"gpu-limit-needs-runtime-class"}


@pytest.mark.parametrize("limit", [{"nvidia.com/gpu": 0}, {"nvidia.com/gpu": "0"}, {"cpu": "1"}])
def test_no_gpu_claimed_needs_no_runtime_class(limit: dict[str, Any]) -> None:
    kind = "kubernetes:core/v1:Pod"
    assert violated(kind, workload(kind, pod({"limits": limit}))) == set()


@pytest.mark.parametrize(
    "name", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"]
)
def test_shared_and_partitioned_gpus_are_gpus(name: str) -> None:
    kind = "kubernetes:core/v1:Pod"
    assert violated(kind, workload(kind, pod({"limits": {name: 1}}))) == {
        "gpu-limit-needs-runtime-class"
    }


def test_the_runtime_class_alone_is_named_but_not_refused() -> None:
    kind = "kubernetes:core/v1:Pod"
    props = workload(kind, pod(runtimeClassName="nvidia"))
    assert violated(kind, props) == {"runtime-class-needs-gpu-limit"}
    assert {r.level for r in rules.RULES if r.name == "runtime-class-needs-gpu-limit"} == {
        "advisory"
    }
    assert violated(kind, workload(kind, pod(runtimeClassName="kata"))) == set()


def release(**values: Any) -> dict[str, Any]:
    off = {"driver": {"enabled": False}, "toolkit": {"enabled": False}}
    return {"chart": "gpu-operator", "version": "v24.9.2", "values": {**off, **values}}


@pytest.mark.parametrize("operand", ["driver", "toolkit"])
@pytest.mark.parametrize("value", [{"enabled": True}, {}, {"version": "580"}])
@pytest.mark.parametrize("kind", rules.RELEASES)
def test_driver_and_toolkit_are_off_on_talos(
    kind: str, operand: str, value: dict[str, Any]
) -> None:
    assert violated(kind, release(**{operand: value})) == {"talos-brings-driver-and-toolkit"}


@pytest.mark.parametrize("kind", rules.RELEASES)
def test_a_release_with_both_off_passes_and_other_charts_are_not_judged(kind: str) -> None:
    assert violated(kind, release()) == set()
    assert violated(kind, {"chart": "immich", "version": "0.12.0", "values": {}}) == set()


def test_a_chart_without_a_version_is_refused() -> None:
    props = {key: value for key, value in release().items() if key != "version"}
    assert violated(rules.RELEASES[0], props) == {"pinned-chart"}


def vm(**changes: Any) -> dict[str, Any]:
    return {
        "machine": "q35",
        "memory": {"dedicated": 16384, "floating": 0},
        "efiDisk": {"type": "4m", "preEnrolledKeys": False},
        "hostpcis": [{"device": "hostpci0", "mapping": "gpu0", "pcie": True}],
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"hostpcis": [{"device": "hostpci0", "id": "0000:01:00"}]}, "no-raw-pci-address"),
        ({"memory": {"dedicated": 16384, "floating": 8192}}, "no-ballooning-with-passthrough"),
        ({"machine": "pc"}, "pcie-needs-q35"),
        ({"machine": None}, "pcie-needs-q35"),
        ({"efiDisk": {"preEnrolledKeys": True}}, "no-enrolled-secure-boot-keys"),
    ],
)
def test_a_vm_that_cannot_carry_the_card_is_refused(changes: dict[str, Any], rule: str) -> None:
    assert violated(rules.VM, vm(**changes)) == {rule}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"machine": "pc-q35-9.0"},
        {"memory": {"dedicated": 16384}},
        {"hostpcis": [], "machine": "pc", "memory": {"dedicated": 4096, "floating": 2048}},
        {"hostpcis": [{"device": "hostpci0", "mapping": "gpu0"}], "machine": "pc"},
    ],
)
def test_a_vm_that_works_passes(changes: dict[str, Any]) -> None:
    assert violated(rules.VM, vm(**changes)) == set()


@pytest.mark.parametrize(
    ("image", "pinned"),
    [
        ("app", False),
        ("app:latest", False),
        ("registry.example:5000/app", False),
        ("registry.example:5000/app:1.2", True),
        ("app@sha256:" + "0" * 64, True),
        ("app:latest@sha256:" + "0" * 64, True),
    ],
)
def test_an_image_is_pinned_by_tag_or_digest(image: str, pinned: bool) -> None:
    kind = "kubernetes:core/v1:Pod"
    spec = {"containers": [{"name": "main", "image": image}]}
    assert ("pinned-image" not in violated(kind, workload(kind, spec))) is pinned


@pytest.mark.parametrize(
    ("variable", "plain"),
    [
        ({"name": "DB_PASSWORD", "value": "hunter2"}, True),
        ({"name": "HF_TOKEN", "value": "x"}, True),
        ({"name": "API_KEY", "value": "x"}, True),
        ({"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db"}}}, False),
        ({"name": "LOG_LEVEL", "value": "debug"}, False),
    ],
)
def test_a_secret_is_not_in_the_pod_specification(variable: dict[str, Any], plain: bool) -> None:
    kind = "kubernetes:core/v1:Pod"
    spec = {"containers": [{"name": "main", "image": PINNED, "env": [variable]}]}
    found = [m for rule in rules.RULES for m in rule.check(kind, workload(kind, spec))]
    assert bool(found) is plain
    assert not any("hunter2" in message for message in found)


@pytest.mark.parametrize("kind", sorted(rules.STATEFUL))
def test_what_cannot_be_made_again_is_protected(kind: str) -> None:
    assert list(rules.unprotected(kind, protect=False))
    assert not list(rules.unprotected(kind, protect=True))
    assert not list(rules.unprotected("kubernetes:core/v1:Service", protect=False))


def stack(mode: str, strategy: dict[str, Any], claim: str = "cache") -> list[rules.Resource]:
    volume = {"name": "cache", "persistentVolumeClaim": {"claimName": claim}}
    template = {"spec": {**pod(), "volumes": [volume]}}
    return [
        rules.Resource(
            rules.CLAIM,
            "immich-cache",
            {"metadata": {"name": "cache", "namespace": "immich"}, "spec": {"accessModes": [mode]}},
        ),
        rules.Resource(
            rules.DEPLOYMENT,
            "immich",
            {
                "metadata": {"name": "ml", "namespace": "immich"},
                "spec": {"template": template, **strategy},
            },
        ),
    ]


RECREATE = {"strategy": {"type": "Recreate"}}
ROLLING = {"strategy": {"type": "RollingUpdate"}}


@pytest.mark.parametrize(
    ("resources", "refused"),
    [
        (stack("ReadWriteOnce", {}), True),
        (stack("ReadWriteOnce", ROLLING), True),
        (stack("ReadWriteOncePod", ROLLING), True),
        (stack("ReadWriteOnce", RECREATE), False),
        (stack("ReadWriteMany", ROLLING), False),
        (stack("ReadWriteOnce", ROLLING, claim="other"), False),
    ],
)
def test_a_rollout_never_waits_for_its_own_volume(
    resources: list[rules.Resource], refused: bool
) -> None:
    found = list(rules.deadlocked_rollouts(resources))
    assert bool(found) is refused
    assert all("ml" in message and "Recreate" in message for _, message in found)


@pytest.mark.parametrize("kind", [*sorted(rules.POD_PATHS), rules.VM, *rules.RELEASES])
@pytest.mark.parametrize(
    "props", [{}, {"spec": None}, {"spec": "unknown"}, {"hostpcis": "unknown"}]
)
def test_values_that_are_not_known_yet_are_no_crash(kind: str, props: dict[str, Any]) -> None:
    violated(kind, props)


def test_every_rule_says_what_it_wants() -> None:
    assert all(rule.description for rule in rules.RULES)
    assert len({rule.name for rule in rules.RULES}) == len(rules.RULES)
