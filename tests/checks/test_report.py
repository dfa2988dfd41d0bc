"""Findings, what is ignored, exit codes, and the four ways to print a report."""

from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from rich.console import Console

from gpu_passthrough.checks import machine, render
from gpu_passthrough.checks.finding import Evidence, Finding, Status
from gpu_passthrough.checks.report import Report, UnknownCheckError, check_ignored

KNOWN = ("iommu", "card-present", "mapping")


def finding(status: Status, check: str = "iommu", **more: object) -> Finding:
    given = {"title": "The IOMMU is on", "layer": "host", "subject": "host pve", **more}
    return Finding(id=check, status=status, **given)  # type: ignore[arg-type]


def report(*findings: Finding) -> Report:
    return Report("preflight", "stack dev", findings, seconds=0.25)


@pytest.mark.parametrize(
    ("status", "best_effort", "code"),
    [
        ("passed", False, 0),
        ("warning", False, 0),
        ("ignored", False, 0),
        ("failed", False, 1),
        ("failed", True, 1),
        ("could-not-tell", False, 1),
        ("could-not-tell", True, 0),
    ],
)
def test_exit_code_follows_the_worst_finding(status: Status, best_effort: bool, code: int) -> None:
    assert report(finding("passed"), finding(status, best_effort=best_effort)).exit_code == code


def test_a_target_that_did_not_answer_has_a_code_of_its_own() -> None:
    assert Report("preflight", "x", [finding("failed")], unreachable=True).exit_code == 3


def test_ignoring_shows_the_failure_and_lets_the_others_fail() -> None:
    both = report(finding("failed"), finding("failed", "mapping"))
    one = both.ignoring({"iommu"})
    assert [f.status for f in one.findings] == ["ignored", "failed"]
    assert one.exit_code == 1
    assert both.ignoring({"iommu", "mapping"}).exit_code == 0


def test_ignoring_what_passed_changes_nothing() -> None:
    assert report(finding("passed")).ignoring({"iommu"}).findings[0].status == "passed"


def test_names_to_ignore_may_be_written_in_any_case() -> None:
    assert check_ignored(["IOMMU"], KNOWN) == {"iommu"}
    assert check_ignored([], KNOWN) == frozenset()
    assert check_ignored(["all"], KNOWN) == frozenset(KNOWN)


@pytest.mark.parametrize(
    ("names", "told"),
    [(["iomu"], "'iommu'"), (["all", "iommu"], "combined"), (["zzz"], "card-present")],
)
def test_a_name_that_no_check_has_is_refused(names: list[str], told: str) -> None:
    with pytest.raises(UnknownCheckError, match=told):
        check_ignored(names, KNOWN)


def test_the_lowest_broken_layer_comes_first() -> None:
    found = report(finding("failed", "b", layer="app"), finding("failed", "a", layer="host"))
    assert [one.id for one in found.failures] == ["a", "b"]


BROKEN = finding(
    "failed",
    cause="The IOMMU is off.",
    consequence="No VM can own a device.",
    fix="Switch it on:\nproxmox-boot-tool refresh",
    evidence=(Evidence("GET /nodes/pve/hardware/pci", "iommugroup -1\x1b[31m"),),
)


def test_plain_text_says_everything_and_names_the_way_to_ignore() -> None:
    text = render.plain(report(BROKEN, finding("passed", "mapping", cause="as wanted")))
    for part in ("FAILED", "The IOMMU is off.", "No VM can own", "proxmox-boot-tool", "as wanted"):
        assert part in text
    assert "--ignore iommu\n" in text
    assert "1 failed, 1 passed" in text


def test_a_pipe_gets_plain_text_and_a_terminal_a_table() -> None:
    stream = io.StringIO()
    render.show(report(BROKEN), stream)
    assert stream.getvalue() == render.plain(report(BROKEN))
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    render.terminal(report(BROKEN), console)
    assert "\x1b[" in console.file.getvalue()  # type: ignore[attr-defined]


def test_what_a_host_answered_never_steers_the_terminal() -> None:
    stream = io.StringIO()
    render.show(report(BROKEN), stream)
    assert "\x1b" not in stream.getvalue()


def test_json_has_every_field() -> None:
    found = json.loads(machine.as_json(report(BROKEN)))
    assert found["exitCode"] == 1
    assert found["ok"] is False
    assert found["counts"] == {"failed": 1}
    assert found["findings"][0]["evidence"][0]["asked"] == "GET /nodes/pve/hardware/pci"


def test_junit_counts_and_survives_control_characters(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "report.xml"
    unknown = finding("could-not-tell")
    guess = finding("could-not-tell", best_effort=True)
    machine.write_junit(report(BROKEN, finding("passed"), unknown, guess), file)
    suite = Xml.fromstring(file.read_text("utf-8")).find("testsuite")
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    assert "iommugroup -1" in (suite.findtext("testcase/failure") or "")


def test_a_file_that_cannot_be_written_is_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(machine.UnwritableError, match="cannot be written to .*file/report.xml"):
        machine.write_junit(report(finding("passed")), tmp_path / "file" / "report.xml")
