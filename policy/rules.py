"""The rules, as plain functions of a resource's inputs.

Nothing here knows Pulumi or this project: a rule takes properties as the engine sends them
(camelCase) and yields one message per violation. A message says what is wrong, what follows
from it, and what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Props = Mapping[str, Any]

POD_PATHS: dict[str, tuple[str, ...]] = {
    "kubernetes:core/v1:Pod": ("spec",),
    "kubernetes:apps/v1:Deployment": ("spec", "template", "spec"),
    "kubernetes:apps/v1:StatefulSet": ("spec", "template", "spec"),
    "kubernetes:apps/v1:DaemonSet": ("spec", "template", "spec"),
    "kubernetes:apps/v1:ReplicaSet": ("spec", "template", "spec"),
    "kubernetes:batch/v1:Job": ("spec", "template", "spec"),
    "kubernetes:batch/v1:CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
"""Where the pod specification lies in each kind of workload."""

VM = "proxmoxve:index/vmLegacy:VmLegacy"
RELEASES = (
    "kubernetes:helm.sh/v3:Release",
    "kubernetes:helm.sh/v3:Chart",
    "kubernetes:helm.sh/v4:Chart",
)
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"

STATEFUL = {
    VM: "the VM's disks, and with them etcd or the pods' local data",
    "talos:machine/secrets:Secrets": "the cluster's identity: every certificate derives from it",
    CLAIM: "the volume's data",
}
"""Types that hold what cannot be made again, and what that is."""

SECRET_NAME = re.compile(r"(password|passwd|secret|token|api_?key|private_?key)", re.IGNORECASE)
GPU_RESOURCE = re.compile(r"^nvidia\.com/(gpu|mig-)")
ONE_NODE_MODES = {"ReadWriteOnce", "ReadWriteOncePod"}


def at(value: Any, *path: str) -> Any:
    """The value under a path of keys; None where any of them is absent."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def items(value: Any) -> list[Mapping[str, Any]]:
    """The mappings of a list; nothing where it is absent.

    The engine's lists are sequences of Pulumi's own, not Python lists.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [one for one in value if isinstance(one, Mapping)]


def pod_spec(kind: str, props: Props) -> Mapping[str, Any]:
    """The pod specification of a workload; empty for anything else."""
    path = POD_PATHS.get(kind)
    found = at(props, *path) if path else None
    return found if isinstance(found, Mapping) else {}


def containers(spec: Props) -> list[Mapping[str, Any]]:
    """Containers and init containers of a pod."""
    return items(spec.get("containers")) + items(spec.get("initContainers"))


def claims_gpu(spec: Props) -> bool:
    """Whether a container of the pod has a GPU limit above zero."""
    for container in containers(spec):
        limits = at(container, "resources", "limits")
        for name, count in (limits or {}).items():
            if GPU_RESOURCE.match(name) and str(count) not in ("0", ""):
                return True
    return False


def gpu_limit_without_runtime_class(kind: str, props: Props) -> Iterator[str]:
    """A pod that claims a GPU names the runtime class that injects the driver."""
    spec = pod_spec(kind, props)
    if claims_gpu(spec) and not spec.get("runtimeClassName"):
        yield (
            "The pod claims nvidia.com/gpu but has no runtimeClassName, so nothing injects the "
            "driver libraries: CUDA fails with error 35 or the app silently computes on the CPU. "
            "Set runtimeClassName: nvidia in the pod's spec, beside containers."
        )


def runtime_class_without_gpu_limit(kind: str, props: Props) -> Iterator[str]:
    """A pod with the GPU runtime class claims what it uses."""
    spec = pod_spec(kind, props)
    if spec.get("runtimeClassName") == "nvidia" and not claims_gpu(spec):
        yield (
            "The pod has runtimeClassName: nvidia but no limit for nvidia.com/gpu. If its image "
            "asks for all devices, it gets every card of the node, also those that other pods "
            "have claimed. Add resources.limits with nvidia.com/gpu: 1."
        )


def operand_of_talos_enabled(kind: str, props: Props) -> Iterator[str]:
    """On Talos the operator installs neither driver nor toolkit."""
    if kind not in RELEASES or not str(props.get("chart", "")).endswith("gpu-operator"):
        return
    for operand in ("driver", "toolkit"):
        if at(props, "values", operand, "enabled") is not False:
            yield (
                f"values.{operand}.enabled of the GPU Operator is not false, and the chart's "
                f"default is true. On Talos the {operand} comes from a system extension; the "
                f"operator's own cannot be installed on an immutable system and its pods fail. "
                f"Set {operand}: {{enabled: false}}."
            )


def raw_pci_address(kind: str, props: Props) -> Iterator[str]:
    """A card is passed by a resource mapping, never by its address."""
    for device in items(props.get("hostpcis")) if kind == VM else ():
        if device.get("id"):
            yield (
                f"{device.get('device', 'hostpci')} names the PCI address {device['id']}. Proxmox "
                "lets only root@pam with a password do that, no API token, and an address that "
                "moved passes another device. Make a resource mapping and name it in mapping."
            )


def ballooning(kind: str, props: Props) -> Iterator[str]:
    """A VM with a passed device keeps all of its memory."""
    if kind != VM or not items(props.get("hostpcis")):
        return
    floating = at(props, "memory", "floating")
    if floating:
        yield (
            f"memory.floating is {floating} on a VM with a passed-through device. The device "
            "writes to the guest's memory directly, so all of it is pinned and ballooning "
            "cannot work. Set floating: 0."
        )


def pcie_without_q35(kind: str, props: Props) -> Iterator[str]:
    """A PCIe device needs a PCIe bus."""
    if kind != VM or "q35" in str(props.get("machine") or ""):
        return
    if any(device.get("pcie") for device in items(props.get("hostpcis"))):
        yield (
            f"A PCIe device is passed to machine type {props.get('machine') or 'pc (default)'}, "
            "which has no PCIe bus: Proxmox creates the VM and refuses to start it. "
            "Set machine: q35."
        )


def enrolled_secure_boot_keys(kind: str, props: Props) -> Iterator[str]:
    """Without its own secure boot image, Talos does not start under Microsoft's keys."""
    if kind == VM and at(props, "efiDisk", "preEnrolledKeys"):
        yield (
            "efiDisk.preEnrolledKeys is true, which turns secure boot on with keys that did not "
            "sign Talos' ordinary image: the firmware refuses to boot it. Set it to false, or "
            "use the factory's secureboot image."
        )


