"""The contract of a Pulumi plugin: its schema, strict checks, defaults, plain values.

A plugin's schema is a JSON file in `schemas/`. It states facts about the official plugin: names,
types, what is required or secret, what forces a replacement, what the plugin defaults. A property
is one string, `TYPE [FLAG...] [= DEFAULT]`:

- TYPE is `string`, `boolean`, `integer`, `number`, the name of a type in `types`, `[TYPE]` for a
  list or `{TYPE}` for a map.
- `required` and `secret` mean what they say.
- `computed`: the plugin fills it in when the program leaves it out, so leaving it out is no change.
- `replaces`: changing it needs a new resource.
- `key=NAME+NAME`: the list's objects are told apart by those properties, not by their order.
- `unordered`: the order of the list's scalars means nothing.
- `matches=REGEX`: the whole string must match (no spaces in the expression).
- `range=LOW..HIGH`: the number's bounds, both allowed.
- DEFAULT is JSON.

Values cross the protocol as `PropertyValue`; inside a plugin they are plain Python values, with
`UNKNOWN` for what a preview cannot know yet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from pulumi.provider.experimental.property_value import Computed, PropertyValue
from pulumi.provider.experimental.provider import CheckFailure

SCHEMAS: Final = Path(__file__).parent / "schemas"
SCALARS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
UNKNOWN_WIRE: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
# The engine has one marker for each type of a value that it does not know yet.
UNKNOWN_WIRES: Final = frozenset(
    {
        UNKNOWN_WIRE,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)

Plain = dict[str, Any]
"""A resource's properties as plain Python values."""


class Unknown:
    """The value of an output that exists only after `up`."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


class PluginError(Exception):
    """What the plugin tells the user: what failed, where, why, and what to do."""


class PartialCreationError(PluginError):
    """The resource exists but is not ready: the engine keeps it in the state and reports `reason`.

    Raised by update and read as well, with the properties the resource really has.
    """

    def __init__(self, resource_id: str, outputs: Plain, inputs: Plain, reason: str) -> None:
        super().__init__(reason)
        self.resource_id = resource_id
        self.outputs = outputs
        self.inputs = inputs
        self.reason = reason


@dataclass(frozen=True)
class Property:
    """One property of a schema: its type and the rules that go with it."""

    type: str
    flags: frozenset[str] = frozenset()
    default: Any = None

    @classmethod
    def parse(cls, text: str) -> Property:
        """Read the notation described at the top of this module."""
        rule, _, default = text.partition(" = ")
        kind, *flags = rule.split()
        return cls(kind, frozenset(flags), json.loads(default) if default else None)

    @property
    def required(self) -> bool:
        """Whether a program must set it."""
        return "required" in self.flags

    @property
    def secret(self) -> bool:
        """Whether its value is a secret in the state."""
        return "secret" in self.flags

    @property
    def computed(self) -> bool:
        """Whether the plugin fills it in when the program leaves it out."""
        return "computed" in self.flags

    @property
    def replaces(self) -> bool:
        """Whether a change of it needs a new resource."""
        return "replaces" in self.flags

    @property
    def unordered(self) -> bool:
        """Whether the order of its elements means nothing."""
        return "unordered" in self.flags

    @property
    def key(self) -> tuple[str, ...]:
        """The properties that tell the elements of its list apart; empty when position does."""
        return tuple(self._option("key").split("+")) if self._option("key") else ()

    @property
    def pattern(self) -> str:
        """The expression that its whole value must match, or an empty string."""
        return self._option("matches")

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The lowest and highest number allowed."""
        low, _, high = self._option("range").partition("..")
        return (int(low), int(high)) if high else None

    def _option(self, name: str) -> str:
        prefix = f"{name}="
        return next((f.removeprefix(prefix) for f in self.flags if f.startswith(prefix)), "")

    @property
    def element(self) -> str | None:
        """The type of the elements, for a list or a map."""
        return self.type[1:-1] if self.type[0] in "[{" else None


Properties = Mapping[str, Property]


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a resource or a function; a resource's outputs include its inputs."""

    inputs: Properties
    outputs: Properties


