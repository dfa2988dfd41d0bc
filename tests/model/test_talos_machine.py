"""The life of a Talos machine: boot, configuration, bootstrap, reset, upgrade."""

from __future__ import annotations

from typing import Any

import pytest

from rack.world.machine import REBOOT_AFTER, SECONDS, Machine, Nocloud, NocloudInterface
from rack.world.talos_error import TalosError
from tests.model.talosworld import (
    MAC,
    MODULES,
    NONFREE_LTS,
    NOW,
    booted,
    changed,
    documents,
    gpu,
    hardware,
    nocloud,
    stage,
    talos_image,
    text,
    with_modules,
)

WORKER = text(documents("worker"))
CONTROL_PLANE = text(documents("controlplane"))


def refused(call: Any) -> TalosError:
    with pytest.raises(TalosError) as error:
        call()
    return error.value


def test_a_new_machine_waits_in_maintenance_mode_at_its_address() -> None:
    machine = booted()
    assert stage(machine) == "maintenance"
    assert machine.addresses == ["127.0.0.2"]
    assert machine.facts() is None
    assert machine.cluster is None


def test_a_configured_machine_runs_and_keeps_its_configuration() -> None:
    machine = booted()
    assert machine.apply(WORKER, NOW) == "Applied configuration without a reboot"
    assert stage(machine) == "running"
    boot = machine.boot_id
    machine.power_off()
    assert stage(machine) == "off"
    assert machine.addresses == []
    assert machine.facts() is None
    machine.power_on(talos_image(), nocloud(), (), hardware(), NOW + 60)
    assert stage(machine) == "running"
    assert machine.boot_id != boot


def test_a_machine_survives_being_written_to_disk() -> None:
    machine = booted(talos_image(*NONFREE_LTS), (gpu(),))
    machine.apply(with_modules(*MODULES), NOW)
    read = Machine.model_validate_json(machine.model_dump_json())
    assert read == machine
    assert read.facts() == machine.facts()


class TestNetwork:
    def test_the_card_is_found_by_its_address(self) -> None:
        stranger = NocloudInterface(mac_address="BC:24:11:FF:FF:FF", address="127.0.0.7/24")
        machine = Machine()
        machine.power_on(talos_image(), nocloud(interfaces=(stranger,)), (), hardware(), NOW)
        assert stage(machine) == "maintenance"
        assert machine.addresses == []

    def test_without_a_static_address_nobody_reaches_the_machine(self) -> None:
        machine = Machine()
        dhcp = NocloudInterface(mac_address=MAC)
        machine.power_on(talos_image(), nocloud(interfaces=(dhcp,)), (), hardware(), NOW)
        assert machine.addresses == []

    def test_an_image_of_another_platform_does_not_read_the_drive(self) -> None:
        machine = booted(talos_image(file="metal-amd64.qcow2"))
        assert stage(machine) == "maintenance"
        assert machine.addresses == []
        assert machine.hostname.startswith("talos-")

    def test_a_configuration_adds_addresses_and_takes_none_away(self) -> None:
        machine = booted()
        interfaces = [{"interface": "eth0", "addresses": ["127.0.0.9/24"]}]
        machine.apply(text(changed(documents(), "machine.network.interfaces", interfaces)), NOW)
        assert machine.addresses == ["127.0.0.2", "127.0.0.9"]

    def test_the_shared_address_comes_with_etcd(self) -> None:
        machine = booted()
        interfaces = [{"interface": "eth0", "vip": {"ip": "127.0.0.50"}}]
        found = changed(documents("controlplane"), "machine.network.interfaces", interfaces)
        machine.apply(text(found), NOW)
        assert "127.0.0.50" not in machine.addresses
        machine.bootstrap(NOW)
        assert "127.0.0.50" in machine.addresses

    def test_the_agent_answers_where_its_extension_is(self) -> None:
        assert booted().agent_interfaces() == []
        agent = "siderolabs/qemu-guest-agent"
        found = booted(talos_image(agent)).agent_interfaces()
        assert [entry["name"] for entry in found] == ["lo", "eth0"]
        assert found[1]["ip-addresses"][0] == {
            "ip-address": "127.0.0.2",
            "ip-address-type": "ipv4",
            "prefix": 24,
        }
        assert booted(talos_image(agent, file="metal-amd64.raw")).agent_interfaces() == []


