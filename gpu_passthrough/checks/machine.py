"""A report for machines: JSON, and JUnit's XML for continuous integration."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as Xml

from gpu_passthrough.checks.diagnose import diagnose
from gpu_passthrough.checks.finding import Finding, Status
from gpu_passthrough.checks.render import details
from gpu_passthrough.checks.report import Report

DECLARATION: Final = '<?xml version="1.0" encoding="utf-8"?>\n'
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold; hosts and pods may answer with any."""


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "part": finding.part,
        "title": finding.title,
        "status": finding.status,
        "layer": finding.layer,
        "subject": finding.subject,
        "cause": finding.cause,
        "consequence": finding.consequence,
        "fix": finding.fix,
        "evidence": [{"asked": one.asked, "answered": one.answered} for one in finding.evidence],
        "bestEffort": finding.best_effort,
        "seconds": round(finding.seconds, 3),
    }


def as_dict(report: Report) -> dict[str, Any]:
    """The report as what `--json` prints; keys are only ever added."""
    return {
        "command": report.command,
        "target": report.target,
        "ok": report.exit_code == 0,
        "exitCode": report.exit_code,
        "reachable": not report.unreachable,
        "seconds": round(report.seconds, 3),
        "counts": report.counts,
        "diagnosis": _diagnosis(report),
        "findings": [_finding(one) for one in report.findings],
    }


def _diagnosis(report: Report) -> dict[str, Any] | None:
    """The lowest broken layer, its failures in order, and what follows; None where all is well."""
    found = diagnose(report.failures)
    if not found.causes:
        return None
    return {
        "layer": found.causes[0].layer,
        "causes": [
            {"id": one.id, "subject": one.subject, "cause": one.cause, "fix": one.fix}
            for one in found.causes
        ],
        "follow": [{"id": one.id, "subject": one.subject} for one in found.follow],
    }


def as_json(report: Report) -> str:
    """The report as JSON text."""
    return json.dumps(as_dict(report), indent=2) + "\n"


def _clean(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _explanation(finding: Finding) -> str:
    return _clean("\n".join(f"{name}: {text}" for name, text in details(finding) if text))


def _element(finding: Finding) -> str | None:
    """JUnit's name for what the finding is; None where it simply passed."""
    if finding.fails:
        return "failure" if finding.status == "failed" else "error"
    names: dict[Status, str] = {"could-not-tell": "skipped", "ignored": "skipped"}
    return names.get(finding.status)


def _case(parent: Xml.Element, report: Report, finding: Finding) -> None:
    subject = f" ({finding.subject})" if finding.subject else ""
    case = Xml.SubElement(
        parent,
        "testcase",
        classname=f"{report.command}.{finding.layer}",
        name=_clean(f"{finding.id}{subject}"),
        time=f"{finding.seconds:.3f}",
    )
    name = _element(finding)
    if name:
        message = _clean(f"{finding.status}: {finding.cause or finding.title}")
        Xml.SubElement(case, name, message=message).text = _explanation(finding)
    else:
        Xml.SubElement(case, "system-out").text = _explanation(finding)


def as_junit(report: Report) -> str:
    """The report as JUnit XML: one test case per finding."""
    kinds = [_element(one) for one in report.findings]
    numbers = {
        "tests": str(len(kinds)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": str(kinds.count("skipped")),
        "time": f"{report.seconds:.3f}",
    }
    root = Xml.Element("testsuites", numbers)
    suite = Xml.SubElement(root, "testsuite", {"name": _clean(report.target), **numbers})
    for one in report.findings:
        _case(suite, report, one)
    Xml.indent(root)
    return DECLARATION + Xml.tostring(root, encoding="unicode") + "\n"


class UnwritableError(Exception):
    """A report cannot be written; the message says where and why."""


def write_junit(report: Report, file: Path) -> None:
    """Write JUnit's XML to a file, making its folder where there is none.

    Raises:
        UnwritableError: the file cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(as_junit(report), encoding="utf-8")
    except OSError as error:
        raise UnwritableError(
            f"The report cannot be written to {file}: {error.strerror}. Name a file in a folder"
            " that you may write to."
        ) from None