def unpinned_chart(kind: str, props: Props) -> Iterator[str]:
    """A chart has a version."""
    if kind in RELEASES and not props.get("version"):
        yield (
            f"The chart {props.get('chart')} has no version: the next run installs whatever "
            "is newest then, and nobody sees it in a preview. Set version."
        )


def unpinned_image(kind: str, props: Props) -> Iterator[str]:
    """An image has a tag that does not move."""
    for container in containers(pod_spec(kind, props)):
        image = str(container.get("image") or "")
        tag = image.rpartition("/")[2].partition(":")[2]
        if image and "@sha256:" not in image and tag in ("", "latest"):
            yield (
                f"The image {image} of container {container.get('name')} is not pinned: each "
                "start may run another program, with a CUDA version that the driver may be too "
                "old for. Name a version tag or a digest."
            )


def plain_secret(kind: str, props: Props) -> Iterator[str]:
    """A secret is not written into a pod's specification."""
    for container in containers(pod_spec(kind, props)):
        for variable in items(container.get("env")):
            name = str(variable.get("name") or "")
            if variable.get("value") and SECRET_NAME.search(name):
                yield (
                    f"The variable {name} of container {container.get('name')} has its value in "
                    "the pod's specification, readable for everybody who may read pods. Take it "
                    "from a Secret with valueFrom.secretKeyRef."
                )


@dataclass(frozen=True)
class Rule:
    """A rule for one resource: its name, its weight and its function."""

    name: str
    level: Literal["mandatory", "advisory"]
    check: Callable[[str, Props], Iterable[str]]

    @property
    def description(self) -> str:
        """What the rule wants, in one sentence."""
        return (self.check.__doc__ or "").strip()


RULES = (
    Rule("gpu-limit-needs-runtime-class", "mandatory", gpu_limit_without_runtime_class),
    Rule("runtime-class-needs-gpu-limit", "advisory", runtime_class_without_gpu_limit),
    Rule("talos-brings-driver-and-toolkit", "mandatory", operand_of_talos_enabled),
    Rule("no-raw-pci-address", "mandatory", raw_pci_address),
    Rule("no-ballooning-with-passthrough", "mandatory", ballooning),
    Rule("pcie-needs-q35", "mandatory", pcie_without_q35),
    Rule("no-enrolled-secure-boot-keys", "mandatory", enrolled_secure_boot_keys),
    Rule("pinned-chart", "mandatory", unpinned_chart),
    Rule("pinned-image", "mandatory", unpinned_image),
    Rule("no-plain-secret", "mandatory", plain_secret),
)


def unprotected(kind: str, protect: bool) -> Iterator[str]:
    """What cannot be made again is protected."""
    if kind in STATEFUL and not protect:
        yield (
            f"The resource is not protected, and it holds {STATEFUL[kind]}. A destroy or a "
            "replacement removes it for good. Set protect=True in its resource options."
        )


@dataclass(frozen=True)
class Resource:
    """A resource of the stack, as far as a rule over several needs it."""

    kind: str
    name: str
    props: Props

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name in the cluster."""
        metadata = self.props.get("metadata") or {}
        return str(metadata.get("namespace") or "default"), str(metadata.get("name") or self.name)


def deadlocked_rollouts(resources: Iterable[Resource]) -> Iterator[tuple[Resource, str]]:
    """A Deployment with a volume for one node stops the old pod before it starts a new one."""
    stack = list(resources)
    modes = {one.key: at(one.props, "spec", "accessModes") for one in stack if one.kind == CLAIM}
    for one in stack:
        if one.kind != DEPLOYMENT or at(one.props, "spec", "strategy", "type") == "Recreate":
            continue
        for volume in items(pod_spec(one.kind, one.props).get("volumes")):
            claim = str(at(volume, "persistentVolumeClaim", "claimName") or "")
            mode = ONE_NODE_MODES & set(modes.get((one.key[0], claim)) or ())
            if mode:
                yield (
                    one,
                    (
                        f"The Deployment {one.key[1]} uses the {min(mode)} claim {claim} with "
                        "strategy RollingUpdate (the default). The new pod is started first; on "
                        "another node it waits for a volume that the old pod never lets go. "
                        "Set strategy: {type: Recreate}, or use a StatefulSet."
                    ),
                )
