"""A chain that starts above the hardware: VMs, a Talos cluster or any cluster that exists."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_passthrough import compatibility, placement
from gpu_passthrough.judging import judge
from gpu_passthrough.problems import where

from .stacks import GONE, app, changed, problems, rules

MACHINES = {
    "cp": {"role": "controlplane", "address": "10.0.0.20"},
    "worker": {"address": "10.0.0.21", "gpus": [{"card": "RTX 3090"}]},
}
TALOS = {"caCertificate": "a", "clientCertificate": "b", "clientKey": "c"}


def vms(**change: Any) -> dict[str, Any]:
    start = {
        "proxmox": GONE,
        "nodes": GONE,
        "machines": MACHINES,
        "cluster": {"endpoint": "https://10.0.0.20:6443"},
    }
    return changed({**start, **change})


def kubernetes(**change: Any) -> dict[str, Any]:
    start = {"kubernetes": {"kubeconfig": "x"}, "proxmox": GONE, "nodes": GONE, "cluster": GONE}
    return changed({**start, **change})


def test_each_start_is_told_by_what_is_given() -> None:
    assert judge(changed()).starts_at == "hardware"
    assert judge(vms()).starts_at == "vms"
    assert judge(vms(talos=TALOS)).starts_at == "talos"
    assert judge(kubernetes()).starts_at == "kubernetes"


def test_machines_are_planned_like_nodes() -> None:
    stack = judge(vms())
    (placed,) = placement.plan(stack).apps
    assert placed.nodes == {"worker": 1}
    assert rules(vms(apps={"too": app()})) == ["app-placement"]


def test_any_cluster_without_machines_is_not_planned() -> None:
    stack = judge(kubernetes())
    assert placement.plan(stack).judged is False
    assert compatibility.verdict(stack).level == "not judged"


def test_any_cluster_with_machines_is_planned() -> None:
    machines = {"gpu": {"gpus": [{"card": "RTX 3090"}]}}
    assert problems(kubernetes(machines=machines)) == []
    assert rules(kubernetes(machines=machines, apps={"too": app(vramMib=30000)})) == [
        "app-placement"
    ]


def test_a_cluster_that_is_not_talos_may_bring_the_driver_itself() -> None:
    on = {"driver": {"enabled": True}, "toolkit": {"enabled": True}}
    assert problems(kubernetes(gpuOperator=on)) == []
    assert set(rules(vms(gpuOperator=on))) == {"operator-on-talos"}


def test_a_talos_cluster_by_kubeconfig_is_judged_as_talos() -> None:
    cluster = changed()["cluster"] | {"talosVersion": "v1.11.0", "kubernetesVersion": "v1.33.0"}
    values = kubernetes(machines={"gpu": {"gpus": [{"card": "RTX 3090"}]}})
    assert rules({**values, "cluster": cluster}) == ["talos-operator"]


@pytest.mark.parametrize(
    ("values", "path"),
    [
        (changed({"proxmox": GONE}), "proxmox"),
        (changed({"cluster": GONE}), "cluster"),
        (changed({"nodes": GONE, "apps": {"immich-machine-learning": GONE}}), "nodes"),
        (changed({"machines": MACHINES}), "machines"),
        (vms(cluster=GONE), "cluster"),
        (vms(talos=TALOS, machines=GONE), "machines"),
        (vms(machines={**MACHINES, "worker": {"gpus": [{"card": "RTX 3090"}]}}),
         "machines.worker.address"),
        (kubernetes(proxmox=changed()["proxmox"]), "proxmox"),
        (kubernetes(talos=TALOS), "talos"),
        (changed({"kubernetes": {"kubeconfig": "x"}}), "nodes"),
    ],
)  # fmt: skip
def test_a_start_that_is_incomplete_or_mixed(values: dict[str, Any], path: str) -> None:
    found = [one for one in problems(values) if str(one.rule).startswith("start")]
    assert path in [where(one.path) for one in found]
    assert all(one.why for one in found)


def test_secrets_of_access_are_not_printed() -> None:
    stack = judge(kubernetes(kubernetes={"kubeconfig": "very-secret"}))
    assert "very-secret" not in repr(stack)


@pytest.mark.parametrize("gpu", [{"card": ["RTX 3090"]}, {}, {"card": None}, "RTX 3090", 7])
def test_a_wrong_card_of_a_machine_that_exists_is_named(gpu: Any) -> None:
    worker = {"address": "10.0.0.22", "gpus": [{"card": "RTX 3090"}, gpu]}
    found = problems(vms(machines={**MACHINES, "other": worker}))
    assert {problem.path[:4] for problem in found} == {("machines", "other", "gpus", 1)}
