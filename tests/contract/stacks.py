"""The stacks of these tests: the document's, and each option of the program once."""

from __future__ import annotations

from functools import cache
from typing import Any

from gpu_passthrough.config import Stack
from tests.program.recorder import Recorder, run_program
from tests.program.stacks import KEYS, MACHINES, RTX_3090, RTX_4070, stack, talos, without

TAINT = {"key": "example.org/gpu", "value": "yes", "effect": "NoExecute"}
VOLUME = {"mountPath": "/v", "size": "1Gi", "storageClass": "rack-block"}
APP = {"namespace": "ml", "image": "example.org/ml:1.0"}
THIRD = {"role": "controlplane", "host": "pve2", "vmId": 102, "address": "10.0.0.12"}
ALL_VALUES = {"psa": {"enabled": True}, "mig": {"strategy": "mixed"}}
HIGHER = ("proxmox", "nodes")


def _machines(**changes: Any) -> Stack:
    return without(*HIGHER, machines=MACHINES, **changes)


OPTIONS: dict[str, Stack] = {
    "document": stack(),
    "unprotected": stack(protect=False),
    "token": stack(proxmox={"apiToken": "u@pve!t=1", "insecure": True}),
    "vlan": stack(proxmox={"network": {"bridge": "vmbr1", "vlan": 20}}),
    "stores": stack(proxmox={"diskDatastore": "tank", "imageDatastore": "isos"}),
    "two cards in one VM": stack(nodes={"k8s-worker-1": {"gpus": [RTX_4070, RTX_3090]}}),
    "three control planes": stack(
        nodes={"k8s-cp-2": THIRD, "k8s-cp-3": {**THIRD, "vmId": 103, "address": "10.0.0.13"}},
        cluster={"virtualAddress": "10.0.0.10", "endpoint": "https://10.0.0.10:6443"},
    ),
    "virtual address before documents": stack(
        cluster={"virtualAddress": "10.0.0.10", "talosVersion": "v1.11.6"}
    ),
    "pods on control planes": stack(cluster={"scheduleOnControlPlanes": True}),
    "open modules": stack(
        cluster={"extensions": {"channel": "production", "kernelModules": "open"}}
    ),
    "own factory": stack(cluster={"imageFactory": "http://10.0.0.5:8480"}),
    "taint": stack(gpuTaint=TAINT),
    "shared": stack(gpuOperator={"sharing": {"replicas": 4}}),
    "shared and renamed": stack(gpuOperator={"sharing": {"replicas": 4, "rename": True}}),
    "more values": stack(gpuOperator={"values": ALL_VALUES}),
    "operands off": stack(
        gpuOperator={"gfd": {"enabled": False}, "dcgmExporter": {"enabled": False}}
    ),
    "own namespace": stack(gpuOperator={"namespace": "ops", "repository": "https://example.org/c"}),
    "another class": stack(runtimeClass={"name": "gpu", "handler": "gpu"}),
    "apps": stack(
        apps={
            "plain": APP,
            "full": {
                **APP,
                **{"gpus": 2, "replicas": 3, "port": 80, "strategy": "RollingUpdate"},
                **{"env": {"A": "b"}, "secretEnv": {"T": "x"}, "nodeSelector": {"a/b": "c"}},
                "volumes": {
                    "a": {**VOLUME, "accessMode": "ReadWriteMany"},
                    "b": {**VOLUME, "mountPath": "/w", "accessMode": "ReadWriteOncePod"},
                },
            },
            "none": {**APP, "replicas": 0, "namespace": "default", "runtimeClassName": None},
        }
    ),
    "timeouts": stack(timeouts={"vmCreate": 1, "talosApply": 86_400, "appReady": 5}),
    "machines": _machines(),
    "machines with a virtual address": _machines(cluster={"virtualAddress": "10.0.0.10"}),
    "a Talos cluster": _machines(talos=KEYS),
    "a kubeconfig": without(*HIGHER, "cluster", kubernetes={"kubeconfig": "x", "context": "y"}),
    **{
        f"Talos {version}": talos(version, gpuTaint=TAINT)
        for version in ("v1.10.9", "v1.11.6", "v1.12.0", "v1.12.11", "v1.13.0", "v1.14.0-rc.1")
    },
    **{
        f"operator {version}": stack(
            gpuOperator={"version": version, "sharing": {"replicas": 2}}, gpuTaint=TAINT
        )
        for version in ("v24.9.2", "v25.3.2", "v25.10.0", "v26.3.1", "v26.3.3", "v26.7.0")
    },
}


@cache
def recorded(option: str) -> Recorder:
    """What the program registers with an option."""
    return run_program(lambda: OPTIONS[option])
