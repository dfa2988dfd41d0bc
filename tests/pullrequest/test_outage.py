"""Which card is out of use, where it is, and which app notices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pullrequest import kinds, outage
from pullrequest.events import Step
from pullrequest.model import Outage, Property
from tests.pullrequest.recording import outages, stack

APP = "immich-machine-learning"


def step(type_: str, op: str, owner: str = "k8s-worker-1", *paths: str, **inputs: object) -> Step:
    properties = tuple(Property(path=path, before="a", after="b") for path in paths)
    return Step(op, type_, "one", owner, True, properties, inputs)  # type: ignore[arg-type]


def of(*steps: Step) -> list[Outage]:
    return outage.outages(steps, stack())


def test_card_host_address_and_app_are_named() -> None:
    first, second = outages("machines")
    assert first.cards == "RTX 3090"
    assert first.where == "k8s-worker-1 (pve 0000:01:00)"
    assert first.until == "until the VM is made anew"
    assert first.why == "vmId: 111 → 121"
    assert first.apps == (APP,)
    assert second.where == "k8s-worker-2 (pve 0000:02:00)"
    assert second.until == "until the VM has restarted"


@pytest.mark.parametrize("name", ["first", "nothing"])
def test_nothing_is_out_of_use_where_nothing_that_exists_changes(name: str) -> None:
    assert outages(name) == []


def test_the_control_planes_restart_takes_no_card() -> None:
    assert not any("k8s-cp-1" in one.where for one in outages("app"))


def test_a_new_image_stops_the_pod_on_whichever_card_it_has() -> None:
    found = outages("app")[-1]
    assert found.cards == "RTX 3090 or RTX 4070 Ti Super"
    assert found.until == "until the new pod runs (Recreate)"
    assert "v3.1.0-cuda" in found.why


def test_a_new_operator_keeps_new_pods_waiting_on_every_card() -> None:
    waiting = [one for one in outages("app") if one.until.startswith("for new pods")]
    assert {one.cards for one in waiting} == {"RTX 3090", "RTX 4070 Ti Super"}


def test_a_node_that_goes_takes_its_card_for_good() -> None:
    (found,) = outages("gone")
    assert (found.cards, found.until) == ("RTX 4070 Ti Super", "for good")


def test_a_node_that_goes_is_named_as_it_was() -> None:
    was = stack()
    now = was.model_copy(update={"nodes": {k: v for k, v in was.nodes.items() if k[-1] != "1"}})
    (found,) = outage.outages([step(kinds.VM, "delete")], now, was)
    assert found.where == "k8s-worker-1 (pve 0000:01:00)"


def test_a_new_identity_takes_every_card() -> None:
    assert {one.cards for one in outages("rename")} == {"RTX 3090", "RTX 4070 Ti Super"}
    assert {one.until for one in outages("rename")} == {"until the whole cluster is made anew"}


@pytest.mark.parametrize(
    "path",
    ["name", "description", "tags[0]", "onBoot", "timeoutCreate", "disks[0].size"],
)
def test_what_a_running_vm_takes_is_no_outage(path: str) -> None:
    assert of(step(kinds.VM, "update", "k8s-worker-1", path)) == []


@pytest.mark.parametrize(
    "path",
    ["cpu.cores", "memory.dedicated", "hostpcis[0].mapping", "machine", "disks[0].discard"],
)
def test_what_a_vm_takes_at_its_start_only_is_one(path: str) -> None:
    (found,) = of(step(kinds.VM, "update", "k8s-worker-1", "name", path))
    assert found.until == "until the VM has restarted"
    assert "name" not in found.why


def test_the_hardest_of_several_steps_is_told() -> None:
    steps = [
        step(kinds.CONFIGURATION, "update", "k8s-worker-1", "configPatches[0]"),
        step(kinds.VM, "replace"),
        step(kinds.RELEASE, "update", "gpu-operator", "version", chart="gpu-operator"),
    ]
    hit = {one.where.split()[0]: one.until for one in of(*steps)}
    assert hit["k8s-worker-1"] == "until the VM is made anew"
    assert hit["k8s-worker-2"].startswith("for new pods")


@pytest.mark.parametrize(
    ("paths", "number"),
    [(("spec.replicas",), 0), (("metadata.labels.a",), 0), (("spec.template.spec.x",), 1)],
)
def test_only_another_pod_stops_an_app(paths: tuple[str, ...], number: int) -> None:
    assert len(of(step(kinds.DEPLOYMENT, "update", APP, *paths, spec={}))) == number


def test_a_deleted_app_frees_its_card() -> None:
    assert of(step(kinds.DEPLOYMENT, "delete", APP)) == []


def test_an_app_whose_every_card_restarts_anyway_is_not_told_twice() -> None:
    both = [step(kinds.VM, "replace", f"k8s-worker-{number}") for number in (1, 2)]
    app = step(kinds.DEPLOYMENT, "update", APP, "spec.template.spec", spec={})
    assert len(of(*both, app)) == 2
    assert len(of(both[0], app)) == 2


def test_another_chart_takes_no_card() -> None:
    assert of(step(kinds.RELEASE, "update", "immich", "version", chart="immich")) == []


@pytest.mark.parametrize("kind", kinds.RUNTIME_CLASSES)
def test_without_the_runtime_class_no_new_pod_starts(kind: str) -> None:
    found = of(step(kind, "delete", "nvidia"))
    assert {one.until for one in found} == {"for new pods"}
    assert of(step(kind, "update", "nvidia", "metadata")) == []


def test_a_mapping_in_the_way_is_told_and_a_new_one_is_not() -> None:
    mapping = step(kinds.MAPPING, "replace")
    assert of(mapping)[0].until == "until the VM starts with it"
    assert of(replace(mapping, op="create")) == []
