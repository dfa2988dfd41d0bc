"""A shell's words: splitting a script into tokens, and expanding words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

OPERATORS: Final = ("&&", "||", ";;", ">>", ">&", "<<", "<", ">", "|", ";", "&", "(", ")", "\n")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIAL: Final = "?#$@*!0123456789"


class ShellError(Exception):
    """The script is wrong, or uses what the rack's shell does not have."""


@dataclass(frozen=True)
class Token:
    """An operator, or a word as it was written."""

    text: str
    is_operator: bool = False


def tokens(script: str) -> list[Token]:
    """Split a script; quotes stay in their words."""
    found: list[Token] = []
    at = 0
    while at < len(script):
        if script[at] in " \t\r" or script.startswith("\\\n", at):
            at += 2 if script[at] == "\\" else 1
        elif script[at] == "#":
            end = script.find("\n", at)
            at = len(script) if end < 0 else end
        elif digit := re.match(r"\d(?=[<>])", script[at:]):
            found.append(Token(digit.group(0) + _operator(script, at + 1), is_operator=True))
            at += len(found[-1].text)
        elif operator := _operator(script, at):
            found.append(Token(operator, is_operator=True))
            at += len(operator)
        else:
            end = _word_end(script, at)
            found.append(Token(script[at:end]))
            at = end
    return found


def _operator(script: str, at: int) -> str:
    return next((one for one in OPERATORS if script.startswith(one, at)), "")


def _word_end(script: str, at: int) -> int:
    while at < len(script):
        one = script[at]
        if one == "\\":
            at += 2
        elif one in "'\"`":
            at = _closing(script, at)
        elif script.startswith("$(", at):
            at = _bracket_end(script, at + 1)
        elif script.startswith("${", at):
            at = script.index("}", at) + 1 if "}" in script[at:] else _unterminated("}")
        elif one in " \t\r" or _operator(script, at):
            break
        else:
            at += 1
    return min(at, len(script))


def _closing(script: str, at: int) -> int:
    """After the quote that closes the one at `at`."""
    quote = script[at]
    at += 1
    while at < len(script) and script[at] != quote:
        if quote != "'" and script.startswith("$(", at):
            at = _bracket_end(script, at + 1)
        else:
            at += 2 if script[at] == "\\" and quote != "'" else 1
    return at + 1 if at < len(script) else _unterminated(quote)


def _bracket_end(script: str, at: int) -> int:
    """After the bracket that closes the one at `at`."""
    depth = 0
    while at < len(script):
        if script[at] in "'\"":
            at = _closing(script, at)
            continue
        depth += {"(": 1, ")": -1}.get(script[at], 0)
        at += 1
        if depth == 0:
            return at
    return _unterminated(")")


def _unterminated(mark: str) -> int:
    raise ShellError(f"Syntax error: Unterminated quoted string or bracket, `{mark}` expected")


@dataclass(frozen=True)
class Scope:
    """What words are expanded with."""

    variables: Mapping[str, str]
    status: int
    arguments: list[str]
    """$0, $1, and so on."""
    substitute: Callable[[str], str]
    """Runs a script and gives its output."""
    glob: Callable[[str], list[str]]


def expand(word: str, scope: Scope) -> list[str]:
    """The words that a written word stands for."""
    pieces = _pieces(word, scope)
    fields = _fields(pieces)
    found: list[str] = []
    for field in fields:
        pattern = "".join(_escaped(text) if quoted else text for text, quoted in field)
        plain = "".join(text for text, _ in field)
        is_pattern = any(not quoted and re.search(r"[*?\[]", text) for text, quoted in field)
        found += (scope.glob(pattern) if is_pattern else []) or [plain]
    return found


def expand_one(word: str, scope: Scope) -> str:
    """A word without splitting and patterns, as in an assignment."""
    return "".join(text for text, _ in _pieces(word, scope))


