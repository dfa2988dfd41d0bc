"""Layer 2: image, identity, node and cluster."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from components.talos_cluster import TalosIdentity, TalosIdentityArgs, camel_case
from components.talos_image import customization, nvidia_extensions
from gpu_passthrough.config import Extensions, Stack
from tests.program.recorder import GENERATE, SECRETS, TALOSCONFIG, Recorder, record, run_program
from tests.program.stacks import stack, talos

NVIDIA = ["nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset"]
HARDEN = {"net.core.bpf_jit_harden": "1"}


def chain(built: Stack) -> Recorder:
    return run_program(lambda: built)


def patches(found: Recorder, node: str) -> list[dict[str, Any]]:
    texts = found.inputs("ConfigurationApply", f"{node}-configuration")["configPatches"]
    return [json.loads(text) for text in texts]


def machine(found: Recorder, node: str) -> dict[str, Any]:
    """The machine sections of a node's patches as one."""
    return {k: v for one in patches(found, node) for k, v in one.get("machine", {}).items()}


def of_kind(found: Recorder, node: str, kind: str) -> list[dict[str, Any]]:
    return [one for one in patches(found, node) if one.get("kind") == kind]


@pytest.mark.parametrize(
    ("wanted", "kernel", "toolkit"),
    [
        ({}, "nonfree-kmod-nvidia-lts", "nvidia-container-toolkit-lts"),
        (
            {"channel": "production"},
            "nonfree-kmod-nvidia-production",
            "nvidia-container-toolkit-production",
        ),
        (
            {"kernelModules": "open"},
            "nvidia-open-gpu-kernel-modules-lts",
            "nvidia-container-toolkit-lts",
        ),
    ],
)
def test_kernel_module_and_toolkit_are_of_one_channel_and_in_one_order(
    wanted: dict[str, str], kernel: str, toolkit: str
) -> None:
    extensions = nvidia_extensions(Extensions.model_validate(wanted))
    assert extensions == (f"siderolabs/{kernel}", f"siderolabs/{toolkit}")


def test_a_schematic_names_extensions_only_where_there_are_any() -> None:
    assert customization(()) == {"customization": {}}
    named = customization(("siderolabs/a", "siderolabs/b"))
    extensions = {"officialExtensions": ["siderolabs/a", "siderolabs/b"]}
    assert named == {"customization": {"systemExtensions": extensions}}


def test_only_gpu_nodes_boot_and_upgrade_with_the_driver() -> None:
    found = chain(stack())
    plain = json.loads(found.inputs("Schematic", "talos-schematic")["schematic"])
    driver = json.loads(found.inputs("Schematic", "talos-nvidia-schematic")["schematic"])
    assert plain == customization(())
    assert driver == customization(nvidia_extensions(Extensions()))
    for node, image in (("k8s-cp-1", "talos"), ("k8s-worker-1", "talos-nvidia")):
        disk = found.inputs("VmLegacy", f"{node}-vm")["disks"][0]
        assert disk["importFrom"] == f"id-of-{image}-on-pve"
        assert machine(found, node)["install"]["image"] == (
            f"factory.talos.dev/nocloud-installer/id-of-{image}-schematic:v1.13.9"
        )


def test_a_host_gets_only_the_images_that_its_nodes_boot() -> None:
    found = chain(stack())
    assert {one.name for one in found.of("File")} == {
        "talos-on-pve",
        "talos-nvidia-on-pve",
        "talos-nvidia-on-pve2",
    }
    file = found.inputs("File", "talos-nvidia-on-pve2")
    schematic = "id-of-talos-nvidia-schematic"
    assert file == {
        "nodeName": "pve2",
        "datastoreId": "local",
        "contentType": "import",
        "url": f"https://factory.talos.dev/image/{schematic}/v1.13.9/nocloud-amd64.qcow2",
        "fileName": f"talos-v1.13.9-{schematic}.qcow2",
        "overwrite": False,
        "overwriteUnmanaged": True,
        "uploadTimeout": 1800,
    }


def test_an_own_image_factory_is_also_the_installers_registry() -> None:
    found = chain(stack(cluster={"imageFactory": "http://10.0.0.5:8480"}))
    assert found.provider("talos").inputs["imageFactoryUrl"] == "http://10.0.0.5:8480"
    image = machine(found, "k8s-cp-1")["install"]["image"]
    assert image == "10.0.0.5:8480/nocloud-installer/id-of-talos-schematic:v1.13.9"


def test_modules_are_declared_where_the_extensions_are() -> None:
    found = chain(stack())
    for worker in ("k8s-worker-1", "k8s-worker-2"):
        modules = machine(found, worker)["kernel"]["modules"]
        assert [one["name"] for one in modules] == NVIDIA
    assert set(machine(found, "k8s-cp-1")) == {"install"}


