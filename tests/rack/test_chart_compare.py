"""The comparison of chart packages, on small charts of the tests' own, with the real Helm."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rack.charts import compare, helm, repository, sent
from rack.charts.compare import MANIFEST, Comparison
from rack.charts.helm import Refused, RenderError
from rack.charts.readings import CONFIG, Readings, read
from rack.charts.stored import stored
from rack.cli import cli

VERSION = "v26.7.0"
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterpolicies.nvidia.com}
spec:
  versions:
    - storage: true
      schema:
        openAPIV3Schema:
          properties:
            spec:
              properties:
                cdi: {type: object, default: {}, properties: {enabled: {default: true}}}
                hostPaths: {type: object, properties: {}}
                toolkit: {type: object, x-kubernetes-preserve-unknown-fields: true}
                mig: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
VALUES = """
toolkit: {enabled: true, installDir: /opt/toolkit}
mig: {strategy: mixed}
hostPaths: {driverInstallDir: /driver}
devicePlugin: {config: {create: false}}
"""
TEMPLATE = """
{{- if eq .Values.mig.strategy "none" }}{{ fail "there is no strategy none" }}{{ end }}
kind: ClusterPolicy
apiVersion: nvidia.com/v1
metadata: {name: cluster-policy}
spec:
  hostPaths: {{ toJson .Values.hostPaths }}
  toolkit: {{ toJson .Values.toolkit }}
  mig: {{ toJson .Values.mig }}
"""
CHART = {
    "Chart.yaml": f"{{apiVersion: v2, name: gpu-operator, version: {VERSION}}}",
    "values.yaml": VALUES,
    "crds/policy.yaml": CRD,
    "templates/policy.yaml": TEMPLATE,
}


def packed(folder: Path, **changes: str | None) -> Path:
    """The small chart, with other files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in {**CHART, **changes}.items():
            if text is not None:
                entry = tarfile.TarInfo(f"gpu-operator/{name}")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
    file = folder / "chart.tgz"
    file.write_bytes(gzip.compress(buffer.getvalue()))
    return file