def _escaped(text: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", text)


Piece = tuple[str, bool]
"""A text, and whether it was quoted: then it is neither split nor a pattern."""


def _pieces(word: str, scope: Scope) -> list[Piece]:
    found: list[Piece] = []
    at = 0
    while at < len(word):
        one = word[at]
        if one == "\\":
            found.append((word[at + 1 : at + 2], True))
            at += 2
        elif one == "'":
            end = _closing(word, at)
            found.append((word[at + 1 : end - 1], True))
            at = end
        elif one == '"':
            end = _closing(word, at)
            found.append((_in_quotes(word[at + 1 : end - 1], scope), True))
            at = end
        elif one in "$`":
            value, at = _value(word, at, scope)
            found.append((value, False))
        else:
            end = next((i for i in range(at, len(word)) if word[i] in "\\'\"$`"), len(word))
            # What was written is never split, only what came out of a variable.
            found.append((word[at:end], False))
            at = end
    return found


def _in_quotes(text: str, scope: Scope) -> str:
    found, at = "", 0
    while at < len(text):
        if text[at] == "\\" and text[at + 1 : at + 2] in tuple('$`"\\'):
            found, at = found + text[at + 1], at + 2
        elif text[at] in "$`":
            value, at = _value(text, at, scope)
            found += value
        else:
            found, at = found + text[at], at + 1
    return found


def _value(word: str, at: int, scope: Scope) -> tuple[str, int]:
    """What a `$` or a backquote at `at` stands for, and where the word goes on."""
    if word[at] == "`":
        end = _closing(word, at)
        return scope.substitute(word[at + 1 : end - 1]), end
    if word.startswith("$((", at):
        raise ShellError("simulated rack: arithmetic `$((` is not supported here")
    if word.startswith("$(", at):
        end = _bracket_end(word, at + 1)
        return scope.substitute(word[at + 2 : end - 1]), end
    if word.startswith("${", at):
        end = word.index("}", at)
        return _parameter(word[at + 2 : end], scope), end + 1
    if name := _NAME.match(word, at + 1):
        return scope.variables.get(name.group(0), ""), name.end()
    if word[at + 1 : at + 2] and word[at + 1] in _SPECIAL:
        return _special(word[at + 1], scope), at + 2
    return "$", at + 1


def _special(name: str, scope: Scope) -> str:
    arguments = scope.arguments
    if name.isdigit():
        return arguments[int(name)] if int(name) < len(arguments) else ""
    known = {"?": str(scope.status), "#": str(len(arguments) - 1), "$": "1", "!": ""}
    return known.get(name, " ".join(arguments[1:]))


def _parameter(text: str, scope: Scope) -> str:
    """What is in ${...}: a name, a length, or a name with a default."""
    if text.startswith("#"):
        return str(len(scope.variables.get(text[1:], "")))
    name, operator, other = re.match(r"(\w*|[?#@*$!])(:?[-=+?])?(.*)", text, re.S).groups("")  # type: ignore[union-attr]
    if other and not operator:
        raise ShellError(f"simulated rack: `${{{text}}}` is not supported here")
    value = scope.variables.get(name) if _NAME.fullmatch(name) else _special(name, scope)
    is_missing = not value if operator.startswith(":") else value is None
    if operator.endswith("+"):
        return "" if is_missing else _in_quotes(other, scope)
    if operator and is_missing:
        if operator.endswith("?"):
            raise ShellError(f"{name}: {other or 'parameter not set'}")
        return _in_quotes(other, scope)
    return value or ""


def _fields(pieces: list[Piece]) -> list[list[Piece]]:
    """Split unquoted text at white space."""
    fields: list[list[Piece]] = []
    current: list[Piece] = []
    for text, quoted in pieces:
        if quoted:
            current.append((text, True))
            continue
        parts = re.split(r"[ \t\n]+", text)
        for index, part in enumerate(parts):
            if index and current:
                fields.append(current)
                current = []
            if part:
                current.append((part, False))
    return [*fields, current] if current else fields
