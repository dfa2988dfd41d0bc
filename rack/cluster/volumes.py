"""Block storage of the rack: a StorageClass whose volumes one node attaches at a time.

The volumes are those of a CSI driver. Kubernetes' own controllers bind claims and decide about
attachments; the rack does what the driver's sidecars would: it provisions, attaches and deletes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rack.cluster.api import Api, ApiError, Object

DRIVER: Final = "block.rack.simulated"
STORAGE_CLASS: Final = "rack-block"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_ONE_NODE: Final = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})
_OBJECTS: Final[tuple[tuple[str, Object], ...]] = (
    (
        "/apis/storage.k8s.io/v1/storageclasses",
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": STORAGE_CLASS},
            "provisioner": DRIVER,
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        },
    ),
    (
        "/apis/storage.k8s.io/v1/csidrivers",
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER},
            "spec": {"attachRequired": True, "podInfoOnMount": False},
        },
    ),
)


def install(api: Api) -> None:
    """Make the class and the driver known to the cluster."""
    for path, body in _OBJECTS:
        if api.get(f"{path}/{body['metadata']['name']}") is None:
            api.create(path, body)


def serve(api: Api, claims: list[Object], volumes: list[Object], attached: list[Object]) -> None:
    """Do what there is to do for claims, volumes and attachments."""
    known = {one["metadata"]["name"] for one in volumes}
    for claim in claims:
        if _wants_volume(claim) and volume_name(claim) not in known:
            _create(api, volume(claim))
    for one in volumes:
        if _is_ours(one) and (one.get("status") or {}).get("phase") == "Released":
            api.delete(f"/api/v1/persistentvolumes/{one['metadata']['name']}")
    for one in attached:
        if one["spec"]["attacher"] == DRIVER and not is_attached(one):
            name = one["metadata"]["name"]
            path = f"/apis/storage.k8s.io/v1/volumeattachments/{name}/status"
            api.merge(path, {"status": {"attached": True}})


def _create(api: Api, body: Object) -> None:
    try:
        api.create("/api/v1/persistentvolumes", body)
    except ApiError as error:
        if error.status != 409:
            raise


def _is_ours(one: Object) -> bool:
    return bool((one["spec"].get("csi") or {}).get("driver") == DRIVER)


def _wants_volume(claim: Object) -> bool:
    """A claim of the class that has no volume yet, and whose first pod has a node."""
    annotations = claim["metadata"].get("annotations") or {}
    spec = claim["spec"]
    return bool(
        spec.get("storageClassName") == STORAGE_CLASS
        and not spec.get("volumeName")
        and annotations.get(_SELECTED_NODE)
        and set(spec["accessModes"]) <= _ONE_NODE
    )


def volume_name(claim: Object) -> str:
    """Name of the volume that is made for a claim."""
    return f"pvc-{claim['metadata']['uid']}"


def volume(claim: Object) -> Object:
    """The volume that is made for a claim."""
    meta, spec = claim["metadata"], claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": volume_name(claim),
            "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER},
        },
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": STORAGE_CLASS,
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "csi": {"driver": DRIVER, "volumeHandle": volume_name(claim), "fsType": "ext4"},
        },
    }


def is_attached(attachment: Object) -> bool:
    """The driver has attached the volume."""
    return bool((attachment.get("status") or {}).get("attached"))


def in_use(volumes: Iterable[str]) -> list[str]:
    """Volumes as a node's status names those that its kubelet has mounted."""
    return sorted(f"kubernetes.io/csi/{DRIVER}^{name}" for name in volumes)


def claims_of(pod: Mapping[str, Any]) -> list[str]:
    """Names of the claims that a pod mounts."""
    return [
        one["persistentVolumeClaim"]["claimName"]
        for one in pod["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in one
    ]


def waits_for_attachment(
    pod: Mapping[str, Any], claims: Iterable[Object], attached: Iterable[Object]
) -> str:
    """The volume that is not attached to the pod's node yet; empty where all are.

    Volumes of other drivers are taken to be there.
    """
    namespace, node = pod["metadata"]["namespace"], pod["spec"]["nodeName"]
    bound = {
        one["metadata"]["name"]: one["spec"].get("volumeName", "")
        for one in claims
        if one["metadata"]["namespace"] == namespace
        and one["spec"].get("storageClassName") == STORAGE_CLASS
    }
    there = {
        one["spec"]["source"].get("persistentVolumeName")
        for one in attached
        if one["spec"]["nodeName"] == node
        and is_attached(one)
        and not one["metadata"].get("deletionTimestamp")
    }
    for name in claims_of(pod):
        if name in bound and bound[name] not in there:
            return bound[name] or name
    return ""
