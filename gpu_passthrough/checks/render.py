"""A report for people: a table in a terminal, plain lines in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TextIO

from rich.console import Console
from rich.control import strip_control_codes
from rich.table import Table
from rich.text import Text

from gpu_passthrough.checks.finding import Finding, Status
from gpu_passthrough.checks.report import Report

MARKS: Final[dict[Status, tuple[str, str]]] = {
    "passed": ("ok", "green"),
    "failed": ("FAILED", "bold red"),
    "warning": ("warning", "yellow"),
    "could-not-tell": ("could not tell", "magenta"),
    "ignored": ("ignored", "cyan"),
}
"""How each status is written, and its colour in a terminal."""


def details(finding: Finding) -> Iterator[tuple[str, str]]:
    """The parts of a finding that explain it, each with its name."""
    yield "Cause", finding.cause
    yield "Why", finding.consequence
    yield "Fix", finding.fix
    for one in finding.evidence:
        yield "Asked", one.asked
        yield "Answer", one.answered


def _harmless(text: str) -> str:
    """Text from a host or pod, without what would steer a terminal."""
    return strip_control_codes(text).replace("\x1b", "")


def _explained(report: Report) -> list[Finding]:
    """What a person may have to act on; what need not be told is in the table already."""
    return [one for one in report.ordered if one.fails or one.status in ("warning", "ignored")]


def brief(report: Report) -> str:
    """Only what needs attention, and the summary."""
    lines = [line for one in _explained(report) for line in ("", *_paragraph(one))]
    return "\n".join([*lines[1:], *([""] if lines else []), _ending(report)]) + "\n"


def _ending(report: Report) -> str:
    ids = list(dict.fromkeys(one.name for one in report.failures if one.ignorable))
    hint = f"\nTo go on all the same: {' '.join(f'--ignore {one}' for one in ids)}" if ids else ""
    return f"{report.summary}, in {report.seconds:.1f} s.{hint}"


def _paragraph(finding: Finding) -> Iterator[str]:
    subject = f" ({finding.subject})" if finding.subject else ""
    yield f"{MARKS[finding.status][0]}: {finding.title}{subject}  [{finding.id}]"
    for name, text in details(finding):
        first, *rest = _harmless(text).splitlines() or [""]
        if first:
            yield f"  {name + ':':8}{first}"
        yield from (f"{'':10}{line}" for line in rest)


def plain(report: Report) -> str:
    """The report as text without colours or wrapping: one line per finding, then what to do."""
    lines = [f"{report.command} of {report.target}"]
    for one in report.findings:
        head = f"{MARKS[one.status][0]:15}{one.id:22}  {one.subject or '-'}"
        lines.append(f"{head}  {_harmless(one.cause)}".rstrip())
    for one in _explained(report):
        lines += ["", *_paragraph(one)]
    return "\n".join([*lines, "", _ending(report)]) + "\n"


def _table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, title=f"{report.command} of {report.target}")
    table.title_justify = "left"
    for column in ("STATUS", "CHECK", "SUBJECT", "FOUND"):
        table.add_column(column, overflow="fold")
    for one in report.findings:
        mark, style = MARKS[one.status]
        table.add_row(
            Text(mark, style=style), one.id, Text(one.subject or "-"), Text(_harmless(one.cause))
        )
    return table


def terminal(report: Report, console: Console) -> None:
    """Print the report to a terminal."""
    console.print(_table(report))
    for one in _explained(report):
        head, *rest = _paragraph(one)
        console.print()
        console.print(Text(head, style=MARKS[one.status][1]))
        for line in rest:
            console.print(Text(line), soft_wrap=True)
    console.print()
    console.print(Text(_ending(report)), soft_wrap=True)


def show(report: Report, stream: TextIO) -> None:
    """Print the report the way that suits where it goes."""
    if stream.isatty():
        terminal(report, Console(file=stream))
    else:
        stream.write(plain(report))
        stream.flush()
