"""Stack configurations of all kinds: most of them sound, many not, none chosen by hand.

Values come from small pools with the odd one among them, so that combinations meet each other.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from gpu_passthrough import tables
from gpu_passthrough.cards import Card, catalogue
from gpu_passthrough.gfd import product

from .sites import device_of

Draw = Callable[[st.SearchStrategy[Any]], Any]
Raw = dict[str, Any]

CARDS = [card for card in catalogue() if device_of(card)]
MODERN = [card for card in CARDS if card.architecture.kernel_modules == {"nonfree", "open"}]
TALOS = [row["talos"] for row in tables.rows("talos_drivers")]
CURRENT = [one for one in TALOS if one.startswith(("v1.13", "v1.14"))]
OPERATORS = [row["chart"] for row in tables.rows("operators")]
SOUND = [one for one in OPERATORS if one != "v26.3.0"]
KUBERNETES = [f"v1.{minor}.{patch}" for minor in range(28, 38) for patch in (0, 4)]
FITTING = ["v1.33.0", "v1.34.4", "v1.35.1", "v1.36.0"]
NODE_NAMES = ["k8s-cp-1", "k8s-worker-1", "k8s-worker-2", "w", "0", "3d-box", "node-a", "a" * 63]
HOSTS = ["pve", "pve2", "nvidia-pve", "PVE-3"]
APP_NAMES = ["immich-machine-learning", "ml", "a", "a-b", "3d", "gpu-operator", "z" * 63]
VOLUME_NAMES = ["cache", "c", "b-c", "models", "y" * 63]
NAMESPACES = ["immich", "ml", "default", "gpu-operator", "kube-system"]
IMMICH = "ghcr.io/immich-app/immich-machine-learning:v3.0.0-cuda"
CUDA = ["11.8", "12.2", "12.4", "12.8", "12.9", "13.0"]
VALUES: list[Raw] = [
    {},
    {"dcgmExporter": {"serviceMonitor": {"enabled": False}}},
    {"devicePlugin": {"env": [{"name": "DEVICE_LIST_STRATEGY", "value": "envvar"}]}},
    {"mig": {"strategy": "mixed"}},
    {"migManager": {"enabled": False}},
    {"cdi": {"enabled": True}},
    {"cdi": {"enabled": False}},
    {"nfd": {"enabled": False}},
    {"daemonsets": {"tolerations": [{"operator": "Exists"}]}},
    {"daemonsets": {"tolerations": []}},
    {"hostPaths": {"driverInstallDir": "/usr/local"}},
    {"hostPaths": {"driverInstallDir": "/usr/lib/nvidia"}},
    {"migManager": {"config": {"default": "all-1g.10gb"}}},
    {"node-feature-discovery": {"worker": {"tolerations": []}}},
    {"operator": {"tolerations": []}},
    {"sandboxWorkloads": {"enabled": True, "defaultWorkload": "vm-passthrough"}},
    {"toolkit": {"enabled": True}},
    {"operator": {"runtimeClass": "gpu"}},
]


def often(value: Any, *others: Any) -> st.SearchStrategy[Any]:
    """A value nine times out of ten, else one of the others."""
    return st.sampled_from([value] * 9 * len(others) + list(others))


def _gpu(draw: Draw, pool: list[Card], number: int, full: bool) -> Raw:
    card = draw(st.sampled_from(pool))
    if not full:
        return {"card": card.name}
    return {
        "card": card.name,
        "path": f"0000:{draw(often(number, 1)):02x}:00",
        "id": f"10de:{device_of(card)}",
        "subsystemId": draw(st.sampled_from(["10de:1467", "1462:5135", "0000:0000"])),
        "iommuGroup": draw(often(10 + number, 11)),
    }


def _machines(draw: Draw, pool: list[Card], full: bool) -> dict[str, Raw]:
    """Machines with their cards; `full` for VMs that the stack makes itself."""
    names = draw(st.lists(st.sampled_from(NODE_NAMES), min_size=1, max_size=5, unique=True))
    found: dict[str, Raw] = {}
    cards = 0
    for number, name in enumerate(names):
        role = "controlplane" if number == 0 else draw(often("worker", "controlplane"))
        count = draw(st.sampled_from([0, 1, 1, 2, 3, 4])) if number or len(names) == 1 else 0
        gpus = [_gpu(draw, pool, cards + one + 1, full) for one in range(count)]
        cards += count
        one: Raw = {"role": role, "address": f"10.5.0.{draw(often(11 + number, 11))}"}
        if full:
            one |= {"host": draw(often("pve", *HOSTS)), "vmId": draw(often(100 + number, 101))}
            one |= {"memoryMib": draw(often(16384, 2048)), "diskGib": draw(often(40, 10, 500))}
            one["cores"] = draw(often(4, 1, 64))
        found[name] = one | ({"gpus": gpus} if gpus else {})
    return found


def _proxmox(draw: Draw) -> Raw:
    network: Raw = {
        "cidr": draw(often("10.5.0.0/24", "10.5.0.0/16", "10.5.0.0/30", "10.6.0.0/24")),
        "gateway": "10.5.0.1",
        "dns": draw(st.sampled_from([["10.5.0.1"], ["9.9.9.9", "1.1.1.1"]])),
        "bridge": draw(often("vmbr0", "vmbr1.20", "bridge one")),
    }
    if draw(often(False, True)):
        network["vlan"] = draw(st.sampled_from([1, 20, 4094, 4095]))
    return {
        "endpoint": draw(often("https://10.5.0.2:8006", "https://pve.lan:8006")),
        "insecure": draw(st.booleans()),
        "diskDatastore": draw(often("local-lvm", "tank", "local", "my disks")),
        "imageDatastore": draw(often("local", "isos")),
        "network": network,
    }


def _cluster(draw: Draw, machines: dict[str, Raw]) -> Raw:
    virtual = draw(often(None, "10.5.0.99"))
    first = next(iter(machines.values()))["address"]
    found = {
        "name": draw(often("homelab", "0")),
        "endpoint": f"https://{draw(often(virtual or first, '10.5.0.12', 'k8s.lan'))}:6443",
        "talosVersion": draw(often(draw(st.sampled_from(CURRENT)), *TALOS)),
        "kubernetesVersion": draw(often(draw(st.sampled_from(FITTING)), *KUBERNETES)),
        "extensions": {
            "channel": draw(often("lts", "production")),
            "kernelModules": draw(st.sampled_from(["nonfree", "open"])),
        },
        "scheduleOnControlPlanes": draw(st.booleans()) or len(machines) == 1,
        "imageFactory": draw(often("https://factory.talos.dev", "http://10.5.0.5:8480")),
    }
    return found | ({"virtualAddress": virtual} if virtual else {})


def _operator(draw: Draw) -> Raw:
    found: Raw = {
        "version": draw(often(draw(st.sampled_from(SOUND)), *OPERATORS)),
        "values": draw(st.sampled_from([{}, draw(st.sampled_from(VALUES))])),
    }
    for operand, usual in (("gfd", True), ("dcgmExporter", True), ("validator", True)):
        if draw(often(True, False)):
            found[operand] = {"enabled": draw(often(usual, not usual))}
    if draw(st.integers(0, 2)) == 0:
        found["sharing"] = {
            "replicas": draw(st.sampled_from([2, 4, 10])),
            "rename": draw(st.booleans()),
        }
    if draw(often(False, True)):
        found["namespace"] = draw(st.sampled_from(["ops", "default"]))
    return found


def _volume(draw: Draw, name: str) -> Raw:
    return {
        "mountPath": draw(often(f"/{name}", "/models", "/", "/cache/")),
        "size": draw(st.sampled_from(["10Gi", "500Mi", "1Ti"])),
        "storageClass": "rack-block",
        "accessMode": draw(often("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod")),
    }


def _app(draw: Draw, pool: list[Card], machines: dict[str, Raw]) -> Raw:
    cuda = draw(st.sampled_from([None, *CUDA]))
    image = f"nvidia/cuda:{cuda}.0-base-ubuntu24.04" if cuda else draw(often(IMMICH, "Bad Image"))
    found: Raw = {"namespace": draw(st.sampled_from(NAMESPACES)), "image": image}
    found |= {"cuda": cuda} if cuda and draw(st.booleans()) else {}
    found["gpus"] = draw(often(1, 2))
    found["replicas"] = draw(often(1, 0, 2, 3))
    found["strategy"] = draw(often("Recreate", "RollingUpdate"))
    if draw(st.booleans()):
        found["vramMib"] = draw(st.sampled_from([4000, 7000, 16376, 24576, 30000]))
    if draw(st.booleans()):
        found["port"] = draw(st.sampled_from([80, 3003]))
    if draw(often(False, True)):
        name = draw(st.sampled_from(pool)).nvml_name or "RTX 3090"
        shared = draw(st.booleans())
        found["nodeSelector"] = {"nvidia.com/gpu.product": product(name, shared=shared)}
    if draw(often(False, True)):
        found["nodeSelector"] = {"kubernetes.io/hostname": draw(st.sampled_from(list(machines)))}
    if draw(often(False, True)):
        found["env"] = {draw(often("MODEL", "1X", "A B", "A=B", "")): "x"}
    names = draw(st.lists(st.sampled_from(VOLUME_NAMES), max_size=2, unique=True))
    return found | ({"volumes": {name: _volume(draw, name) for name in names}} if names else {})


@st.composite
def stacks(draw: Draw) -> Raw:
    """A stack that starts at any layer; most of them fit together."""
    start = draw(st.sampled_from(["hardware", "hardware", "vms", "talos", "kubernetes"]))
    pool = draw(often(MODERN, CARDS))
    machines = _machines(draw, pool, full=start == "hardware")
    found: Raw = {"gpuOperator": _operator(draw), "cluster": _cluster(draw, machines)}
    if start == "hardware":
        found |= {"proxmox": _proxmox(draw), "nodes": machines}
    else:
        found["machines"] = machines
    if start == "talos":
        keys = ("caCertificate", "clientCertificate", "clientKey")
        found["talos"] = dict.fromkeys(keys, "Y2E=")
    if start == "kubernetes":
        found["kubernetes"] = {"kubeconfig": "apiVersion: v1"}
        if draw(often(False, True)):
            del found["cluster"]
    if draw(st.integers(0, 2)) == 0:
        found["gpuTaint"] = {
            "key": draw(often("nvidia.com/gpu", "example.org/gpu", "gpu")),
            "value": draw(st.sampled_from(["present", "", "yes"])),
            "effect": draw(often("NoSchedule", "PreferNoSchedule", "NoExecute")),
        }
    names = draw(st.lists(st.sampled_from(APP_NAMES), max_size=2, unique=True))
    found["apps"] = {name: _app(draw, pool, machines) for name in names}
    found["protect"] = draw(st.booleans())
    return found


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
    | st.sampled_from(["v1.13.9", "10.5.0.11", "0000:01:00", "10de:2204", "RTX 3090", "pve"])
)  # fmt: skip
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=6), inner, max_size=2)
    ),
    max_leaves=6,
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    found = [path] if path else []
    for key, one in steps:
        nested = isinstance(one, (dict, list))
        found += _paths(one, (*path, key)) if nested else [(*path, key)]
    return found


@st.composite
def spoilt_stacks(draw: Draw) -> Raw:
    """A stack in which some values, or keys, are anything at all."""
    values: Raw = deepcopy(draw(stacks()))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(_paths(values)))
        holder: Any = values
        for step in path[:-1]:
            holder = holder[step]
        if isinstance(holder, dict) and draw(often(False, True)):
            holder[draw(st.text(max_size=8))] = holder.pop(path[-1])
        else:
            holder[path[-1]] = draw(anything)
    return values
