"""A pod on its node, from admission to its end: on an API server in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from rack.cluster.api import Object
from rack.cluster.commands import Commands
from rack.cluster.devices import Devices
from rack.cluster.events import Events
from rack.cluster.pod_sync import PodSync
from rack.cluster.surroundings import Surroundings
from rack.settings import Settings
from rack.world.nodefacts import NodeFacts
from rack.world.podtypes import PodContext
from rack.world.sharing import NO_SHARING, Sharing
from tests.model.podworld import NVIDIA, RTX_3090, node, pod
from tests.rack.fakekube import FakeKube

PODS = "/api/v1/namespaces/immich/pods"
NOW = 1_800_000_000.0
WORKER = node(RTX_3090)


class Around:
    """The cluster around a pod, to be changed at will."""

    def __init__(self) -> None:
        self.classes: dict[str, str] = dict(NVIDIA)
        self.capacity = 1
        self.references_known: set[tuple[str, str]] = set()
        self.objects: dict[str, list[Object]] = {}

    def context(self, at: str) -> PodContext:
        return PodContext(runtime_classes=self.classes, gpu_capacity=self.capacity)

    def sharing(self, at: str) -> Sharing:
        return NO_SHARING

    def references(self, namespace: str) -> set[tuple[str, str]]:
        return self.references_known

    def pod_network(self, at: str) -> list[str]:
        return ["10.244.1.1", "10.244.1.2", "10.244.1.3"]

    def all(self, what: str) -> list[Object]:
        return self.objects.get(what, [])

    def put(self, what: str, written: Object) -> None:
        """The test reads the pod from the API server itself."""


class Kubelet:
    """One kubelet with one pod, `ml-0`."""

    def __init__(self, home: Path, made: Any) -> None:
        self.api = FakeKube()
        self.around = Around()
        self.settings = Settings(home=home)
        made["spec"]["nodeName"] = WORKER.name
        self.api.put(f"{PODS}/ml-0", made)
        self.restart()

    def restart(self) -> None:
        """The daemon comes back: nothing is remembered but files and the API server."""
        self.sync = PodSync(
            self.api,
            Events(self.api),
            self.settings,
            cast("Surroundings", self.around),
            Devices(self.settings.home / "devices.json"),
            Commands(lambda: None),
        )

    @property
    def pod(self) -> Object:
        return self.api.objects[f"{PODS}/ml-0"]

    def look(self, at: NodeFacts = WORKER, now: float = NOW) -> Object:
        """Look once; the pod's status afterwards."""
        self.sync.look(self.pod, at, frozenset(), now)
        status: Object = self.pod["status"]
        return status

    def events(self) -> list[str]:
        return [one["reason"] for path, one in self.api.objects.items() if "/events/" in path]


@pytest.fixture
def kubelet(tmp_path: Path) -> Kubelet:
    made = Kubelet(tmp_path, pod())
    assert made.look()["phase"] == "Running"
    return made


def main(status: Object) -> Object:
    found: Object = status["containerStatuses"][0]
    return found


def test_a_pod_that_starts_has_address_conditions_and_a_view(kubelet: Kubelet) -> None:
    status = kubelet.pod["status"]
    assert status["podIP"] == "10.244.1.2"
    assert main(status)["ready"]
    uid = kubelet.pod["metadata"]["uid"]
    assert RTX_3090.uuid in (kubelet.settings.pods_home / f"{uid}.json").read_text()


@pytest.mark.parametrize("change", ["class", "plugin", "daemon"])
def test_a_pod_that_runs_keeps_what_it_was_admitted_with(kubelet: Kubelet, change: str) -> None:
    before = kubelet.pod["status"]
    kubelet.around.classes = {} if change == "class" else kubelet.around.classes
    kubelet.around.capacity = 0 if change == "plugin" else 1
    if change == "daemon":
        kubelet.restart()
    assert kubelet.look(now=NOW + 60) == before
    uid = kubelet.pod["metadata"]["uid"]
    assert RTX_3090.uuid in (kubelet.settings.pods_home / f"{uid}.json").read_text()


def test_the_daemon_comes_back_when_the_device_plugin_is_gone(kubelet: Kubelet) -> None:
    kubelet.restart()
    kubelet.around.capacity = 0
    assert kubelet.look(now=NOW + 60)["phase"] == "Running"


def test_after_a_reboot_there_are_no_devices_before_the_plugin_registers(kubelet: Kubelet) -> None:
    kubelet.around.capacity = 0
    status = kubelet.look(WORKER.model_copy(update={"boot_id": "boot-2"}), NOW + 60)
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert "no healthy devices present" in status["message"]
    assert not status.get("containerStatuses")
    assert not any(one["type"] == "Ready" for one in status["conditions"])


def test_after_a_reboot_a_pod_without_gpu_starts_again(tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path, pod(gpus=0, runtime=""))
    kubelet.look()
    status = kubelet.look(WORKER.model_copy(update={"boot_id": "boot-2"}), NOW + 60)
    assert status["phase"] == "Running"
    assert main(status)["restartCount"] == 1
    assert main(status)["lastState"]["terminated"]["exitCode"] == 255


def test_a_pod_without_its_runtime_class_waits_and_starts_when_it_comes(tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path, pod())
    kubelet.around.classes = {}
    status = kubelet.look()
    assert main(status)["state"]["waiting"]["reason"] == "ContainerCreating"
    assert kubelet.events() == ["FailedCreatePodSandBox"]
    kubelet.around.classes = dict(NVIDIA)
    assert kubelet.look(now=NOW + 1)["phase"] == "Running"


def test_a_second_claim_of_the_same_card_is_refused(kubelet: Kubelet) -> None:
    other = pod()
    other["metadata"] |= {"name": "ml-1", "uid": "other"}
    other["spec"]["nodeName"] = WORKER.name
    kubelet.api.put(f"{PODS}/ml-1", other)
    kubelet.sync.look(other, WORKER, frozenset(), NOW)
    status = kubelet.api.objects[f"{PODS}/ml-1"]["status"]
    assert status["reason"] == "UnexpectedAdmissionError"


def test_a_missing_secret_holds_a_pod_back_but_does_not_stop_it(tmp_path: Path) -> None:
    made = pod(gpus=0, runtime="")
    made["spec"]["volumes"] = [{"name": "v", "secret": {"secretName": "key"}}]
    kubelet = Kubelet(tmp_path, made)
    assert kubelet.look()["phase"] == "Pending"
    kubelet.around.references_known = {("secret", "key")}
    assert kubelet.look(now=NOW + 1)["phase"] == "Running"
    kubelet.around.references_known = set()
    assert kubelet.look(now=NOW + 2)["phase"] == "Running"


def test_a_pod_that_is_to_go_goes(kubelet: Kubelet) -> None:
    kubelet.pod["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    kubelet.sync.look(kubelet.pod, WORKER, frozenset(), NOW + 1)
    assert f"{PODS}/ml-0" not in kubelet.api.objects
