"""A shell's grammar: from tokens to commands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from rack.programs.shell_words import ShellError, Token, tokens

_UNSUPPORTED: Final = ("while", "until", "case", "select", "function", "[[", "((")
_ENDS: Final = frozenset({"then", "else", "elif", "fi", "do", "done", "}"})
_REDIRECTIONS: Final = ("<", ">", ">>", ">&")


@dataclass
class Redirection:
    """Where a stream goes or comes from."""

    stream: int
    operator: str
    target: str
    """Written word: a file, or the number of a stream."""


@dataclass
class Simple:
    """A program or built-in with its words."""

    assignments: list[tuple[str, str]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)


@dataclass
class Group:
    """Commands in brackets; round ones keep their changes to themselves."""

    body: Sequence
    is_subshell: bool
    redirections: list[Redirection] = field(default_factory=list)


@dataclass
class If:
    """Conditions with what follows, and what follows else."""

    branches: list[tuple[Sequence, Sequence]]
    otherwise: Sequence | None
    redirections: list[Redirection] = field(default_factory=list)


@dataclass
class For:
    """A loop over words."""

    name: str
    words: list[str]
    body: Sequence
    redirections: list[Redirection] = field(default_factory=list)


Command = Simple | Group | If | For


@dataclass
class Pipeline:
    """Commands whose output goes to the next one."""

    commands: list[Command]
    is_negated: bool = False


@dataclass
class Sequence:
    """Pipelines, each with what has to be true of the status before: `;`, `&&` or `||`."""

    items: list[tuple[str, Pipeline]] = field(default_factory=list)


def parse(script: str) -> Sequence:
    """Read a script.

    Raises:
        ShellError: it cannot be understood.

    """
    parser = _Parser(tokens(script))
    found = parser.sequence(frozenset())
    if parser.at < len(parser.tokens):
        raise ShellError(f'Syntax error: "{parser.tokens[parser.at].text}" unexpected')
    return found


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self.tokens = found
        self.at = 0

    def peek(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def is_operator(self, *texts: str) -> bool:
        token = self.peek()
        return token is not None and token.is_operator and token.text in texts

    def is_word(self, *texts: str) -> bool:
        token = self.peek()
        return token is not None and not token.is_operator and token.text in texts

    def take(self) -> Token:
        token = self.peek()
        if token is None:
            raise ShellError("Syntax error: end of file unexpected")
        self.at += 1
        return token

    def expect(self, text: str) -> None:
        token = self.take()
        if token.text != text:
            raise ShellError(f'Syntax error: "{token.text}" unexpected (expecting "{text}")')

    def sequence(self, ends: frozenset[str]) -> Sequence:
        found = Sequence()
        condition = ";"
        while True:
            while self.is_operator(";", "\n"):
                self.take()
            if self.peek() is None or self.is_operator(")") or self.is_word(*ends):
                return found
            found.items.append((condition, self.pipeline()))
            condition = ";"
            if self.is_operator("&&", "||"):
                condition = self.take().text
                while self.is_operator("\n"):
                    self.take()
            elif self.is_operator("&"):
                raise ShellError("simulated rack: background jobs are not supported here")
            elif not (self.peek() is None or self.is_operator(";", "\n", ")")):
                return found

    def pipeline(self) -> Pipeline:
        is_negated = self.is_word("!")
        if is_negated:
            self.take()
        commands = [self.command()]
        while self.is_operator("|"):
            self.take()
            commands.append(self.command())
        return Pipeline(commands, is_negated)

    def command(self) -> Command:
        found = self.compound() or self.simple()
        while (redirection := self.redirection()) is not None:
            found.redirections.append(redirection)
        return found

    def compound(self) -> Command | None:
        if self.is_word(*_UNSUPPORTED):
            raise ShellError(f"simulated rack: `{self.take().text}` is not supported here")
        if self.is_operator("("):
            self.take()
            body = self.sequence(frozenset())
            self.expect(")")
            return Group(body, is_subshell=True)
        if self.is_word("{"):
            self.take()
            body = self.sequence(_ENDS)
            self.expect("}")
            return Group(body, is_subshell=False)
        if self.is_word("if"):
            return self.condition()
        return self.loop() if self.is_word("for") else None

    def condition(self) -> If:
        self.take()
        branches: list[tuple[Sequence, Sequence]] = []
        otherwise = None
        while True:
            test = self.sequence(_ENDS)
            self.expect("then")
            branches.append((test, self.sequence(_ENDS)))
            word = self.take().text
            if word == "elif":
                continue
            if word == "else":
                otherwise = self.sequence(_ENDS)
                word = self.take().text
            if word != "fi":
                raise ShellError(f'Syntax error: "{word}" unexpected (expecting "fi")')
            return If(branches, otherwise)

    def loop(self) -> For:
        self.take()
        name = self.take().text
        words: list[str] = ['"$@"']
        if self.is_word("in"):
            self.take()
            words = []
            while not self.is_operator(";", "\n"):
                words.append(self.take().text)
        while self.is_operator(";", "\n"):
            self.take()
        self.expect("do")
        body = self.sequence(_ENDS)
        self.expect("done")
        return For(name, words, body)

    def simple(self) -> Simple:
        found = Simple()
        while True:
            redirection = self.redirection()
            if redirection is not None:
                found.redirections.append(redirection)
                continue
            token = self.peek()
            if token is None or token.is_operator:
                break
            name, equals, value = token.text.partition("=")
            if equals and name.isidentifier() and not found.words:
                found.assignments.append((name, value))
            else:
                found.words.append(token.text)
            self.take()
        if not (found.words or found.assignments or found.redirections):
            text = "end of file" if self.peek() is None else f'"{self.take().text}"'
            raise ShellError(f"Syntax error: {text} unexpected")
        return found

    def redirection(self) -> Redirection | None:
        token = self.peek()
        if token is None or not token.is_operator:
            return None
        digits = token.text[0] if token.text[0].isdigit() else ""
        operator = token.text[len(digits) :]
        if operator == "<<":
            raise ShellError("simulated rack: here-documents are not supported here")
        if operator not in _REDIRECTIONS:
            return None
        self.take()
        stream = int(digits) if digits else (0 if operator == "<" else 1)
        return Redirection(stream, operator, self.take().text)