@pytest.fixture(autouse=True)
def few_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer values than the command takes, which is minutes for the tests together."""
    chosen = ("toolkit.installDir", "cdi.enabled", "mig.strategy", "devicePlugin.config.create")

    def singles(release: str, declared: Any) -> list[sent.Case]:
        return [case for case in sent.singles(release, declared) if case.name in chosen]

    monkeypatch.setattr(compare, "sets", lambda release: sent.sets(release)[::97])
    monkeypatch.setattr(compare, "singles", singles)


@pytest.fixture(scope="module")
def renderer() -> Iterator[helm.Helm]:
    with helm.helm() as running:
        yield running


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    file = tmp_path / "stand-in.tgz"
    file.write_bytes(repository.build()[f"gpu-operator-{VERSION}.tgz"])
    return file


def differing(found: Comparison) -> dict[str, tuple[Any, Any]]:
    """Both sides of the first difference in each field."""
    firsts = {one.path: one for one in reversed(found.differences)}
    return {".".join(path): (one.stand_in, one.package) for path, one in firsts.items()}


def test_a_chart_is_the_same_as_itself(stand_in: Path) -> None:
    found = compare.compare(stand_in)
    assert found.differences == []
    assert found.version == VERSION
    assert (found.sets, found.singles) == (6, 4)
    # A configuration of the device plugin without data.
    assert found.refused == ["devicePlugin.config.create"]


def test_the_fields_are_those_that_the_model_reads(stand_in: Path) -> None:
    fields = compare.compare(stand_in).fields
    assert CONFIG in fields
    some = {"operator.runtimeClass", "cdi.nriPluginEnabled", "validator.version", "gfd.image"}
    assert some <= {".".join(path) for path in fields}
    # Read as wholes: labels and annotations go on every pod.
    assert ("daemonsets", "labels") in fields
    assert not [path for path in fields if path[:2] == ("daemonsets", "labels") and path[2:]]
    # The model has no partitioned cards and no drivers in containers on Talos.
    assert not [path for path in fields if path[0] in ("mig", "dcgm", "gds")]


def test_differences_are_found_as_the_api_server_keeps_the_policy(tmp_path: Path) -> None:
    found = differing(compare.compare(packed(tmp_path)))
    # Another default, and a part that is missing.
    assert found["toolkit.installDir"] == ("/usr/local/nvidia", "/opt/toolkit")
    assert found["gfd.image"] == ("k8s-device-plugin", None)
    # The package's definition does not know the field, so what the chart writes is lost.
    assert found["hostPaths.driverInstallDir"] == ("/run/nvidia/driver", None)
    # The chart does not write it, and the definition has a default; off is where they differ.
    assert found["cdi.enabled"] == (False, True)
    # The charts differ, and the model does not read it.
    assert "mig.strategy" not in found


def test_a_value_that_one_of_the_charts_refuses_is_a_difference(tmp_path: Path) -> None:
    found = compare.compare(packed(tmp_path))
    told = {
        one.case: (one.stand_in, one.package) for one in found.differences if one.path == MANIFEST
    }
    ours, theirs = told["devicePlugin.config.create"]
    assert ours.startswith("refused: ")
    assert "devicePlugin.config.data cannot be empty" in ours
    assert theirs == "a policy"


def test_a_chart_without_a_policy_is_a_difference(tmp_path: Path) -> None:
    found = compare.compare(packed(tmp_path, **{"templates/policy.yaml": "# nothing"}))
    assert {one.package for one in found.differences} >= {"no policy"}


def test_helm_says_why_it_refuses(tmp_path: Path, renderer: helm.Helm) -> None:
    found = renderer.render(packed(tmp_path), {"mig": {"strategy": "none"}})
    assert isinstance(found, Refused)
    assert found.text.startswith("execution error at (gpu-operator/templates/policy.yaml:2:")
    assert found.text.endswith(": there is no strategy none")


def test_numbers_stay_whole(tmp_path: Path, renderer: helm.Helm) -> None:
    found = renderer.render(packed(tmp_path), {"toolkit": {"some": [1, 1.5, "2"]}})
    assert not isinstance(found, Refused)
    kept = found[0]["spec"]["toolkit"]["some"]
    assert kept == [1, 1.5, "2"]
    assert isinstance(kept[0], int)


def test_the_command_says_the_same_with_0_and_differences_with_1(
    tmp_path: Path, stand_in: Path
) -> None:
    same = CliRunner().invoke(cli, ["chart", "compare", str(stand_in)])
    assert same.exit_code == 0, same.output
    assert "fields that the rack's model reads: the same in both." in same.output
    other = CliRunner().invoke(cli, ["chart", "compare", str(packed(tmp_path)), "--json"])
    assert other.exit_code == 1, other.output
    told = json.loads(other.output)
    assert told["same"] is False
    assert "toolkit.installDir" in {one["field"] for one in told["differences"]}


def test_the_table_shows_each_field_once(tmp_path: Path) -> None:
    shown = CliRunner().invoke(cli, ["chart", "compare", str(packed(tmp_path))]).output
    rows = [line for line in shown.splitlines() if line.startswith("toolkit.installDir")]
    assert len(rows) == 1
    assert "/usr/local/nvidia" in rows[0]
    assert "/opt/toolkit" in rows[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"Chart.yaml": "{name: other, version: v1.0.0}"}, "is chart other, not gpu-operator"),
        ({"Chart.yaml": "{name: gpu-operator, version: v1.0.0}"}, "no stand-in of that version"),
        ({"Chart.yaml": "[]"}, "has no name and version"),
        ({"Chart.yaml": "{name: "}, "is not a chart package"),
        ({"Chart.yaml": None}, "is not a chart package"),
        ({"crds/policy.yaml": None}, "no CustomResourceDefinition clusterpolicies.nvidia.com"),
    ],
)
def test_what_cannot_be_compared_is_told_with_2(
    tmp_path: Path, changes: dict[str, str | None], reason: str
) -> None:
    done = CliRunner().invoke(cli, ["chart", "compare", str(packed(tmp_path, **changes))])
    assert done.exit_code == 2
    assert reason in done.stderr


@pytest.mark.parametrize("arguments", [[], ["/nowhere.tgz"], ["/"], ["a", "b"]])
def test_a_wrong_use_is_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(cli, ["chart", "compare", *arguments]).exit_code == 2


def test_without_the_plugin_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(helm, "CHECKOUT", tmp_path)
    with pytest.raises(RenderError, match="make tools"), helm.helm():
        pass


def test_a_plugin_that_does_not_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / helm.PLUGIN
    program.write_text("#!/bin/sh\necho broken\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RenderError, match="named no port"), helm.helm():
        pass


def test_an_api_server_drops_what_it_does_not_know_and_adds_defaults() -> None:
    schema = {
        "properties": {
            "a": {"properties": {"b": {"default": 1}}},
            "list": {"items": {"properties": {"x": {"default": "y"}}}},
            "map": {"additionalProperties": {"type": "string"}},
            "open": {"x-kubernetes-preserve-unknown-fields": True},
        }
    }
    value = {"a": {"b": None, "no": 1}, "list": [{}], "map": {"k": "v"}, "open": {"k": 1}, "no": 1}
    assert stored(value, schema) == {
        "a": {"b": 1},
        "list": [{"x": "y"}],
        "map": {"k": "v"},
        "open": {"k": 1},
    }


def test_what_is_only_passed_through_is_not_read() -> None:
    readings = Readings()
    read(readings, {"spec": {"validator": {"version": "v24.9.2"}}}, {})
    assert ("validator", "version") in readings.fields
    assert ("validator",) not in readings.fields
