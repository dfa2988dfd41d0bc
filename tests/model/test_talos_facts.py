"""What a running machine is to Kubernetes: labels, cards, driver, toolkit, cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rack.world.nodefacts import NodeFacts
from rack.world.pci import PciFunction
from tests.model.talosworld import (
    MODULES,
    NONFREE_LTS,
    NOW,
    booted,
    changed,
    documents,
    gpu,
    talos_image,
    text,
    with_modules,
)

OPEN_LTS = (
    "siderolabs/nvidia-open-gpu-kernel-modules-lts",
    "siderolabs/nvidia-container-toolkit-lts",
)


def running(
    extensions: tuple[str, ...] = (),
    functions: tuple[PciFunction, ...] = (),
    configuration: str = "",
    version: str = "v1.13.9",
    **hardware: Any,
) -> NodeFacts:
    machine = booted(talos_image(*extensions, version=version), functions, **hardware)
    machine.apply(configuration or text(documents()), NOW)
    facts = machine.facts()
    assert facts is not None
    return facts


def gpu_node(*extensions: str, functions: tuple[PciFunction, ...] = (gpu(),)) -> NodeFacts:
    return running(extensions or NONFREE_LTS, functions, with_modules(*MODULES))


def test_a_node_says_what_it_runs() -> None:
    facts = running()
    assert (facts.name, facts.address, facts.role) == ("k8s-worker-1", "127.0.0.2", "worker")
    assert facts.os_image == "Talos (v1.13.9)"
    assert facts.kernel_version == "6.18.44-talos"
    assert facts.container_runtime == "containerd://2.2.7"
    assert facts.kubernetes_version == "v1.34.4"
    assert (facts.cpus, facts.memory_mib, facts.vm_id) == (4, 16384, 111)


def test_without_an_image_the_kubelet_is_that_of_the_release() -> None:
    facts = running(configuration=text(changed(documents(), "machine.kubelet", {})))
    assert facts.kubernetes_version == "v1.36.3"


class TestMetadata:
    def test_extensions_are_labels_and_the_schematic_an_annotation(self) -> None:
        facts = gpu_node(*NONFREE_LTS, "siderolabs/qemu-guest-agent")
        prefix = "extensions.talos.dev/"
        found = {k.removeprefix(prefix): v for k, v in facts.labels.items() if prefix in k}
        assert found == {
            "nonfree-kmod-nvidia-lts": "580.178.04-v1.13.9",
            "nvidia-container-toolkit-lts": "580.178.04-v1.19.1",
            "qemu-guest-agent": "11.0.2",
            "modules.dep": "6.18.44-talos",
        }
        schematic = talos_image(*NONFREE_LTS, "siderolabs/qemu-guest-agent").schematic_id
        assert facts.annotations[f"{prefix}schematic"] == schematic
        assert f"{prefix}schematic" not in facts.labels

    def test_without_kernel_modules_there_is_no_list_of_them(self) -> None:
        facts = running(("siderolabs/qemu-guest-agent",))
        assert "extensions.talos.dev/modules.dep" not in facts.labels

    def test_the_configurations_labels_and_annotations_are_there_and_owned(self) -> None:
        found = changed(documents(), "machine.nodeLabels", {"b": "1", "a": 2})
        found = changed(found, "machine.nodeAnnotations", {"note": "x" * 70})
        facts = running(configuration=text(found))
        assert facts.labels == {"a": "2", "b": "1"}
        assert facts.annotations["note"] == "x" * 70
        assert facts.annotations["talos.dev/owned-labels"] == '["a","b"]'
        owned = json.loads(facts.annotations["talos.dev/owned-annotations"])
        assert owned == ["extensions.talos.dev/schematic", "note"]
        assert "talos.dev/owned-taints" not in facts.annotations

    def test_a_control_plane_is_labelled_and_tainted(self) -> None:
        facts = running(configuration=text(documents("controlplane")))
        role = "node-role.kubernetes.io/control-plane"
        assert facts.labels[role] == ""
        assert facts.taints == ({"key": role, "value": "", "effect": "NoSchedule"},)
        assert json.loads(facts.annotations["talos.dev/owned-taints"]) == [role]
        assert role not in running().labels

    def test_a_control_plane_may_be_scheduled_on(self) -> None:
        found = changed(documents("controlplane"), "cluster.allowSchedulingOnControlPlanes", True)
        assert running(configuration=text(found)).taints == ()

    def test_taints_are_written_with_or_without_a_value(self) -> None:
        taints = {"gpu": "yes:NoSchedule", "slow": "NoExecute"}
        facts = running(configuration=text(changed(documents(), "machine.nodeTaints", taints)))
        assert facts.taints == (
            {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
            {"key": "slow", "value": "", "effect": "NoExecute"},
        )


class TestCards:
    def test_a_card_is_seen_with_nvmls_names(self) -> None:
        (card,) = gpu_node().gpus
        assert card.name == "NVIDIA GeForce RTX 3090"
        assert (card.host_address, card.guest_address) == ("0000:01:00", "0000:01:00.0")
        assert card.uuid.startswith("GPU-")

    def test_its_identity_is_its_own_and_stays(self) -> None:
        first = gpu_node().gpus[0].uuid
        assert running(NONFREE_LTS, (gpu(),), vmid=112).gpus[0].uuid == first
        assert running(NONFREE_LTS, (gpu(),), node="pve2").gpus[0].uuid != first
        assert gpu_node(functions=(gpu("0000:02:00"),)).gpus[0].uuid != first
        assert gpu_node(functions=(gpu(device="2705"),)).gpus[0].uuid != first

    def test_other_functions_are_no_cards(self) -> None:
        audio = gpu().model_copy(
            update={"address": "0000:01:00.1", "device_class": "0x040300", "device": "0x1aef"}
        )
        assert len(gpu_node(functions=(gpu(), audio)).gpus) == 1

    def test_a_card_that_the_rack_has_no_data_of_is_said(self) -> None:
        facts = gpu_node(functions=(gpu(device="ffff"),))
        assert facts.gpus == ()
        assert facts.driver is not None
        assert "simulated rack: no data of the NVIDIA device 10de:ffff" in facts.driver.problem


class TestDriver:
    def test_extension_modules_and_card_make_a_driver(self) -> None:
        driver = gpu_node().driver
        assert driver is not None
        assert (driver.version, driver.flavour) == ("580.178.04", "nonfree")
        assert driver.loaded_modules == set(MODULES)
        assert len(driver.gpus) == 1
        assert driver.problem == ""

    @pytest.mark.parametrize(
        ("extensions", "version"),
        [
            (NONFREE_LTS, "580.178.04"),
            (tuple(name.replace("-lts", "-production") for name in NONFREE_LTS), "595.91.07"),
        ],
    )
    def test_the_channel_decides_the_version(
        self, extensions: tuple[str, ...], version: str
    ) -> None:
        driver = gpu_node(*extensions).driver
        assert driver is not None
        assert driver.version == version

    def test_without_the_extension_there_is_no_driver(self) -> None:
        facts = running((), (gpu(),), with_modules(*MODULES))
        assert len(facts.gpus) == 1
        assert facts.driver is None

    def test_modules_that_nobody_declared_are_not_loaded(self) -> None:
        assert running(NONFREE_LTS, (gpu(),)).driver is None
        some = running(NONFREE_LTS, (gpu(),), with_modules("nvidia", "nvidia_uvm")).driver
        assert some is not None
        assert some.loaded_modules == {"nvidia", "nvidia_uvm"}

    def test_without_a_card_nothing_loads(self) -> None:
        assert running(NONFREE_LTS, (), with_modules(*MODULES)).driver is None

    def test_a_module_declared_later_is_loaded_at_once_and_stays_until_a_reboot(self) -> None:
        machine = booted(talos_image(*NONFREE_LTS), (gpu(),))

        def loaded() -> frozenset[str] | None:
            facts = machine.facts()
            return facts.driver.loaded_modules if facts and facts.driver else None

        machine.apply(text(documents()), NOW)
        assert loaded() is None
        machine.apply(with_modules("nvidia"), NOW)
        assert loaded() == frozenset({"nvidia"})
        machine.apply(text(documents()), NOW)
        assert loaded() == frozenset({"nvidia"})
        machine.reboot(NOW + 5)
        assert loaded() is None

    def test_a_card_of_the_wrong_generation_is_not_driven_and_says_why(self) -> None:
        driver = gpu_node(*OPEN_LTS, functions=(gpu(device="1bb3"),)).driver
        assert driver is not None
        assert driver.gpus == ()
        assert driver.loaded_modules == frozenset()
        assert "GPU System Processor" in driver.problem

    def test_a_card_beside_it_is_driven(self) -> None:
        both = (gpu(), gpu("0000:02:00", device="1bb3"))
        facts = gpu_node(*OPEN_LTS, functions=both)
        assert len(facts.gpus) == 2
        assert facts.driver is not None
        assert [card.name for card in facts.driver.gpus] == ["NVIDIA GeForce RTX 3090"]
        assert "10de:1bb3" in facts.driver.problem
        assert facts.driver.loaded_modules

    def test_libraries_of_another_channel_do_not_fit_the_module(self) -> None:
        driver = gpu_node(NONFREE_LTS[0], "siderolabs/nvidia-container-toolkit-production").driver
        assert driver is not None
        assert driver.gpus == ()
        assert "API mismatch: the client has the version 595.91.07" in driver.problem

    @pytest.mark.parametrize(
        ("bios", "second", "driven"),
        [
            ("seabios", "2705", 1),
            ("ovmf", "2705", 2),
            ("seabios", "1bb3", 2),
        ],
    )
    def test_seabios_maps_one_large_card(self, bios: str, second: str, driven: int) -> None:
        cards = (gpu(), gpu("0000:02:00", device=second, group=15))
        facts = running(NONFREE_LTS, cards, with_modules(*MODULES), bios=bios)
        assert len(facts.gpus) == 2
        assert facts.driver is not None
        assert len(facts.driver.gpus) == driven
        assert ("BAR1 is 0M" in facts.driver.problem) == (driven == 1)


class TestToolkit:
    def test_the_extension_brings_handler_libraries_and_tools(self) -> None:
        facts = gpu_node()
        assert facts.runtime_handlers == {"runc", "nvidia"}
        assert facts.host_nvidia_smi
        assert facts.cdi_enabled
        assert facts.toolkit is not None
        assert facts.toolkit.model_dump() == {
            "version": "1.19.1",
            "mode": "jit-cdi",
            "library_path": "/usr/local/lib",
            "binary_path": "/usr/local/bin",
        }

    def test_without_it_there_is_only_runc(self) -> None:
        facts = gpu_node(NONFREE_LTS[0])
        assert facts.runtime_handlers == {"runc"}
        assert facts.toolkit is None
        assert not facts.host_nvidia_smi

    @pytest.mark.parametrize(
        ("version", "modern", "mode"),
        [("v1.11.6", False, "legacy"), ("v1.12.6", False, "jit-cdi"), ("v1.13.0", True, "jit-cdi")],
    )
    def test_paths_and_cdi_follow_the_release(self, version: str, modern: bool, mode: str) -> None:
        facts = running(NONFREE_LTS, (gpu(),), text(documents()[:1]), version)
        assert facts.cdi_enabled is modern
        assert facts.host_nvidia_smi is modern
        assert facts.toolkit is not None
        assert facts.toolkit.mode == mode
        library = "/usr/local/lib" if modern else "/usr/local/glibc/usr/lib"
        assert facts.toolkit.library_path == library


def test_a_cluster_is_what_its_configuration_says() -> None:
    machine = booted()
    machine.apply(text(documents("controlplane")), NOW)
    machine.bootstrap(NOW)
    cluster = machine.cluster
    assert cluster is not None
    assert (cluster.name, cluster.endpoint) == ("rack", "https://127.0.0.1:6443")
    assert (cluster.vm_id, cluster.kubernetes_version) == (111, "v1.34.4")
    assert (cluster.kubernetes_ca, cluster.kubernetes_ca_key) == ("kubernetes ca", "kubernetes key")
    assert (cluster.aggregator_ca, cluster.aggregator_ca_key) == ("aggregator ca", "aggregator key")
    assert (cluster.etcd_ca, cluster.etcd_ca_key) == ("etcd ca", "etcd key")
    assert cluster.service_account_key == "account key"
    assert cluster.pod_subnets == ("10.244.0.0/16",)
    assert cluster.service_subnets == ("10.96.0.0/12",)
    assert cluster.incarnation
