"""Jobs of the operator's chart that write or remove CustomResourceDefinitions."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from rack.cluster.crds import CRDS, CrdJobs
from rack.settings import Settings
from tests.model.podworld import pod
from tests.rack.fakekube import FakeKube
from tests.rack.test_kubelet_sync import Kubelet

VERSION = "v1.2.3"
IMAGE = f"nvcr.io/nvidia/gpu-operator:{VERSION}"
POLICIES = "clusterpolicies.nvidia.com"
FEATURES = "nodefeatures.nfd.k8s-sigs.io"
FILES = {
    "crds/nvidia.com_clusterpolicies.yaml": POLICIES,
    "charts/node-feature-discovery/crds/nfd-api-crds.yaml": FEATURES,
}


def package() -> bytes:
    """A chart with two definitions."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        files = {"Chart.yaml": f"{{name: gpu-operator, version: {VERSION}}}"}
        for file, name in FILES.items():
            files[file] = f"kind: CustomResourceDefinition\nmetadata: {{name: {name}}}\nspec: new\n"
        for file, text in files.items():
            entry = tarfile.TarInfo(f"gpu-operator/{file}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(buffer.getvalue())


class Cluster(FakeKube):
    """Has an older definition and a policy."""

    def __init__(self) -> None:
        super().__init__()
        self.put(f"{CRDS}/{POLICIES}", {"kind": "CustomResourceDefinition", "spec": "old"})
        self.put("/apis/nvidia.com/v1/clusterpolicies/cluster-policy", {"kind": "ClusterPolicy"})

    def specs(self) -> dict[str, Any]:
        """What the definitions say, by name."""
        return {one["metadata"]["name"]: one["spec"] for one in self.list(CRDS)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / f"gpu-operator-{VERSION}.tgz").write_bytes(package())
    return tmp_path


def container(*argv: str, image: str = IMAGE) -> dict[str, Any]:
    return {"name": "crds", "image": image, "command": [argv[0]], "args": list(argv[1:])}


def manage(verb: str) -> dict[str, Any]:
    paths = [f"--filepath=/opt/gpu-operator/{file.rpartition('/')[2]}" for file in FILES]
    return container("/usr/bin/manage-crds", verb, *paths)


SHELL = " ".join(f"kubectl apply -f /opt/gpu-operator/{f.rpartition('/')[2]};" for f in FILES)


@pytest.mark.parametrize("spec", [manage("apply"), container("/bin/sh", "-c", SHELL)])
def test_an_upgrade_writes_the_definitions_of_its_chart(folder: Path, spec: dict[str, Any]) -> None:
    cluster = Cluster()
    outcome = CrdJobs(cluster, folder).outcome(spec)
    assert outcome is not None
    assert (outcome.state, outcome.exit_code) == ("exited", 0)
    assert cluster.specs() == {POLICIES: "new", FEATURES: "new"}


@pytest.mark.parametrize(
    "spec",
    [
        manage("delete"),
        container(
            "/bin/sh",
            "-c",
            "kubectl delete clusterpolicy cluster-policy;\nkubectl delete crd "
            + ";\nkubectl delete crd ".join(FILES.values())
            + ";\n",
        ),
    ],
)
def test_an_uninstall_that_is_to_clean_up_removes_them(folder: Path, spec: dict[str, Any]) -> None:
    cluster = Cluster()
    CrdJobs(cluster, folder).outcome(manage("apply"))
    outcome = CrdJobs(cluster, folder).outcome(spec)
    assert outcome is not None
    assert outcome.exit_code == 0
    assert cluster.specs() == {}


def test_a_release_whose_package_is_not_served_changes_nothing(folder: Path) -> None:
    cluster = Cluster()
    spec = {**manage("apply"), "image": "nvcr.io/nvidia/gpu-operator:v9.9.9"}
    outcome = CrdJobs(cluster, folder).outcome(spec)
    assert outcome is not None
    assert outcome.exit_code == 0
    assert cluster.specs() == {POLICIES: "old"}


@pytest.mark.parametrize(
    "spec",
    [
        container("gpu-operator", "--leader-elect"),
        container("nfd-master", "-prune", image="registry.k8s.io/nfd/node-feature-discovery:v1"),
        {**manage("delete"), "image": "example.org/other:v1.2.3"},
    ],
)
def test_any_other_container_is_none_of_its_business(folder: Path, spec: dict[str, Any]) -> None:
    cluster = Cluster()
    assert CrdJobs(cluster, folder).outcome(spec) is None
    assert cluster.specs() == {POLICIES: "old"}


def test_a_folder_that_is_gone_is_told_and_the_job_fails(tmp_path: Path) -> None:
    outcome = CrdJobs(Cluster(), tmp_path / "gone").outcome(manage("apply"))
    assert outcome is not None
    assert outcome.exit_code == 1
    assert "no .tgz file in" in outcome.log_lines[0]


def test_a_kubelet_runs_such_a_job_in_a_pod_of_an_operator(folder: Path) -> None:
    made = pod(runtime="", gpus=0, **manage("apply"))
    made["spec"]["restartPolicy"] = "OnFailure"
    kubelet = Kubelet(folder, made)
    kubelet.settings = Settings(home=folder, chart_packages=folder)
    kubelet.restart()
    assert kubelet.look()["phase"] == "Succeeded"
    assert {one["spec"] for one in kubelet.api.list(CRDS)} == {"new"}


def test_a_job_that_is_refused_is_run_again(folder: Path) -> None:
    made = pod(runtime="", gpus=0, **manage("apply"))
    made["spec"]["restartPolicy"] = "OnFailure"
    kubelet = Kubelet(folder, made)
    kubelet.settings = Settings(home=folder, chart_packages=folder / "gone")
    kubelet.restart()
    status = kubelet.look()
    assert status["phase"] == "Running"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