@pytest.mark.parametrize(
    ("version", "document", "hardened"),
    [
        ("v1.11.6", False, True),
        ("v1.12.0", True, True),
        ("v1.12.11", True, True),
        ("v1.13.0", True, False),
        ("v1.14.0-rc.1", True, False),
    ],
)
def test_what_differs_between_talos_versions(version: str, document: bool, hardened: bool) -> None:
    found = chain(talos(version))
    name = "k8s-worker-1"
    by_document = [{"auto": "off", "hostname": name}] if document else []
    documents = of_kind(found, name, "HostnameConfig")
    assert [{k: one[k] for k in ("auto", "hostname")} for one in documents] == by_document
    by_machine = None if document else {"hostname": name}
    assert machine(found, name).get("network") == by_machine
    assert machine(found, name).get("sysctls") == (HARDEN if hardened else None)
    assert "sysctls" not in machine(found, "k8s-cp-1")


def test_off_is_a_word_and_not_a_boolean() -> None:
    """YAML 1.1 reads a bare off as false."""
    texts = chain(stack()).inputs("ConfigurationApply", "k8s-cp-1-configuration")["configPatches"]
    assert any('"auto": "off"' in text for text in texts)


@pytest.mark.parametrize("version", ["v1.11.6", "v1.12.0"])
def test_the_shared_address_belongs_to_the_control_plane_alone(version: str) -> None:
    found = chain(stack(cluster={"virtualAddress": "10.0.0.10", "talosVersion": version}))
    for node, shared in (("k8s-cp-1", True), ("k8s-worker-1", False)):
        assert ("10.0.0.10" in json.dumps(patches(found, node))) is shared
    if version == "v1.12.0":
        (vip,) = of_kind(found, "k8s-cp-1", "Layer2VIPConfig")
        (alias,) = of_kind(found, "k8s-cp-1", "LinkAliasConfig")
        assert (vip["name"], vip["link"]) == ("10.0.0.10", alias["name"])
    assert "VIP" not in json.dumps(patches(chain(stack()), "k8s-cp-1"))


def test_a_taint_is_put_on_gpu_nodes_only() -> None:
    found = chain(stack(gpuTaint={"key": "example.org/gpu", "value": "yes"}))
    assert machine(found, "k8s-worker-1")["nodeTaints"] == {"example.org/gpu": "yes:NoSchedule"}
    assert "nodeTaints" not in machine(found, "k8s-cp-1")
    assert "nodeTaints" not in machine(chain(stack()), "k8s-worker-1")


def test_pods_run_on_control_planes_only_where_the_stack_says_so() -> None:
    found = chain(stack(cluster={"scheduleOnControlPlanes": True}))
    allowed = {"cluster": {"allowSchedulingOnControlPlanes": True}}
    assert allowed in patches(found, "k8s-cp-1")
    assert allowed not in patches(found, "k8s-worker-1")
    assert allowed not in patches(chain(stack()), "k8s-cp-1")


def test_the_configuration_is_generated_with_the_names_that_the_plugin_knows() -> None:
    calls = chain(stack()).calls[GENERATE]
    assert sorted(one["machineType"] for one in calls) == ["controlplane", "worker", "worker"]
    for call in calls:
        assert call["machineSecrets"] == SECRETS["machineSecrets"]
        assert call["clusterName"] == "homelab"
        assert call["clusterEndpoint"] == "https://10.0.0.11:6443"
        assert (call["talosVersion"], call["kubernetesVersion"]) == ("v1.13.9", "v1.34.4")


def test_the_clusters_identity_stays_secret_on_its_way() -> None:
    secret: list[asyncio.Future[bool]] = []

    def build() -> None:
        identity = TalosIdentity("homelab", TalosIdentityArgs(talos_version="v1.13.9"))
        for one in (identity.machine_secrets, identity.client_configuration):
            secret.append(asyncio.ensure_future(one.is_secret()))

    record(build)
    assert [one.result() for one in secret] == [True, True]


def test_names_become_the_plugins_own_however_deep() -> None:
    given = {"k8s_aggregator": {"cert": "c"}, "k8s": {"key": "k"}, "bootstrap_token": "t"}
    wanted = {"k8sAggregator": {"cert": "c"}, "k8s": {"key": "k"}, "bootstrapToken": "t"}
    assert camel_case(given) == wanted


def test_a_node_is_configured_at_its_own_address_with_the_administrators_key() -> None:
    found = chain(stack()).inputs("ConfigurationApply", "k8s-worker-2-configuration")
    assert (found["node"], found["endpoint"]) == ("10.0.0.22", "10.0.0.22")
    assert found["clientConfiguration"] == SECRETS["clientConfiguration"]


def test_the_first_control_plane_is_bootstrapped_and_gives_the_kubeconfig() -> None:
    second = {"role": "controlplane", "host": "pve", "vmId": 102, "address": "10.0.0.12"}
    found = chain(stack(nodes={"k8s-cp-2": second}, timeouts={"kubernetesReady": 88}))
    for kind in ("Bootstrap", "Kubeconfig"):
        inputs = found.inputs(kind)
        assert (inputs["node"], inputs["endpoint"]) == ("10.0.0.11", "10.0.0.11")
        assert inputs["timeouts"]["create"] == "88s"
    assert found.one("Bootstrap").urn in found.waits_for(found.one("Kubeconfig"))
    (call,) = found.calls[TALOSCONFIG]
    assert call["endpoints"] == ["10.0.0.11", "10.0.0.12"]
    assert call["clusterName"] == "homelab"
