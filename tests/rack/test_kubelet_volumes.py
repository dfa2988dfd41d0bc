"""Block storage: what is provisioned, attached, deleted, and who waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from rack.cluster.volumes import (
    DRIVER,
    claims_of,
    in_use,
    install,
    serve,
    volume_name,
    waits_for_attachment,
)
from tests.rack.fakekube import FakeKube

VOLUMES = "/api/v1/persistentvolumes"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"


def claim(*, node: str = "worker", mode: str = "ReadWriteOnce", **spec: Any) -> dict[str, Any]:
    annotations = {"volume.kubernetes.io/selected-node": node} if node else {}
    return {
        "metadata": {
            "name": "cache",
            "namespace": "immich",
            "uid": "c1",
            "annotations": annotations,
        },
        "spec": {
            "storageClassName": "rack-block",
            "accessModes": [mode],
            "resources": {"requests": {"storage": "10Gi"}},
            **spec,
        },
    }


def attachment(node: str, *, attached: bool = True, driver: str = DRIVER) -> dict[str, Any]:
    return {
        "metadata": {"name": f"at-{node}"},
        "spec": {
            "attacher": driver,
            "nodeName": node,
            "source": {"persistentVolumeName": "pvc-c1"},
        },
        "status": {"attached": attached},
    }


def pod(node: str = "worker") -> dict[str, Any]:
    volumes = [{"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}]
    return {
        "metadata": {"namespace": "immich"},
        "spec": {"nodeName": node, "volumes": volumes},
    }


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


def test_a_claim_gets_a_volume_once_its_pod_has_a_node(kube: FakeKube) -> None:
    serve(kube, [claim()], [], [])
    made = kube.objects[f"{VOLUMES}/pvc-c1"]["spec"]
    assert made["csi"] == {"driver": DRIVER, "volumeHandle": "pvc-c1", "fsType": "ext4"}
    assert made["claimRef"]["uid"] == "c1"
    assert made["capacity"] == {"storage": "10Gi"}
    serve(kube, [claim()], [kube.objects[f"{VOLUMES}/pvc-c1"]], [])
    assert len(kube.writes) == 1


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(claim(node=""), id="no-node-yet"),
        pytest.param(claim(mode="ReadWriteMany"), id="many-nodes"),
        pytest.param(claim(storageClassName="longhorn"), id="another-class"),
        pytest.param(claim(volumeName="mine"), id="bound"),
    ],
)
def test_no_volume_for(kube: FakeKube, given: dict[str, Any]) -> None:
    serve(kube, [given], [], [])
    assert kube.writes == []


@pytest.mark.parametrize(
    ("driver", "phase", "deleted"),
    [(DRIVER, "Released", True), (DRIVER, "Bound", False), ("other", "Released", False)],
)
def test_only_released_volumes_of_ours_go(
    kube: FakeKube, driver: str, phase: str, deleted: bool
) -> None:
    spec = {"csi": {"driver": driver}}
    made = kube.put(f"{VOLUMES}/one", {"spec": spec, "status": {"phase": phase}})
    serve(kube, [], [made], [])
    assert (f"{VOLUMES}/one" not in kube.objects) is deleted


@pytest.mark.parametrize(("driver", "attaches"), [(DRIVER, True), ("other", False)])
def test_the_driver_attaches(kube: FakeKube, driver: str, attaches: bool) -> None:
    path = f"{ATTACHMENTS}/at-worker"
    serve(kube, [], [], [kube.put(path, attachment("worker", attached=False, driver=driver))])
    assert kube.objects[path]["status"]["attached"] is attaches


BOUND = claim(volumeName="pvc-c1")


@pytest.mark.parametrize(
    ("claims", "attached", "waits"),
    [
        pytest.param([BOUND], [attachment("worker")], "", id="attached-here"),
        pytest.param([BOUND], [attachment("other")], "pvc-c1", id="attached-elsewhere"),
        pytest.param([BOUND], [attachment("worker", attached=False)], "pvc-c1", id="not-yet"),
        pytest.param([BOUND], [], "pvc-c1", id="nowhere"),
        pytest.param([claim()], [], "cache", id="not-bound"),
        pytest.param([claim(storageClassName="longhorn")], [], "", id="of-another-driver"),
        pytest.param([], [], "", id="no-claim"),
    ],
)
def test_who_waits(claims: list[Any], attached: list[Any], waits: str) -> None:
    assert waits_for_attachment(pod(), claims, attached) == waits


def test_an_attachment_that_goes_is_none() -> None:
    going = attachment("worker")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert waits_for_attachment(pod(), [BOUND], [going]) == "pvc-c1"


def test_names() -> None:
    assert claims_of(pod()) == ["cache"]
    assert volume_name(claim()) == "pvc-c1"
    assert in_use(["b", "a"]) == [f"kubernetes.io/csi/{DRIVER}^{name}" for name in "ab"]


def test_the_class_is_not_the_default_and_installed_once(kube: FakeKube) -> None:
    install(kube)
    made = kube.objects["/apis/storage.k8s.io/v1/storageclasses/rack-block"]
    assert "annotations" not in made["metadata"]
    assert made["volumeBindingMode"] == "WaitForFirstConsumer"
    kube.writes.clear()
    install(kube)
    assert kube.writes == []
