"""The whole program: what it asks for, in which order, and what it refuses."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pulumi
import pytest

from gpu_passthrough.config import Stack
from gpu_passthrough.load import load_stack_file
from gpu_passthrough.problems import ConfigurationError, Problem
from tests.program.recorder import PROGRAM, Recorder, run_program, walk
from tests.program.stacks import KEYS, MACHINES, stack, without

OURS = "gpu-passthrough:index:"
GRAPH = {
    ("TalosIdentity", "homelab"): ["homelab-secrets"],
    ("TalosImage", "talos"): ["talos-on-pve", "talos-schematic"],
    ("TalosImage", "talos-nvidia"): [
        "talos-nvidia-on-pve",
        "talos-nvidia-on-pve2",
        "talos-nvidia-schematic",
    ],
    ("ProxmoxGpuVm", "k8s-cp-1"): ["k8s-cp-1-vm"],
    ("ProxmoxGpuVm", "k8s-worker-1"): ["k8s-worker-1-gpu0", "k8s-worker-1-vm"],
    ("ProxmoxGpuVm", "k8s-worker-2"): ["k8s-worker-2-gpu0", "k8s-worker-2-vm"],
    ("TalosNvidiaNode", "k8s-cp-1"): ["k8s-cp-1-configuration"],
    ("TalosNvidiaNode", "k8s-worker-1"): ["k8s-worker-1-configuration"],
    ("TalosNvidiaNode", "k8s-worker-2"): ["k8s-worker-2-configuration"],
    ("TalosCluster", "homelab"): ["homelab-bootstrap", "homelab-kubeconfig"],
    ("GpuOperatorRelease", "gpu-operator"): ["gpu-operator-namespace", "gpu-operator-release"],
    ("NvidiaRuntimeClass", "nvidia"): ["nvidia-runtime-class"],
    ("GpuApp", "immich-machine-learning"): [
        "immich-machine-learning-cache",
        "immich-machine-learning-deployment",
        "immich-machine-learning-service",
    ],
}
CHAIN = (
    ("Pci", "k8s-worker-1-gpu0"),
    ("VmLegacy", "k8s-worker-1-vm"),
    ("ConfigurationApply", "k8s-worker-1-configuration"),
    ("Release", "gpu-operator-release"),
    ("RuntimeClassPatch", "nvidia-runtime-class"),
    ("Deployment", "immich-machine-learning-deployment"),
)


@pytest.fixture(scope="module")
def chain() -> Recorder:
    return run_program(stack)


def test_every_layer_is_a_component_with_its_parts(chain: Recorder) -> None:
    found: dict[tuple[str, str], list[str]] = {}
    for one in chain.resources:
        if one.type.startswith(OURS):
            found.setdefault((one.type.removeprefix(OURS), one.name), [])
        elif (parent := chain.parent(one)) is not None:
            found.setdefault((parent.type.removeprefix(OURS), parent.name), []).append(one.name)
    assert {key: sorted(names) for key, names in found.items()} == GRAPH


def test_outside_of_components_are_only_providers_and_the_shared_namespace(
    chain: Recorder,
) -> None:
    alone = {
        one.name
        for one in chain.resources
        if chain.parent(one) is None and not one.type.startswith(OURS)
    }
    assert alone == {"talos", "proxmox", "kubernetes", "immich-namespace"}


def test_the_order_is_that_of_the_hardware_up_to_the_pod(chain: Recorder) -> None:
    for (lower, lower_name), (upper, upper_name) in pairwise(CHAIN):
        below, above = chain.one(lower, lower_name), chain.one(upper, upper_name)
        assert below.urn in chain.waits_for(above), f"{upper_name} does not wait for {lower_name}"
        assert above.urn not in chain.waits_for(below)


def test_the_operator_waits_for_every_node_and_the_cluster_only_for_its_control_plane(
    chain: Recorder,
) -> None:
    applied = {one.name: one.urn for one in chain.of("ConfigurationApply")}
    assert set(applied.values()) <= chain.waits_for(chain.one("Release"))
    bootstrap = chain.waits_for(chain.one("Bootstrap")) & set(applied.values())
    assert bootstrap == {applied["k8s-cp-1-configuration"]}


def test_workers_do_not_wait_for_each_other(chain: Recorder) -> None:
    first = chain.one("VmLegacy", "k8s-worker-1-vm")
    second = chain.one("VmLegacy", "k8s-worker-2-vm")
    assert first.urn not in chain.waits_for(second)
    assert second.urn not in chain.waits_for(first)


def test_every_resource_has_an_explicit_provider(chain: Recorder) -> None:
    for one in chain.resources:
        if one.request.custom and "pulumi:providers:" not in one.type:
            package = one.type.partition(":")[0]
            assert f"pulumi:providers:{package}::" in one.request.provider, one.name


def test_what_lives_in_the_cluster_dies_with_the_control_plane(chain: Recorder) -> None:
    machine = chain.one("VmLegacy", "k8s-cp-1-vm").urn
    components = [
        one for one in chain.resources if chain.parent(one) is None and one.type.startswith(OURS)
    ]
    upper = {"GpuOperatorRelease", "NvidiaRuntimeClass", "GpuApp"}
    for one in components:
        if one.type.removeprefix(OURS) in upper:
            assert one.request.deletedWith == machine, one.name
    assert chain.one("Namespace", "immich-namespace").request.deletedWith == machine


def test_a_machine_is_not_reset_before_its_vm_is_deleted(chain: Recorder) -> None:
    node = chain.one("TalosNvidiaNode", "k8s-worker-1")
    assert node.request.deletedWith == chain.one("VmLegacy", "k8s-worker-1-vm").urn
    assert chain.inputs("ConfigurationApply", "k8s-worker-1-configuration")["onDestroy"] == {
        "reset": False,
        "graceful": False,
        "reboot": False,
    }


def test_identity_and_disks_are_protected_where_the_stack_says_so(
    chain: Recorder,
) -> None:
    def protected(recorder: Recorder) -> set[str]:
        return {one.name for one in recorder.resources if one.request.protect}

    assert protected(chain) == {
        "homelab-secrets",
        "k8s-cp-1-vm",
        "k8s-worker-1-vm",
        "k8s-worker-2-vm",
        "immich-machine-learning-cache",
    }
    assert protected(run_program(lambda: stack(protect=False))) == set()


def test_secrets_leave_the_program_as_secrets(chain: Recorder) -> None:
    assert chain.secret_outputs == {"kubeconfig", "talosconfig"}
    assert chain.outputs["kubeconfig"] == "the kubeconfig"
    assert chain.outputs["talosconfig"] == "the talosconfig"
    assert chain.outputs["gpus"] == [
        {"node": "k8s-worker-1", "card": "RTX 3090", "path": "0000:01:00"},
        {"node": "k8s-worker-2", "card": "RTX 4070 Ti Super", "path": "0000:02:00"},
    ]


@pytest.mark.parametrize("secret", ["client-key", "os-key", "the kubeconfig", "version: v1alpha1"])
def test_no_input_holds_a_secret_in_the_open(chain: Recorder, secret: str) -> None:
    for one in chain.resources:
        for key, value in one.inputs.items():
            if secret in walk(value):
                assert key in one.secrets, f"{one.name}.{key}"


def test_every_state_of_the_secrets_is_marked(chain: Recorder) -> None:
    request = chain.one("Secrets").request
    assert set(request.additionalSecretOutputs) == {"machineSecrets", "clientConfiguration"}
    assert list(request.ignoreChanges) == ["talosVersion"]


def test_the_token_of_the_stack_file_is_a_secret_and_may_be_left_to_the_environment(
    chain: Recorder,
) -> None:
    assert "apiToken" not in chain.provider("proxmox").inputs
    given = run_program(lambda: stack(proxmox={"apiToken": "u@pve!t=1"}))
    assert given.provider("proxmox").inputs["apiToken"] == "u@pve!t=1"
    assert "apiToken" in given.provider("proxmox").secrets


def test_apps_of_one_namespace_share_it_and_built_in_ones_are_not_made() -> None:
    def app(namespace: str) -> dict[str, Any]:
        return {"namespace": namespace, "image": "example.org/ml:1.0"}

    apps = {"a": app("ml"), "b": app("ml"), "c": app("default"), "d": app("gpu-operator")}
    found = run_program(lambda: stack(apps=apps))
    names = [one.inputs["metadata"]["name"] for one in found.of("Namespace")]
    assert sorted(names) == ["gpu-operator", "immich", "ml"]
    namespaces = {one.name: one.inputs["metadata"]["namespace"] for one in found.of("Deployment")}
    assert namespaces["a-deployment"] == namespaces["b-deployment"] == "ml"
    assert namespaces["c-deployment"] == "default"
    assert namespaces["d-deployment"] == "gpu-operator"


def kinds(recorder: Recorder) -> set[str]:
    """The components that were made."""
    return {one.type.removeprefix(OURS) for one in recorder.resources if OURS in one.type}


UPPER = {"GpuOperatorRelease", "NvidiaRuntimeClass", "GpuApp"}


def test_a_stack_that_starts_at_machines_builds_no_vm_and_gives_them_back_in_the_end() -> None:
    found = run_program(lambda: without("proxmox", "nodes", machines=MACHINES))
    middle = {"TalosIdentity", "TalosImage", "TalosNvidiaNode", "TalosCluster"}
    assert kinds(found) == UPPER | middle
    assert found.of("File") == []
    assert found.of("Bootstrap")
    for one in found.of("ConfigurationApply"):
        assert one.inputs["onDestroy"] == {"reset": True, "graceful": False, "reboot": True}
    assert not any(one.request.deletedWith for one in found.resources)


def test_a_stack_that_starts_at_a_talos_cluster_bootstraps_nothing() -> None:
    found = run_program(lambda: without("proxmox", "nodes", machines=MACHINES, talos=KEYS))
    assert kinds(found) == UPPER | {"TalosCluster"}
    assert found.of("Bootstrap") == []
    assert found.inputs("Kubeconfig")["clientConfiguration"] == KEYS
    assert found.one("Kubeconfig").secrets == {"clientConfiguration"}


def test_a_stack_that_starts_at_kubernetes_uses_the_kubeconfig_it_is_given() -> None:
    access = {"kubeconfig": "given", "context": "gpu"}
    found = run_program(lambda: without("proxmox", "nodes", "cluster", kubernetes=access))
    assert kinds(found) == UPPER
    provider = found.provider("kubernetes")
    assert provider.inputs["kubeconfig"] == "given"
    assert provider.inputs["context"] == "gpu"
    assert provider.secrets == {"kubeconfig"}
    assert "hostPaths" not in found.inputs("Release")["values"]


def test_a_refused_configuration_is_one_error_in_its_own_words() -> None:
    problem = Problem(("nodes", "k8s-cp-1", "memmoryMib"), "No such key.", fix="memoryMib")

    def refuse() -> Stack:
        raise ConfigurationError([problem])

    recorder = Recorder()
    with pytest.raises(pulumi.RunError) as error:
        run_program(refuse, recorder)
    assert str(error.value) == str(ConfigurationError([problem]))
    assert error.value.__suppress_context__
    assert recorder.resources == []


def test_the_dev_stack_of_this_checkout_builds_the_chain() -> None:
    loaded = load_stack_file(PROGRAM.parent / "Pulumi.dev.yaml")
    found = run_program(lambda: loaded)
    assert {one.name for one in found.of("VmLegacy")} == {f"{name}-vm" for name in loaded.nodes}
    assert found.of("Deployment")
