"""The table of endpoints: path, parameters, permission, and the function that answers.

As in Proxmox VE the permission is checked first, then the parameters, then the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from rack.world.datacenter import Datacenter
from rack.world.errors import Refused, invalid
from rack.world.host import Host
from rack.world.propertystring import Key, is_true

UNKNOWN: Final = (
    "property is not defined in schema and the schema does not allow additional properties"
)
NODE: Final = Key(pattern=r"[a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?")
VMID: Final = Key("integer", minimum=100, maximum=999_999_999)
CONFIG_ID: Final = Key(pattern=r"[A-Za-z][A-Za-z0-9_-]+")
STORAGE: Final = Key(pattern=r"[A-Za-z][A-Za-z0-9\-_.]*[A-Za-z0-9]")
BOOLEAN: Final = Key("boolean")
PATH_KEYS: Final = {"node": NODE, "vmid": VMID, "id": CONFIG_ID, "storage": STORAGE}
"""Rules of what stands in paths; anything else there is any text."""


@dataclass
class Call:
    """One request that was understood: who asks what of which world."""

    world: Datacenter
    who: str
    now: float
    values: dict[str, list[str]] = field(default_factory=dict)
    """Parameters of path, query and body; more than one value only of arrays."""

    def text(self, name: str, default: str = "") -> str:
        """A parameter's text."""
        return self.values[name][-1] if name in self.values else default

    def number(self, name: str) -> int:
        """A parameter's whole number."""
        return int(self.text(name))

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A boolean parameter."""
        return is_true(self.text(name)) if name in self.values else default

    @property
    def host(self) -> Host:
        """The host that the path names."""
        return self.world.host(self.text("node"))

    def has(self, path: str, privilege: str) -> bool:
        """Whether the caller has a privilege."""
        return self.world.access.has(self.who, path, privilege)

    def require(self, path: str, *privileges: str) -> None:
        """Demand all of the privileges."""
        self.world.access.check(self.who, path, *privileges)

    def require_any(self, path: str, *privileges: str) -> None:
        """Demand one of the privileges."""
        self.world.access.check_any(self.who, path, privileges)


Handler = Callable[[Call], Any]
Check = Callable[[Call], None]


@dataclass(frozen=True)
class Endpoint:
    """One method of one path."""

    handler: Handler
    parameters: Mapping[str, Key]
    arrays: frozenset[str]
    """Parameters that may be repeated."""
    allow: Check
    is_option: Callable[[str], Key | None]
    """Rules of parameters that have no row of their own, such as a VM's options."""

    def check(self, call: Call) -> None:
        """Check the parameters.

        Raises:
            Refused: 400, with what is wrong of each one.
        """
        errors: dict[str, str] = {}
        for name, values in call.values.items():
            rule = self.parameters.get(name) or PATH_KEYS.get(name) or self.is_option(name)
            if rule is None:
                errors[name] = UNKNOWN
            elif len(values) > 1 and name not in self.arrays:
                errors[name] = f"type check ('{rule.kind}') failed - got ARRAY"
            elif problem := next((p for v in values if (p := rule.problem(v))), ""):
                errors[name] = problem
        for name, rule in self.parameters.items():
            if rule.required and name not in call.values:
                errors[name] = "property is missing and it is not optional"
        if errors:
            refusal = invalid()
            refusal.errors = errors
            raise refusal


_TABLE: list[tuple[str, re.Pattern[str], Endpoint]] = []


def everyone(call: Call) -> None:
    """Any user that is who he says he is."""


def on(path: str, *privileges: str) -> Check:
    """Demand all of the privileges on a path, whose names in braces are parameters."""
    return lambda call: call.require(_fill(path, call), *privileges)


def any_on(path: str, *privileges: str) -> Check:
    """Demand one of the privileges on a path."""
    return lambda call: call.require_any(_fill(path, call), *privileges)


def _fill(path: str, call: Call) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: call.text(found[1]), path)


def endpoint(
    method: str,
    path: str,
    allow: Check = everyone,
    *,
    parameters: Mapping[str, Key] | None = None,
    arrays: frozenset[str] = frozenset(),
    is_option: Callable[[str], Key | None] = lambda name: None,
) -> Callable[[Handler], Handler]:
    """Enter a function as the answer to a method of a path.

    A name in braces is one step of the path; with a star at its end it is all the rest, because
    the names of volumes contain slashes.
    """

    def enter(handler: Handler) -> Handler:
        steps = re.sub(r"\{(\w+)\*\}", r"(?P<\1>.+)", re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))
        names = re.findall(r"\{(\w+)\*?\}", path)
        known = {**{n: PATH_KEYS.get(n, Key()) for n in names}, **(parameters or {})}
        entry = Endpoint(handler, known, arrays, allow, is_option)
        _TABLE.append((method, re.compile(steps), entry))
        return handler

    return enter


def find(method: str, path: str) -> tuple[Endpoint, dict[str, str]]:
    """The endpoint of a path below `/api2/json`, and what stands in the path.

    Raises:
        Refused: 501, there is none.
    """
    for of_method, steps, entry in _TABLE:
        found = steps.fullmatch(path) if of_method == method else None
        if found:
            return entry, {name: unquote(text) for name, text in found.groupdict().items()}
    raise Refused(f"Method '{method} {unquote(path)}' not implemented\n", status=501)