@dataclass(frozen=True)
class Schema:
    """Facts about one official plugin."""

    package: str
    version: str
    provider: Properties
    resources: Mapping[str, Signature]
    functions: Mapping[str, Signature]
    types: Mapping[str, Properties] = field(repr=False)

    @classmethod
    @cache
    def load(cls, package: str) -> Schema:
        """Read `schemas/<package>.json`."""
        facts = json.loads((SCHEMAS / f"{package}.json").read_text())
        resources = {}
        for token, table in facts["resources"].items():
            inputs = _table(table["inputs"])
            resources[token] = Signature(inputs, {**inputs, **_table(table["outputs"])})
        return cls(
            package=facts["package"],
            version=facts["version"],
            provider=_table(facts["provider"]),
            resources=resources,
            functions={
                token: Signature(_table(table["inputs"]), _table(table["outputs"]))
                for token, table in facts["functions"].items()
            },
            types={name: _table(table) for name, table in facts["types"].items()},
        )

    def resource(self, token: str) -> Signature:
        """Return the signature of a resource type, or refuse one that the stand-in lacks.

        The type may be qualified by its parents' as in a URN, `my:module:Parent$pkg:module:Type`.
        """
        return self._known(self.resources, own_type(token), "resource")

    def function(self, token: str) -> Signature:
        """Return the signature of a function, or refuse one that the stand-in lacks."""
        return self._known(self.functions, token, "function")

    def _known(self, table: Mapping[str, Signature], token: str, what: str) -> Signature:
        if token not in table:
            raise PluginError(
                f"the simulated rack's {self.package} plugin has no {what} {token}; "
                f"it has {', '.join(sorted(table))}"
            )
        return table[token]

    def check(self, properties: Properties, values: Plain) -> list[CheckFailure]:
        """Find everything in `values` that `properties` do not allow, by property path."""
        failures = _object_failures(self.types, properties, values, "")
        return [CheckFailure(property=path, reason=reason) for path, reason in failures]

    def with_defaults(self, properties: Properties, values: Plain) -> Plain:
        """Return `values` without nulls and with the defaults of all absent properties."""
        filled = {name: value for name, value in values.items() if value is not None}
        for name, rule in properties.items():
            if name not in filled and rule.default is not None:
                filled[name] = rule.default
            if name in filled:
                filled[name] = self._value_with_defaults(rule.type, filled[name])
        return filled

    def _value_with_defaults(self, kind: str, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value_with_defaults(kind[1:-1], item) for item in value]
        if kind in self.types and isinstance(value, dict):
            return self.with_defaults(self.types[kind], value)
        return value

    def encode(self, properties: Properties, values: Plain) -> dict[str, PropertyValue]:
        """Turn plain values into the protocol's, secrets marked as the schema says."""
        return {
            name: self._encode_value(properties.get(name, Property("string")), value)
            for name, value in values.items()
        }

    def _encode_value(self, rule: Property, value: Any) -> PropertyValue:
        encoded: PropertyValue
        if isinstance(value, Unknown):
            encoded = PropertyValue(UNKNOWN_WIRE)
        elif isinstance(value, bool) or value is None or isinstance(value, str):
            encoded = PropertyValue(value)
        elif isinstance(value, int | float):
            encoded = PropertyValue(float(value))
        elif isinstance(value, list):
            element = Property(rule.element or "string")
            encoded = PropertyValue([self._encode_value(element, item) for item in value])
        elif rule.type in self.types:
            encoded = PropertyValue(self.encode(self.types[rule.type], value))
        else:
            element = Property(rule.element or "string")
            encoded = PropertyValue({k: self._encode_value(element, v) for k, v in value.items()})
        return encoded.with_secret(True) if rule.secret else encoded


def _table(rules: Mapping[str, str]) -> dict[str, Property]:
    return {name: Property.parse(text) for name, text in rules.items()}


def own_type(qualified: str) -> str:
    """Return a resource's own type from a URN's, which has those of its parents in front."""
    return qualified.rpartition("$")[2]


def decode(values: Mapping[str, PropertyValue]) -> Plain:
    """Turn the protocol's values into plain ones: whole numbers are int, unknown is `UNKNOWN`."""
    return {name: _decode_value(value.value) for name, value in values.items()}


def _decode_value(value: Any) -> Any:
    if isinstance(value, Computed) or (isinstance(value, str) and value in UNKNOWN_WIRES):
        return UNKNOWN
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _decode_value(item.value) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_decode_value(item.value) for item in value]
    return value


def contains_unknown(value: Any) -> bool:
    """Tell whether a plain value is or holds `UNKNOWN`."""
    if isinstance(value, Mapping):
        return any(contains_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(contains_unknown(item) for item in value)
    return isinstance(value, Unknown)


Failures = Iterator[tuple[str, str]]


def _object_failures(
    types: Mapping[str, Properties], properties: Properties, values: Plain, at: str
) -> Failures:
    for name, value in values.items():
        if name not in properties:
            known = ", ".join(sorted(properties)) or "none"
            yield at + name, f"unknown property {at + name!r}; known here: {known}"
        elif value is not None:
            rule = properties[name]
            yield from _value_failures(types, rule.type, value, at + name)
            yield from _rule_failures(rule, value, at + name)
    for name, rule in properties.items():
        if rule.required and values.get(name) is None:
            yield at + name, f"missing required property {at + name!r}"


def _value_failures(types: Mapping[str, Properties], kind: str, value: Any, path: str) -> Failures:
    if isinstance(value, Unknown):
        return
    if kind[0] == "[" and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _value_failures(types, kind[1:-1], item, f"{path}[{index}]")
    elif kind[0] == "{" and isinstance(value, dict):
        for name, item in value.items():
            yield from _value_failures(types, kind[1:-1], item, f"{path}.{name}")
    elif kind in types and isinstance(value, dict):
        yield from _object_failures(types, types[kind], value, f"{path}.")
    elif not _is_scalar(kind, value):
        yield path, f"{path!r} must be {_spelled(kind)}, not {_described(value)}"


def _rule_failures(rule: Property, value: Any, path: str) -> Failures:
    # Secrets are never quoted: a failure is printed and logged.
    shown = "the value given" if rule.secret else repr(value)
    if rule.pattern and isinstance(value, str) and not re.fullmatch(rule.pattern, value):
        yield path, f"{path!r} must match {rule.pattern}, not {shown}"
    if rule.bounds and _is_scalar("number", value):
        low, high = rule.bounds
        if not low <= value <= high:
            yield path, f"{path!r} must be between {low} and {high}, not {shown}"


def _is_scalar(kind: str, value: Any) -> bool:
    # A bool is an int in Python, never in the schema.
    return isinstance(value, SCALARS.get(kind, ())) and (
        kind == "boolean" or not isinstance(value, bool)
    )


def _spelled(kind: str) -> str:
    if kind[0] == "[":
        return f"a list of {kind[1:-1]}"
    if kind[0] == "{":
        return f"a map of {kind[1:-1]}"
    return f"of type {kind}" if kind in SCALARS else f"an object of type {kind}"


def _described(value: Any) -> str:
    """Name the type of a value; never the value, which may be a secret."""
    names = {bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else "null")
