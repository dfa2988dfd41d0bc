"""Layer 5: the pod that claims a card."""

from __future__ import annotations

from typing import Any

import pytest

from components.gpu_app import GpuApp, GpuAppArgs
from gpu_passthrough.config import App, Taint
from tests.program.recorder import Recorder, record
from tests.program.stacks import DOCUMENT, merged

IMMICH = DOCUMENT["apps"]["immich-machine-learning"]
ANY = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def build(taint: Taint | None = None, resource: str = "nvidia.com/gpu", **app: Any) -> Recorder:
    args = GpuAppArgs(
        app=App.model_validate(merged(IMMICH, app)),
        namespace="immich",
        gpu_resource=resource,
        taint=taint,
        timeout_s=55,
    )
    return record(lambda: GpuApp("ml", args))


def deployment(**app: Any) -> dict[str, Any]:
    return build(**app).inputs("Deployment")["spec"]  # type: ignore[no-any-return]


def pod(**app: Any) -> dict[str, Any]:
    return deployment(**app)["template"]["spec"]  # type: ignore[no-any-return]


def container(**app: Any) -> dict[str, Any]:
    (only,) = pod(**app)["containers"]
    return only  # type: ignore[no-any-return]


def test_the_pod_claims_its_card_and_gets_the_driver() -> None:
    assert pod()["runtimeClassName"] == "nvidia"
    assert container()["resources"] == {"limits": {"nvidia.com/gpu": "1"}}
    assert container(gpus=2)["resources"] == {"limits": {"nvidia.com/gpu": "2"}}
    shared = build(resource="nvidia.com/gpu.shared").inputs("Deployment")
    (only,) = shared["spec"]["template"]["spec"]["containers"]
    assert only["resources"] == {"limits": {"nvidia.com/gpu.shared": "1"}}
    assert "runtimeClassName" not in pod(runtimeClassName=None)


def test_the_pod_keeps_to_gpu_nodes_and_to_the_nodes_it_names() -> None:
    terms = pod()["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]}
            ]
        }
    ]
    product = {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-3090"}
    assert pod(nodeSelector=product)["nodeSelector"] == product
    assert pod()["nodeSelector"] == {}


def test_the_pod_tolerates_the_taint_of_gpu_nodes() -> None:
    own = {"key": "example.org/gpu", "operator": "Exists", "effect": "NoExecute"}
    taint = Taint(key="example.org/gpu", effect="NoExecute")
    assert pod(taint=taint)["tolerations"] == [ANY, own]
    assert pod(taint=Taint())["tolerations"] == [ANY]
    assert pod()["tolerations"] == [ANY]


@pytest.mark.parametrize("strategy", ["Recreate", "RollingUpdate"])
def test_the_rollout_is_the_stacks_and_is_waited_for(strategy: str) -> None:
    found = build(strategy=strategy, replicas=2).one("Deployment")
    assert found.inputs["spec"]["strategy"] == {"type": strategy}
    assert found.inputs["spec"]["replicas"] == 2
    assert found.inputs["spec"]["progressDeadlineSeconds"] == 55
    assert found.request.customTimeouts.create == found.request.customTimeouts.update == "55s"
    assert "annotations" not in found.inputs["metadata"]


def test_names_are_the_apps_own_so_that_people_find_them() -> None:
    found = build()
    for kind, name in (
        ("Deployment", "ml"),
        ("Service", "ml"),
        ("PersistentVolumeClaim", "ml-cache"),
    ):
        metadata = found.inputs(kind)["metadata"]
        assert (metadata["name"], metadata["namespace"]) == (name, "immich")


def test_the_pods_belong_to_deployment_and_service() -> None:
    found = build()
    spec = found.inputs("Deployment")["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    assert found.inputs("Service")["spec"]["selector"] == labels


def test_a_volume_is_claimed_by_its_class_and_mounted() -> None:
    found = build()
    assert found.inputs("PersistentVolumeClaim")["spec"] == {
        "storageClassName": "longhorn",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
    }
    assert container()["volumeMounts"] == [{"name": "cache", "mountPath": "/cache"}]
    assert pod()["volumes"] == [
        {"name": "cache", "persistentVolumeClaim": {"claimName": "ml-cache"}}
    ]
    claim = found.one("PersistentVolumeClaim")
    assert claim.urn in found.waits_for(found.one("Deployment"))
    assert claim.request.protect


def test_a_service_is_there_where_somebody_answers() -> None:
    found = build()
    assert found.inputs("Service")["spec"]["ports"] == [{"port": 3003, "targetPort": 3003}]
    assert found.one("Deployment").urn in found.waits_for(found.one("Service"))
    assert build(port=None).of("Service") == []
    assert build(replicas=0).of("Service") == []
    assert "readinessProbe" not in container(port=None)
    assert container()["readinessProbe"] == {"tcpSocket": {"port": 3003}}


def test_the_pod_keeps_to_baseline() -> None:
    found = pod()
    assert found["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert container()["securityContext"] == {"allowPrivilegeEscalation": False}
    assert found["enableServiceLinks"] is False
    assert found["automountServiceAccountToken"] is False
    assert not any("hostPath" in volume for volume in found["volumes"])


def test_variables_are_the_apps_with_the_drivers_capabilities_below() -> None:
    capabilities = {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}
    assert container()["env"] == [capabilities]
    assert container(env={"A": "1"})["env"] == [{"name": "A", "value": "1"}, capabilities]
    own = {"NVIDIA_DRIVER_CAPABILITIES": "all"}
    assert container(env=own)["env"] == [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "all"}]


def test_secret_variables_live_in_a_secret_that_changes_its_name_with_them() -> None:
    found = build(secretEnv={"TOKEN": "hidden"})
    secret = found.one("Secret")
    assert secret.inputs["stringData"] == {"TOKEN": "hidden"}
    assert secret.secrets == {"stringData"}
    assert "name" not in secret.inputs["metadata"]
    (only,) = found.inputs("Deployment")["spec"]["template"]["spec"]["containers"]
    (token,) = [one for one in only["env"] if one["name"] == "TOKEN"]
    assert token["valueFrom"]["secretKeyRef"]["key"] == "TOKEN"
    assert "hidden" not in str(found.inputs("Deployment"))
    assert build().of("Secret") == []
