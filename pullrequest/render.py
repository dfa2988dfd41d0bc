"""A plan as the comment that people read: what matters most first, and short."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from pullrequest.markdown import block, code, prose
from pullrequest.model import Change, Op, Outage, Plan, Property, Violation

LONGEST = 60_000
"""Characters of a comment; GitHub takes 65,536."""
ROWS = 25
"""Rows of a list, before it says how many more there are."""
PROPERTIES = 3
MARKER = "<!-- gpu-passthrough plan: {} -->"
"""First line of a stack's comment, by which the next run finds it."""
WORDS: dict[Op, str] = {
    "replace": "replaced",
    "delete": "deleted",
    "update": "changed",
    "import": "adopted",
    "create": "created",
}
LISTS: tuple[tuple[Op, str, Sequence[str]], ...] = (
    ("replace", "Replaced", ("Resource", "Kind", "Forced by", "Loses")),
    ("delete", "Deleted", ("Resource", "Kind", "Loses")),
    ("update", "Changed", ("Resource", "Kind", "What")),
)
Found = TypeVar("Found")


def marker(stack: str) -> str:
    """The first line of a stack's comment."""
    return MARKER.format(stack)


def _count(number: int, one: str, more: str | None = None) -> str:
    return f"{number} {one if number == 1 else more or one + 's'}"


def _headline(plan: Plan) -> str:
    counts = {op: sum(one.op == op for one in plan.changes) for op in WORDS}
    said = [f"{number} {WORDS[op]}" for op, number in counts.items() if number]
    said += [f"{plan.left_out} more"] if plan.left_out else []
    head = f"**{', '.join(said) or 'Nothing to change'}**, {plan.unchanged} unchanged."
    if not (plan.changes or plan.unchanged):
        head = "" if plan.refusal else "**No plan.**"
    if plan.refusal:
        head = f"**Refused: {prose(plan.refusal)}.** {head}"
    if plan.outages:
        head += f" **{_count(len(plan.outages), 'GPU outage')}.**"
    if any(one.loses for one in plan.changes):
        head += " **Data is lost.**"
    if plan.outcome == "failed":
        head += " **The preview broke off: what follows is not complete.**"
    return head.strip()


def _table(
    columns: Sequence[str], found: Sequence[Found], row: Callable[[Found], Sequence[str]]
) -> list[str]:
    if not found:
        return []
    lines = [f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]
    lines += [f"| {' | '.join(row(one))} |" for one in found[:ROWS]]
    return [*lines, *_more(len(found))]


def _more(number: int) -> list[str]:
    return ["", f"… and {number - ROWS} more."] if number > ROWS else []


def _section(title: str, body: Iterable[str]) -> str:
    lines = list(body)
    return "\n".join([f"**{title}**", "", *lines]) if lines else ""


def _folded(title: str, body: Iterable[str]) -> str:
    lines = list(body)
    if not lines:
        return ""
    return "\n".join([f"<details><summary>{title}</summary>", "", *lines, "", "</details>"])


def _outage(one: Outage) -> Sequence[str]:
    apps = ", ".join(code(app) for app in one.apps[:5]) or "none"
    return code(one.cards), code(one.where), prose(one.until, 120), prose(one.why, 200), apps


def _outages(found: Sequence[Outage]) -> Iterable[str]:
    columns = ("GPU", "Where", "Out of use", "Because", "Apps that may be on it")
    return _table(columns, found, _outage)


def _difference(one: Property) -> str:
    if one.before == one.after:
        return code(one.path) + (f" {code(one.after)}" if one.after else "")
    return f"{code(one.path)} {_value(one.before)} → {_value(one.after)}"


def _value(value: str | None) -> str:
    return "none" if value is None else code(value)


def _differences(found: Sequence[Property]) -> str:
    more = len(found) - PROPERTIES
    listed = "<br>".join(_difference(one) for one in found[:PROPERTIES])
    return listed + (f"<br>and {more} more" if more > 0 else "")


def _because(one: Change) -> str:
    forced = [prop for prop in one.properties if prop.forces]
    return _differences(forced) if forced else "what it stands on is replaced"


def _loses(one: Change) -> str:
    return prose(one.loses) if one.loses else ""


def _list(plan: Plan, op: Op) -> list[Change]:
    return [one for one in plan.changes if one.op == op]


def _named(one: Change) -> tuple[str, str]:
    return code(one.name), prose(one.kind)


ROW_OF: dict[Op, Callable[[Change], Sequence[str]]] = {
    "replace": lambda one: (*_named(one), _because(one), _loses(one)),
    "delete": lambda one: (*_named(one), _loses(one)),
    "update": lambda one: (*_named(one), _differences(one.properties)),
}


def _changes(plan: Plan) -> Iterable[str]:
    for op, title, columns in LISTS:
        yield _section(title, _table(columns, _list(plan, op), ROW_OF[op]))
    for op in ("create", "import"):
        made = _list(plan, op)
        names = [f"- {code(one.name)} ({prose(one.kind)})" for one in made[:ROWS]]
        yield _folded(f"{len(made)} {WORDS[op]}", [*names, *_more(len(made))] if made else [])


def _compatibility(plan: Plan) -> str:
    found = plan.verdict
    if found is None:
        return ""
    before = "new" if found.before is None else found.before
    became = found.after if before == found.after else f"{before} → {found.after}"
    return f"**Compatibility: {prose(became)}.** {prose(found.text)}"


def _violations(found: Iterable[Violation]) -> list[str]:
    """A line per policy and message; resources that break it in the same way share one."""
    alike: dict[tuple[str, str], list[str]] = {}
    for one in found:
        alike.setdefault((one.policy, one.message), []).append(code(one.resource))
    lines = [
        f"- {code(policy)} on {', '.join(on[:ROWS])}: {prose(message)}"
        for (policy, message), on in list(alike.items())[:ROWS]
    ]
    return [*lines, *_more(len(alike))]


def _policies(plan: Plan) -> Iterable[str]:
    mandatory = [one for one in plan.violations if one.level == "mandatory"]
    advisory = [one for one in plan.violations if one.level == "advisory"]
    yield _section("Policies that forbid it", _violations(mandatory))
    title = f"Advice of policies: {len(advisory)}"
    yield _folded(title, _violations(advisory))


def _problems(plan: Plan) -> str:
    title = "Problems" if plan.outcome == "refused" else "Why the preview broke off"
    blocks = [block(one) for one in plan.problems[:ROWS]]
    return _section(title, [*blocks, *_more(len(plan.problems))])


def _unseen(plan: Plan) -> str:
    return _section("Not seen", [f"- {prose(one)}" for one in plan.unseen[:ROWS]])


def bounded(text: str, longest: int = LONGEST) -> str:
    """A comment that GitHub takes: cut at a line, and it says so."""
    if len(text.encode()) <= longest:
        return text
    kept = text.encode()[:longest].decode(errors="ignore").rpartition("\n")[0]
    open_details = kept.count("<details>") - kept.count("</details>")
    closing = "\n\n</details>" * open_details
    return (
        f"{kept}{closing}\n\nThe plan is longer than a comment may be; the run's summary has more."
    )


def markdown(plan: Plan) -> str:
    """The comment."""
    parts: Sequence[str | Callable[[], str]] = [
        f"{marker(plan.stack)}\n### Plan for {code(plan.stack)}",
        _headline(plan),
        _section("GPUs out of use", _outages(plan.outages)),
        _problems(plan),
        _compatibility(plan),
        *_policies(plan),
        *_changes(plan),
        _unseen(plan),
    ]
    return bounded("\n\n".join(str(part) for part in parts if part) + "\n")
