"""Reads what `preflight --json` and `verify --json` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpu_passthrough.checks.finding import Evidence, Finding, Layer, Status
from gpu_passthrough.checks.report import Report

LARGEST = 64 * 1024 * 1024
"""Bytes. A fleet's report has a few; more is another file."""


class FindingsError(Exception):
    """A file is no report of ours; the message says which, why, and how to make one."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class _Evidence(_Part):
    asked: str
    answered: str


class _Finding(_Part):
    id: str
    title: str
    status: Status
    layer: Layer
    subject: str = ""
    cause: str = ""
    consequence: str = ""
    fix: str = ""
    evidence: list[_Evidence] = []
    best_effort: bool = Field(default=False, alias="bestEffort")
    seconds: float = 0.0


class _Report(_Part):
    command: str
    target: str
    findings: list[_Finding]
    seconds: float = 0.0
    reachable: bool = True


def _finding(one: _Finding) -> Finding:
    values: dict[str, Any] = one.model_dump(exclude={"evidence"})
    evidence = tuple(Evidence(it.asked, it.answered) for it in one.evidence)
    return Finding(**values, evidence=evidence)


def read_report(file: Path) -> Report:
    """The report in a file.

    Raises:
        FindingsError: the file cannot be read, or is something else.
    """
    try:
        if file.stat().st_size > LARGEST:
            raise FindingsError(f"{file} is larger than {LARGEST >> 20} MiB: it is no report.")
        found = _Report.model_validate_json(file.read_bytes())
    except OSError as error:
        raise FindingsError(f"{file} cannot be read: {error.strerror or error}.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise FindingsError(
            f"{file} is not what `preflight --json` or `verify --json` prints: {place}:"
            f" {first['msg']}. Write it with: python -m gpu_passthrough verify STACK --json > FILE"
        ) from None
    return Report(
        found.command,
        found.target,
        [_finding(one) for one in found.findings],
        found.seconds,
        unreachable=not found.reachable,
    )
