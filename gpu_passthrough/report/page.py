"""Renders the page: one file that asks nothing of any network, and runs no script."""

from __future__ import annotations

import base64
import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gpu_passthrough.checks.diagnose import Diagnosis, diagnose
from gpu_passthrough.checks.finding import Finding
from gpu_passthrough.checks.render import MARKS, details
from gpu_passthrough.checks.report import Report
from gpu_passthrough.config import Stack
from gpu_passthrough.report.chain import TITLES, WORDS, Chain, chains
from gpu_passthrough.report.seen import Seen, judged, together
from gpu_passthrough.report.versions import verdict, versions

HERE: Final = Path(__file__).parent
UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that a page cannot show, or that turn the text around them."""
KEPT: Final = frozenset("\n\t\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}")


@dataclass(frozen=True)
class Page:
    """What the page is about."""

    name: str
    """The stack's."""
    stack: Stack
    seen: Seen
    given: Sequence[Report] = ()
    moment: str = ""
    """When it was made, in words; the same page again where it is the same."""


def printable(value: object) -> object:
    """A value without characters that hide, or that turn the direction of the text."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "".join(
        "\N{REPLACEMENT CHARACTER}"
        if unicodedata.category(char) in UNSEEN and char not in KEPT
        else char
        for char in value
    )


def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _policy(css: str) -> str:
    """The page's own style is allowed, by its hash; nothing else is."""
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _explained(finding: Finding) -> list[tuple[str, str]]:
    return [(name, text) for name, text in details(finding) if text]


def _summary(found: Sequence[Chain], diagnosis: Diagnosis) -> str:
    if not found:
        return "No GPU is known: the stack lists no machine, and no cluster was read."
    broken = sum(chain.standing == "broken" for chain in found)
    if broken:
        return f"{broken} of {len(found)} GPUs have a broken layer."
    if diagnosis.causes:
        return f"A check failed, on no GPU's way: {diagnosis.causes[0].title}."
    unknown = sum(chain.standing == "unknown" for chain in found)
    if unknown:
        return (
            f"Nothing is known to be broken; {unknown} of {len(found)} GPUs have a layer"
            " that nobody looked at."
        )
    return f"Every layer of {len(found)} GPUs was looked at, and none is broken."


def _values(page: Page) -> dict[str, Any]:
    reports = together(judged(page.stack, page.seen), list(page.given))
    findings = [one for report in reports for one in report.findings]
    found = chains(page.stack, page.seen, findings)
    diagnosis = diagnose([one for one in findings if one.fails])
    level, text = verdict(page.stack)
    return {
        "page": page,
        "chains": found,
        "reports": reports,
        "diagnosis": diagnosis,
        "summary": _summary(found, diagnosis),
        "versions": versions(page.stack),
        "level": level,
        "verdict": text,
        "titles": TITLES,
        "standings": WORDS,
        "marks": {status: mark for status, (mark, _) in MARKS.items()},
        "explained": _explained,
    }


def render(page: Page) -> str:
    """The page as HTML."""
    css = (HERE / "page.css").read_text("utf-8").strip()
    template = _environment().get_template("page.html.j2")
    # Our own file, not a value from outside: the only text that is not escaped.
    style = Markup(css)  # noqa: S704
    return template.render(css=style, policy=_policy(css), **_values(page))
