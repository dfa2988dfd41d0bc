"""The comment: what matters first, nothing foreign acts, never too long, no secret."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from pullrequest import render
from pullrequest.markdown import APART, block, code, prose
from pullrequest.model import LONGEST_TEXT, Change, Outage, Plan, Property, Verdict, Violation
from tests.pullrequest.recording import plan

HOSTILE = [
    "@everyone",
    "<script>alert(1)</script>",
    "<!-- gpu-passthrough plan: other -->",
    "](https://evil.example)",
    "![x](https://evil.example/p.png)",
    "`; rm -rf /; `",
    "a | b |\n| --- | --- |\n# Heading",
    "</details><img src=x onerror=alert(1)>",
    "fixes #1 and GH-2 and other/repo#3",
    "www.evil.example https://evil.example",
    "\u202eesrever\u2066 \x1b[31mred\x00",
    "**bold** _it_ ~~gone~~ [x]",
    "x" * 5000,
]


def everywhere(text: str) -> Plan:
    """A plan with one text in every field that may hold a foreign one."""
    text = text[:LONGEST_TEXT]
    changed = Property(path=text, forces=True, before=text, after=text + "2"[: len(text) < 1999])
    return Plan(
        stack="dev",
        outcome="refused",
        refusal=text,
        changes=[
            Change(op=op, kind=text, name=text, properties=[changed], loses=text)
            for op in ("replace", "delete", "update", "create", "import")
        ],
        outages=[Outage(cards=text, where=text, until=text, why=text, apps=[text])],
        verdict=Verdict(before=text, after=text, text=text),
        violations=[
            Violation(level=level, policy=text, resource=text, message=text)
            for level in ("mandatory", "advisory")
        ],
        problems=[text],
        unseen=[text],
    )


class Tags(HTMLParser):
    """Every element and comment that a reader's browser would get."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.add(tag)

    def handle_comment(self, data: str) -> None:
        self.found.add("comment")


def outside_blocks(markdown: str) -> str:
    return re.sub(r"^(`{3,})text\n.*?\n\1$", "", markdown, flags=re.DOTALL | re.MULTILINE)


def outside_code(markdown: str) -> str:
    """The text in which GitHub looks for markup, mentions and references."""
    return re.sub(r"`[^`]*`", "", outside_blocks(markdown))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(text: str) -> None:
    written = render.markdown(everywhere(text))
    open_text = outside_code(written).partition("\n")[2]
    tags = Tags()
    tags.feed(open_text)
    assert tags.found <= {"details", "summary", "br"}
    assert open_text.count("<details>") == open_text.count("</details>")
    assert not re.search(rf"[@#](?!{APART})\w", open_text)
    assert not re.search(rf"(://|www\.|GH-)(?!{APART})", open_text)
    assert "](" not in open_text
    assert not re.search(r"[\x00-\x08\x1b\u202a-\u202e\u2066-\u2069]", written)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_table_keeps_its_columns(text: str) -> None:
    written = outside_blocks(render.markdown(everywhere(text)))
    rows = [line for line in written.splitlines() if line[:1] == "|"]
    bars = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
    assert bars <= {4, 5, 6}
    assert len(rows) == 3 * 4


def test_only_the_first_line_is_a_marker() -> None:
    written = render.markdown(everywhere("<!-- gpu-passthrough plan: other -->"))
    assert written.splitlines()[0] == render.marker("dev")
    tags = Tags()
    tags.feed(outside_code(written.partition("\n")[2]))
    assert "comment" not in tags.found


def many(number: int, length: int) -> Plan:
    text = "é" * length
    change = [
        Change(op="update", kind=text, name=text, properties=[Property(path=text)] * 9)
        for _ in range(number)
    ]
    found = Violation(level="advisory", policy=text, resource=text, message=text)
    return Plan(
        stack="dev",
        outcome="planned",
        changes=change,
        violations=[found.model_copy(update={"policy": f"{n}{text}"}) for n in range(number // 2)],
        problems=[text] * number,
    )


@pytest.mark.parametrize(("number", "length"), [(2000, 1900), (2000, 3), (30, 1900)])
def test_a_comment_fits_into_githubs_limit(number: int, length: int) -> None:
    written = render.markdown(many(number, length))
    assert len(written.encode()) < 65_536
    assert f"{number} changed" in written


def test_a_cut_is_said_and_closes_what_is_open() -> None:
    text = "<details><summary>x</summary>\n\n" + "line\n" * 100 + "</details>"
    cut = render.bounded(text, 200)
    assert cut.count("</details>") == 1
    assert "longer than a comment may be" in cut
    assert render.bounded("short", 200) == "short"


def test_a_long_list_says_how_much_is_left() -> None:
    written = render.markdown(many(render.ROWS + 7, 2))
    assert "… and 7 more." in written
    assert "more." not in render.markdown(many(render.ROWS, 2))


def test_the_headline_says_it_all() -> None:
    head = render.markdown(plan("machines")).splitlines()[3]
    assert head == ("**2 replaced, 1 changed**, 19 unchanged. **2 GPU outages.** **Data is lost.**")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "**Nothing to change**, 22 unchanged."),
        ("policy", "**Refused: it breaks no-plain-secret.** **1 changed**"),
        ("protected", "**Refused: k8s-worker-1-vm would have to go and is protected.**"),
        ("unreachable", "**The preview broke off: what follows is not complete.**"),
        ("first", "**22 created**, 0 unchanged."),
    ],
)
def test_the_headline_of_each_outcome(name: str, said: str) -> None:
    assert said in render.markdown(plan(name)).splitlines()[3]


def test_a_replacement_shows_its_reason_and_what_it_loses() -> None:
    written = render.markdown(plan("machines"))
    assert "| `k8s-worker-1-vm` | VM | `vmId` `111` → `121` | its disks |" in written
    assert "| `k8s-worker-2-vm` | VM | `memory.dedicated` `16384` → `12288` |" in written


def test_the_cards_come_before_the_resources() -> None:
    written = render.markdown(plan("machines"))
    assert written.index("GPUs out of use") < written.index("**Replaced**")


def test_advice_is_folded_and_a_ban_is_not() -> None:
    written = render.markdown(plan("policy"))
    ban, fold = written.index("no-plain-secret` on"), written.index("<details>")
    assert ban < fold < written.index("`protected-state`")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("vendor-tested", "refused", "vendor-tested → refused."),
        ("refused", "refused", "Compatibility: refused."),
        (None, "vendor-tested", "new → vendor-tested."),
    ],
)
def test_the_verdict_says_what_it_becomes(before: str | None, after: str, said: str) -> None:
    verdict = Verdict(before=before, after=after, text="Why.")
    assert said in render.markdown(Plan(stack="dev", outcome="planned", verdict=verdict))


def test_code_and_prose_keep_what_people_read() -> None:
    assert code("k8s-worker-1") == "`k8s-worker-1`"
    assert prose("plain words, 5 % (of it).") == "plain words, 5 % \\(of it\\)."
    assert block("a\n  b") == "```text\na\n  b\n```"
    assert block("```\nx") == "````text\n```\nx\n````"
