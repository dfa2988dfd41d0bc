"""Foreign text in GitHub's Markdown: shown as it is, and nothing else happens.

Names come from stack files of pull requests, messages from plugins. None of it may become
markup, a link, a mention of somebody, or a reference to another issue.
"""

from __future__ import annotations

import re
import unicodedata

LONGEST_CODE = 120
LONGEST_PROSE = 600
APART = "\N{ZERO WIDTH SPACE}"
"""Keeps GitHub from seeing a mention, a reference or an address; people do not see it."""

MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|~])")
AUTOLINK = re.compile(r"(@|#|://|www\.|GH-|mailto:)", re.IGNORECASE)
HARMLESS = str.maketrans("`|", "\N{MODIFIER LETTER GRAVE ACCENT}\N{BROKEN BAR}")
HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def one_line(text: str, longest: int) -> str:
    """A text without line breaks, control characters and marks that turn its direction."""
    text = text[: longest * 4]
    visible = "".join(
        " " if one.isspace() else one
        for one in text
        if one.isspace() or not unicodedata.category(one).startswith("C")
    )
    short = " ".join(visible.split())
    return short if len(short) <= longest else short[: longest - 1] + "…"


def code(text: str, longest: int = LONGEST_CODE) -> str:
    """A name or value, also inside a table: nothing in a code span is markup, except its end."""
    # A table is split into cells before code spans are found, and a bar outside of tables shows
    # its escape: the look-alike reads the same in both.
    return f"`{one_line(text, longest).translate(HARMLESS) or ' '}`"


def prose(text: str, longest: int = LONGEST_PROSE) -> str:
    """A message as running text."""
    short = AUTOLINK.sub(rf"\1{APART}", one_line(text, longest))
    return MARKUP.sub(r"\\\1", short.translate(HTML))


def block(text: str, longest: int = LONGEST_PROSE) -> str:
    """A message of several lines as it was printed."""
    lines = [one_line_keeping_indent(line) for line in text.strip().splitlines()]
    body = "\n".join(lines)
    body = body if len(body) <= longest else body[: longest - 1] + "…"
    runs = [len(run) for run in re.findall(r"`+", body)]
    fence = "`" * (max([2, *runs]) + 1)
    return f"{fence}text\n{body}\n{fence}"


def one_line_keeping_indent(line: str) -> str:
    """A line of a block, without control characters."""
    indent = len(line) - len(line.lstrip(" "))
    return " " * indent + one_line(line, LONGEST_PROSE)