class TestHostname:
    def test_the_name_of_the_vm_wins_over_the_automatic_one(self) -> None:
        machine = booted()
        machine.apply(WORKER, NOW)
        assert machine.hostname == "k8s-worker-1"

    def test_the_configurations_name_wins_over_that_of_the_vm(self) -> None:
        machine = booted()
        document = {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "hostname": "gpu-1"}
        machine.apply(text([documents()[0], document]), NOW)
        assert machine.hostname == "gpu-1"

    def test_without_any_name_talos_makes_one_or_waits(self) -> None:
        def named(auto: str) -> Machine:
            machine = Machine()
            machine.power_on(talos_image(), nocloud(hostname=""), (), hardware(), NOW)
            document = {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": auto}
            machine.apply(text([documents()[0], document]), NOW)
            return machine

        assert named("stable").hostname.startswith("talos-")
        waiting = named("off")
        assert stage(waiting) == "booting"
        assert "waiting for a hostname" in waiting.problem


class TestApply:
    def test_an_invalid_configuration_changes_nothing(self) -> None:
        machine = booted()
        error = refused(lambda: machine.apply(text(changed(documents(), "machine.foo", 1)), NOW))
        assert error.code == "InvalidArgument"
        assert "unknown keys" in error.message
        assert stage(machine) == "maintenance"
        assert not machine.configuration

    def test_a_configuration_needs_its_main_document(self) -> None:
        machine = booted()
        error = refused(lambda: machine.apply(text(documents()[1:]), NOW))
        assert "doesn't contain v1alpha1 config" in error.message

    def test_the_talos_of_the_image_decides(self) -> None:
        old = booted(talos_image(version="v1.11.6"))
        assert "not registered" in refused(lambda: old.apply(WORKER, NOW)).message
        old.apply(text(documents()[:1]), NOW)
        assert stage(old) == "running"

    @pytest.mark.parametrize(
        ("path", "value", "reboots"),
        [
            ("machine.nodeLabels", {"a": "b"}, False),
            ("machine.kernel.modules", [{"name": "nvidia"}], False),
            ("machine.features.kubePrism", {"enabled": True, "port": 7445}, False),
            ("cluster.clusterName", "other", False),
            ("machine.token", "another", True),
            ("machine.files", [{"path": "/var/x", "content": "", "op": "create"}], True),
            ("machine.features.diskQuotaSupport", True, True),
        ],
    )
    def test_some_changes_need_a_reboot(self, path: str, value: Any, reboots: bool) -> None:
        machine = booted()
        machine.apply(WORKER, NOW)
        boot, new = machine.boot_id, text(changed(documents(), path, value))
        if reboots:
            error = refused(lambda: machine.apply(new, NOW, "no_reboot"))
            assert "can't be applied in immediate mode" in error.message
        machine.apply(new, NOW + 5)
        assert (machine.boot_id != boot) is reboots
        assert stage(machine) == "running"

    def test_the_same_configuration_again_changes_nothing(self) -> None:
        machine = booted()
        machine.apply(WORKER, NOW)
        before = machine.model_dump_json()
        machine.apply(WORKER, NOW + 5)
        assert machine.model_dump_json() == before

    def test_a_staged_configuration_waits_for_the_next_boot(self) -> None:
        machine = booted()
        machine.apply(WORKER, NOW)
        new = text(changed(documents(), "machine.nodeLabels", {"a": "b"}))
        machine.apply(new, NOW, "staged")
        assert machine.configuration == WORKER
        machine.reboot(NOW + 5)
        assert machine.configuration == new

    def test_reboot_mode_always_reboots(self) -> None:
        machine = booted()
        machine.apply(WORKER, NOW)
        boot = machine.boot_id
        assert machine.apply(WORKER, NOW + 5, "reboot") == "Applied configuration with a reboot"
        assert machine.boot_id != boot


class TestBootstrap:
    def test_it_happens_once_in_the_life_of_a_disk(self) -> None:
        machine = booted()
        machine.apply(CONTROL_PLANE, NOW)
        assert machine.cluster is None
        machine.bootstrap(NOW)
        assert machine.cluster is not None
        again = refused(lambda: machine.bootstrap(NOW + 1))
        assert (again.code, again.message) == ("AlreadyExists", "etcd data directory is not empty")
        machine.reboot(NOW + 5)
        assert refused(lambda: machine.bootstrap(NOW + 6)).code == "AlreadyExists"

    def test_it_needs_a_configuration(self) -> None:
        error = refused(lambda: booted().bootstrap(NOW))
        assert error.code == "FailedPrecondition"
        assert error.message == "bootstrap is not available yet"

    def test_a_worker_does_not_have_it(self) -> None:
        machine = booted()
        machine.apply(WORKER, NOW)
        error = refused(lambda: machine.bootstrap(NOW))
        assert error.code == "Unimplemented"
        assert error.message == "bootstrap is only available on control plane nodes"

    def test_after_a_reset_another_etcd_begins(self) -> None:
        machine = booted()
        machine.apply(CONTROL_PLANE, NOW)
        machine.bootstrap(NOW)
        first = machine.etcd
        machine.reset(NOW + 5, reboot=True)
        assert stage(machine) == "maintenance"
        assert machine.cluster is None
        machine.apply(CONTROL_PLANE, NOW + 6)
        machine.bootstrap(NOW + 7)
        assert machine.etcd != first

    def test_the_cluster_is_there_while_its_machine_runs(self) -> None:
        machine = booted()
        machine.apply(CONTROL_PLANE, NOW)
        machine.bootstrap(NOW)
        found = machine.cluster
        machine.power_off()
        assert machine.cluster is None
        machine.power_on(talos_image(), nocloud(), (), hardware(), NOW + 60)
        assert machine.cluster == found


def test_a_reset_without_reboot_switches_off() -> None:
    machine = booted()
    machine.apply(WORKER, NOW)
    machine.reset(NOW, reboot=False)
    assert stage(machine) == "off"
    assert not machine.configuration


class TestUpgrade:
    def test_the_boot_images_extensions_count_until_an_upgrade(self) -> None:
        machine = booted(talos_image(version="v1.13.8"))
        # The installer of the configuration does not matter: the disk image is installed already.
        found = changed(documents(), "machine.install.image", "factory/nocloud-installer/x:v1.13.9")
        machine.apply(text(found), NOW)
        facts = machine.facts()
        assert facts is not None
        assert facts.talos_version == "v1.13.8"
        machine.upgrade(talos_image("siderolabs/qemu-guest-agent"), NOW + 5)
        facts = machine.facts()
        assert facts is not None
        assert facts.talos_version == "v1.13.9"
        assert facts.labels["extensions.talos.dev/qemu-guest-agent"] == "11.0.2"

    def test_it_outlives_a_power_cycle(self) -> None:
        machine = booted(talos_image(version="v1.13.8"))
        machine.upgrade(talos_image(), NOW)
        machine.power_off()
        machine.power_on(talos_image(version="v1.13.8"), nocloud(), (), hardware(), NOW + 60)
        assert machine.image is not None
        assert machine.image.talos_version == "v1.13.9"

    def test_a_release_too_far_away_is_refused(self) -> None:
        machine = booted(talos_image(version="v1.10.9"))
        error = refused(lambda: machine.upgrade(talos_image(version="v1.13.9"), NOW))
        assert "host version 1.10.9 is too old to upgrade to Talos 1.13.9" in error.message
        machine.upgrade(talos_image(version="v1.12.6"), NOW)


class TestLatency:
    def test_with_realistic_latency_things_take_their_time(self) -> None:
        machine = booted(latency="realistic")
        assert stage(machine) == "booting"
        assert machine.next_event == NOW + SECONDS["boot"]
        assert not machine.advance(NOW + SECONDS["boot"] - 1)
        assert machine.advance(NOW + SECONDS["boot"])
        assert stage(machine) == "maintenance"
        machine.apply(WORKER, NOW + 100)
        assert machine.addresses == []
        assert machine.advance(NOW + 100 + SECONDS["configure"])
        assert stage(machine) == "running"

    def test_an_upgrade_takes_the_installers_time_and_a_boot(self) -> None:
        machine = booted(latency="realistic")
        machine.advance(NOW + 50)
        machine.upgrade(talos_image(version="v1.13.8"), NOW + 100)
        machine.advance(NOW + 100 + SECONDS["upgrade"])
        assert stage(machine) == "booting"
        machine.advance(NOW + 100 + SECONDS["upgrade"] + SECONDS["boot"])
        assert stage(machine) == "maintenance"

    def test_a_machine_that_loses_power_forgets_what_was_due(self) -> None:
        machine = booted(latency="realistic")
        machine.power_off()
        assert machine.next_event is None
        assert not machine.advance(NOW + 1000)
        assert stage(machine) == "off"


class TestGpuImageWithoutGpu:
    def test_it_runs_for_more_than_an_hour_and_then_reboots_for_ever(self) -> None:
        machine = booted(talos_image(*NONFREE_LTS))
        machine.apply(with_modules(*MODULES), NOW)
        assert machine.facts() is not None
        machine.advance(NOW + REBOOT_AFTER - 1)
        assert stage(machine) == "running"
        machine.advance(NOW + REBOOT_AFTER)
        assert stage(machine) == "reboot-loop"
        assert machine.facts() is None
        assert machine.addresses == []

    @pytest.mark.parametrize(
        ("extensions", "functions"),
        [(NONFREE_LTS, (gpu(),)), ((), ()), (("siderolabs/nvidia-container-toolkit-lts",), ())],
    )
    def test_its_neighbours_run_on(self, extensions: tuple[str, ...], functions: Any) -> None:
        machine = booted(talos_image(*extensions), functions)
        machine.apply(with_modules(*MODULES), NOW)
        assert machine.next_event is None
        assert not machine.advance(NOW + 2 * REBOOT_AFTER)
        assert stage(machine) == "running"


class TestJoining:
    def test_machines_of_one_cluster_fit(self) -> None:
        control_plane, worker = booted(), booted()
        control_plane.apply(CONTROL_PLANE, NOW)
        worker.apply(WORKER, NOW)
        assert worker.join_problem(control_plane) == ""

    @pytest.mark.parametrize(
        ("path", "value", "problem"),
        [
            ("cluster.ca", {"crt": "b3RoZXI=", "key": ""}, "unknown authority"),
            ("cluster.token", "other.token", "Unauthorized"),
        ],
    )
    def test_wrong_secrets_do_not(self, path: str, value: Any, problem: str) -> None:
        control_plane, worker = booted(), booted()
        control_plane.apply(CONTROL_PLANE, NOW)
        worker.apply(text(changed(documents(), path, value)), NOW)
        assert problem in worker.join_problem(control_plane)


def test_no_cloud_init_drive_means_no_address_and_a_made_up_name() -> None:
    machine = Machine()
    machine.power_on(talos_image(), Nocloud(), (), hardware(), NOW)
    assert stage(machine) == "maintenance"
    assert machine.addresses == []
    assert machine.hostname.startswith("talos-")
