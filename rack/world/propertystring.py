"""Property strings of Proxmox VE: `mapping=gpu0,pcie=1`, checked against a table of keys.

Rules and messages are PVE::JSONSchema's: one key may lack its name (the default key), keys that a
format does not know are refused, each value is checked for its type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from rack.world.errors import Refused

Kind = Literal["string", "integer", "number", "boolean"]

TRUE: Final = frozenset(("1", "on", "yes", "true"))
FALSE: Final = frozenset(("0", "off", "no", "false"))
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True)
class Key:
    """One value: of a key in a property string, or of a parameter of the API."""

    kind: Kind = "string"
    choices: tuple[str, ...] = ()
    pattern: str = ""
    """A regular expression that the whole value has to match."""
    minimum: float | None = None
    maximum: float | None = None
    longest: int | None = None
    """Most characters of a text."""
    required: bool = False

    def problem(self, value: str) -> str:
        """What PVE says about a value of this key; empty when it is fine."""
        if self.kind == "boolean":
            wrong = value.lower() not in TRUE | FALSE
        elif self.kind == "integer":
            wrong = not re.fullmatch(r"[+-]?\d+", value)
        else:
            wrong = self.kind == "number" and not _NUMBER.fullmatch(value)
        if wrong:
            return f"type check ('{self.kind}') failed - got '{value}'"
        return self._text_problem(value) if self.kind == "string" else self._range_problem(value)

    def _text_problem(self, value: str) -> str:
        if self.pattern and not re.fullmatch(self.pattern, value):
            return "value does not match the regex pattern"
        if self.longest is not None and len(value) > self.longest:
            return f"value may only be {self.longest} characters long"
        if self.choices and value not in self.choices:
            allowed = ", ".join(self.choices)
            return f"value '{value}' does not have a value in the enumeration '{allowed}'"
        return ""

    def _range_problem(self, value: str) -> str:
        if self.minimum is not None and float(value) < self.minimum:
            return f"value must have a minimum value of {self.minimum:g}"
        if self.maximum is not None and float(value) > self.maximum:
            return f"value must have a maximum value of {self.maximum:g}"
        return ""


@dataclass(frozen=True)
class Format:
    """The keys of a property string."""

    keys: Mapping[str, Key]
    default: str = ""
    """The key of a value that is written without one."""
    aliases: Mapping[str, str] | None = None
    """Other names of keys."""

    def parse(self, text: str) -> dict[str, str]:
        """Split and check a property string.

        Raises:
            Refused: in PVE's words, for a key that the format does not have or a wrong value.
        """
        pairs: dict[str, str] = {}
        for part in text.split(","):
            if part.strip():
                key, value = self._pair(part)
                if key in pairs:
                    raise Refused(f"duplicate key in comma-separated list property: {key}\n")
                pairs[key] = value
        problems = [f"{key}: {p}" for key, v in pairs.items() if (p := self.keys[key].problem(v))]
        missing = [key for key, rule in self.keys.items() if rule.required and key not in pairs]
        problems += [f"{key}: property is missing and it is not optional" for key in missing]
        if problems:
            raise Refused("format error\n" + "".join(f"{problem}\n" for problem in problems))
        return pairs

    def _pair(self, part: str) -> tuple[str, str]:
        name, separator, value = part.partition("=")
        if not separator:
            if not self.default:
                raise Refused("value without key, but schema does not define a default key\n")
            return self.default, part
        key = (self.aliases or {}).get(name, name)
        if not name or not value:
            raise Refused("missing key in comma-separated list property\n")
        if key not in self.keys:
            raise Refused(f"invalid key in comma-separated list property: {name}\n")
        return key, value

    def write(self, pairs: Mapping[str, str]) -> str:
        """Join pairs as PVE prints them: the default key first and bare, then by name."""
        first = [pairs[self.default]] if self.default in pairs else []
        rest = [f"{key}={pairs[key]}" for key in sorted(pairs) if key != self.default]
        return ",".join(first + rest)


def is_true(value: str | int | None) -> bool:
    """A boolean as PVE writes it."""
    return str(value).lower() in TRUE


def split_list(text: str) -> list[str]:
    """Entries of a list as PVE takes them: separated by commas, semicolons, blanks or NUL."""
    return [entry for entry in re.split(r"[,;\s\0]+", text) if entry]


def keys(names: Iterable[str] = (), **special: Key) -> dict[str, Key]:
    """A table of keys: plain texts by `names`, others by keyword, `_` standing for a dash."""
    return {
        **{name: Key() for name in names},
        **{name.replace("_", "-"): key for name, key in special.items()},
    }
