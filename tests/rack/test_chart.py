"""The rack's chart repository. That templates render is for the tests end to end, with Helm."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rack.charts import repository
from rack.charts.repository import ChartError
from rack.settings import CHECKOUT
from tests.e2e.site import free_shift

RELEASES = ["v24.9.2", "v25.3.2", "v25.10.0", "v26.3.0", "v26.3.1", "v26.3.3", "v26.7.0"]
FILES = repository.build()


def inside(version: str, name: str) -> str:
    with tarfile.open(fileobj=io.BytesIO(FILES[f"gpu-operator-{version}.tgz"])) as archive:
        file = archive.extractfile(f"gpu-operator/{name}")
        assert file is not None
        return file.read().decode()


def values(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(inside(version, "values.yaml"))
    return found


def index(files: dict[str, bytes]) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe", pure=True).load(files["index.yaml"])
    return found


def test_every_release_newest_first() -> None:
    entries = index(FILES)["entries"]["gpu-operator"]
    assert [one["version"] for one in entries] == RELEASES[::-1]
    assert all(one["appVersion"] == one["version"] for one in entries)


def test_digests_are_of_what_is_served() -> None:
    for one in index(FILES)["entries"]["gpu-operator"]:
        (name,) = one["urls"]
        assert hashlib.sha256(FILES[name]).hexdigest() == one["digest"]


def test_the_same_sources_give_the_same_bytes() -> None:
    assert repository.build() == FILES


@pytest.mark.parametrize(
    ("version", "cdi", "plugin", "nfd"),
    [
        ("v24.9.2", False, "v0.17.0", "0.16.6"),
        ("v25.3.2", False, "v0.17.3", "0.17.3"),
        ("v25.10.0", True, "v0.18.0", "0.18.2"),
        ("v26.3.1", True, "v0.19.0", "0.18.3"),
        ("v26.7.0", True, "v0.20.0", "0.19.0"),
    ],
)
def test_defaults_of_releases(version: str, cdi: bool, plugin: str, nfd: str) -> None:
    found = values(version)
    assert found["cdi"]["enabled"] is cdi
    assert found["devicePlugin"]["version"] == found["gfd"]["version"] == plugin
    assert found["driver"]["enabled"] is True
    assert found["hostPaths"]["driverInstallDir"] == "/run/nvidia/driver"
    chart = json.loads(inside(version, "Chart.yaml"))
    assert chart["dependencies"][0] == {
        "name": "node-feature-discovery",
        "version": nfd,
        "condition": "nfd.enabled",
        "repository": "",
    }
    assert json.loads(inside(version, "charts/node-feature-discovery/Chart.yaml"))["version"] == nfd


def test_there_is_no_switch_for_the_validator() -> None:
    assert all("enabled" not in values(version)["validator"] for version in RELEASES)


def test_a_value_that_a_later_release_dropped_is_gone() -> None:
    assert values("v25.3.2")["cdi"]["default"] is False
    assert "default" not in values("v25.10.0")["cdi"]
    assert "nriPluginEnabled" not in values("v25.10.0")["cdi"]
    assert values("v26.3.0")["cdi"]["nriPluginEnabled"] is False


def test_a_list_is_replaced_as_a_whole() -> None:
    assert len(values("v24.9.2")["devicePlugin"]["env"]) == 6
    assert values("v26.3.1")["devicePlugin"]["env"] == []


def test_off_stays_a_text() -> None:
    assert values("v24.9.2")["ccManager"]["defaultMode"] == "off"


@pytest.mark.parametrize(("version", "reads_host"), [("v24.9.2", True), ("v26.3.1", False)])
def test_only_older_operators_read_the_host(version: str, reads_host: bool) -> None:
    # The Deployment mounts a host path where this value is.
    assert ("initContainer" in values(version)["operator"]) == reads_host


def test_real_packages_take_the_place_of_the_stand_ins(tmp_path: Path) -> None:
    package = FILES["gpu-operator-v26.3.1.tgz"]
    (tmp_path / "gpu-operator-v26.3.1.tgz").write_bytes(package)
    (tmp_path / "notes.txt").write_text("not a package")
    found = repository.build(tmp_path)
    assert set(found) == {"index.yaml", "gpu-operator-v26.3.1.tgz"}
    assert found["gpu-operator-v26.3.1.tgz"] == package
    assert [one["version"] for one in index(found)["entries"]["gpu-operator"]] == ["v26.3.1"]


def test_a_folder_without_packages_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ChartError, match=r"no \.tgz file in .*RACK_CHART_PACKAGES"):
        repository.build(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_a_file_that_is_no_package_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broken.tgz").write_bytes(content)
    with pytest.raises(ChartError, match=r"broken\.tgz is not a chart package"):
        repository.build(tmp_path)


def test_a_rack_does_not_start_with_such_a_file_and_says_why(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "broken.tgz").write_bytes(b"no archive")
    settings = {
        "RACK_HOME": str(tmp_path / "home"),
        "RACK_PORT_SHIFT": str(free_shift()),
        "RACK_CHART_PACKAGES": str(packages),
    }
    done = subprocess.run(
        [sys.executable, "-m", "rack", "up"],
        cwd=CHECKOUT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "broken.tgz is not a chart package" in done.stderr
    assert "Traceback" not in done.stderr
