"""docs/diagnosis.md, row by row: a stack that runs is broken, diagnosed and mended."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.site import CHECKOUT, Site

pytestmark = [pytest.mark.e2e]

UP = "pulumi --non-interactive up --stack dev --yes --skip-preview --refresh"
NOTICES_S = 60
"""Longest time in which Kubernetes has to notice, or to recover."""
CODE = re.compile(r"`([^`]*)`")


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    what: str
    by: str
    layer: str
    finding: str
    mended_by: str

    @property
    def id(self) -> str:
        """The check that has to come first; empty where nothing is found."""
        return CODE.match(self.finding)[1] if self.layer else ""  # type: ignore[index]

    @property
    def says(self) -> str:
        """A part of its cause."""
        return self.finding.partition(": ")[2]


def rows() -> list[Row]:
    lines = (CHECKOUT / "docs" / "diagnosis.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("| ") and "`" in line]
    return [Row(*(cell.strip() for cell in line.split("|")[1:-1])) for line in table]


def command(cell: str) -> str:
    """What a person types; UP is explained above the table."""
    return re.sub(r"\bUP\b", UP, cell.strip("`"))


def verified(site: Site) -> dict[str, Any]:
    done = site.shell("python -m gpu_passthrough verify dev --json --timeout 30")
    assert done.out, done.err
    found: dict[str, Any] = json.loads(done.out)
    assert found["exitCode"] == done.code
    return found


def warnings(found: dict[str, Any]) -> set[str]:
    return {one["id"] for one in found["findings"] if one["status"] == "warning"}


def first(found: dict[str, Any]) -> tuple[str, str, str]:
    """Layer, check and words of the first cause; empty where all is well."""
    diagnosis = found["diagnosis"]
    if diagnosis is None:
        return ("", "", "")
    cause = diagnosis["causes"][0]
    assert cause["fix"], found
    return (diagnosis["layer"], cause["id"], cause["cause"])


def until(site: Site, row: Row) -> tuple[str, str, str]:
    """Verify until the row's finding comes first, or the time is over; the last answer."""
    end = time.monotonic() + NOTICES_S
    while True:
        found = first(verified(site))
        is_it = (
            found[:2] == (row.layer, row.id) and row.says in found[2] if row.layer else not found[0]
        )
        if is_it or time.monotonic() > end:
            return found
        time.sleep(0.5)


HEALTHY = Row("", "", "", "", "")
HELD_UP = Row("", "", "app", "`failed-pods`: failed pods are left", "")
OFFERED = r"{.status.allocatable.nvidia\.com/gpu}"


@pytest.fixture(scope="module")
def standing(site: Site) -> Site:
    done = site.shell(UP)
    assert done.code == 0, done.text
    assert until(site, HEALTHY) == ("", "", "")
    return site


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.what)
def test_the_diagnosis_names_what_was_broken(standing: Site, row: Row) -> None:
    broken = standing.shell(command(row.by))
    try:
        layer, check, cause = until(standing, row)
    finally:
        mended = standing.shell(command(row.mended_by))
    assert (layer, check) == (row.layer, row.id), f"{cause}\n{broken.text[-2000:]}"
    if row.layer:
        assert row.says in cause
    assert mended.code == 0, mended.text[-3000:]
    assert until(standing, HEALTHY) == ("", "", ""), mended.text[-3000:]
    standing.shell("kubectl delete events --field-selector reason=Rebooted")
    standing.shell("kubectl -n immich delete pods --field-selector status.phase=Failed")


APP = "deployment immich-machine-learning"
PLUGIN = "kubectl patch clusterpolicy cluster-policy --type merge -p"


def test_failed_pods_hold_up_a_rollout(standing: Site) -> None:
    """docs/traps/failed-pods.md; a finalizer keeps the old pod as long as an ending takes."""
    node = standing.get("pods -n immich")["items"][0]["spec"]["nodeName"]
    standing.shell(f"""{PLUGIN} '{{"spec":{{"devicePlugin":{{"enabled":false}}}}}}'""")
    standing.kubectl(f"wait node {node} --for=jsonpath='{OFFERED}'=0 --timeout=30s")
    standing.fault("node-reboot", node)
    failed = "kubectl -n immich get pods --field-selector status.phase=Failed -o name"
    came = standing.shell(f"timeout 30 bash -c 'until {failed} | grep pod; do sleep 0.3; done'")
    assert came.code == 0, came.text
    standing.shell(f"""{PLUGIN} '{{"spec":{{"devicePlugin":{{"enabled":true}}}}}}'""")
    assert standing.kubectl(f"-n immich rollout status {APP} --timeout=60s").code == 0
    assert until(standing, HEALTHY) == ("", "", "")
    assert "failed-pods" in warnings(verified(standing))

    (pod,) = standing.kubectl(
        "-n immich get pods --field-selector status.phase=Running -o name"
    ).out.split()
    hold = f"-n immich patch {pod} --type merge -p"
    standing.kubectl(hold + """ '{"metadata":{"finalizers":["example.org/hold"]}}'""")
    standing.kubectl(f"-n immich rollout restart {APP}")
    going = "--for=jsonpath='{.metadata.deletionTimestamp}' --timeout=20s"
    assert standing.kubectl(f"-n immich wait {pod} {going}").code == 0
    time.sleep(1)  # the controller has looked, and waits
    standing.kubectl(hold + """ '{"metadata":{"finalizers":null}}'""")
    assert until(standing, HELD_UP)[:2] == ("app", "failed-pods")

    standing.shell(verified(standing)["diagnosis"]["causes"][0]["fix"])
    assert standing.kubectl(f"-n immich rollout status {APP} --timeout=60s").code == 0
    assert until(standing, HEALTHY) == ("", "", "")


def test_every_fault_of_the_rack_has_a_row(standing: Site) -> None:
    known = json.loads(standing.rack("fault list --json").out)
    injected = {name for row in rows() for name in re.findall(r"fault inject ([\w-]+)", row.by)}
    assert injected == set(known)


def test_a_soak_catches_a_machine_that_restarts(standing: Site) -> None:
    done = standing.shell(
        "(sleep 8; python -m rack fault inject node-reboot k8s-worker-1 >/dev/null) & "
        "python -m gpu_passthrough verify dev --no-host --soak 120 --json"
    )
    found = json.loads(done.out)
    assert first(found)[:2] == ("talos", "soak")
    assert found["diagnosis"]["causes"][0]["subject"] == "k8s-worker-1"
    assert found["seconds"] < 60
