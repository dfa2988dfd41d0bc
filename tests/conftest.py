"""What holds for every test."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "normal",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("deep", settings.get_profile("normal"), max_examples=5000)
settings.load_profile("normal")  # --hypothesis-profile=deep takes its time

MISSING_TOOL = re.compile(r"not installed|not on PATH|missing|not found", re.IGNORECASE)
"""How a skip says that a program of the machine is not there."""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A tool that is missing in CI fails the run: a test that never ran proves nothing."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not os.environ.get("CI"):
        return
    skipped = [report for report in reporter.stats.get("skipped", []) if _lacks_tool(report)]
    for report in skipped:
        reporter.write_line(f"CI lacks a tool: {report.nodeid}: {_reason(report)}", red=True)
    if skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _reason(report: pytest.TestReport) -> str:
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else ""


def _lacks_tool(report: pytest.TestReport) -> bool:
    return bool(MISSING_TOOL.search(_reason(report)))
