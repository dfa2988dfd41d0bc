"""The engine's events of a preview: what it would do, what policies say, what went wrong.

`pulumi preview --json` with PULUMI_ENABLE_STREAMING_JSON_PREVIEW prints one event a line, those
of policies included, which the plain `--json` leaves out. Secrets are masked by the engine; what
merely looks like one is masked here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from pullrequest.model import Op, Property, Violation, clip

OPS: Mapping[str, Op] = {
    "create": "create",
    "import": "import",
    "update": "update",
    "replace": "replace",
    "delete": "delete",
}
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""Pulumi's mark of a value that is known only afterwards."""
SECRET_MARK = "4dabf18193072939515e22adb298388d"  # noqa: S105 - the mark, not a secret
SECRET = "(secret)"  # noqa: S105 - what is shown instead of one
LATER = "(known afterwards)"
LIKE_A_SECRET = re.compile(r"passw|secret|token|api.?key|private.?key|credential", re.IGNORECASE)
LONGEST_VALUE = 110
STEP = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]|([^.\[\]]+)')
NOISE = re.compile(r"^(Resource monitor has terminated|(preview|update) failed$)")
"""Errors that only say that there was another."""
PROTECTED = re.compile(r"marked for protection|because it is protected")


@dataclass(frozen=True)
class Step:
    """What happens to one resource."""

    op: Op
    type: str
    name: str
    owner: str
    """Name of the component that it is part of."""
    custom: bool
    """A thing of its own: not a component, and a provider only where it is replaced."""
    properties: tuple[Property, ...] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Preview:
    """Everything that the engine said."""

    steps: list[Step] = field(default_factory=list)
    unchanged: int = 0
    known: bool = False
    """The state has resources of this stack."""
    violations: list[Violation] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    protected: list[str] = field(default_factory=list)
    """Resources that would have to go, and may not."""
    finished: bool = False


def name_of(urn: str) -> str:
    """The name at the end of a URN."""
    return urn.split("::", 3)[-1]


def path_steps(path: str) -> list[str | int]:
    """The keys and positions of a property path: `spec.containers[0].env["a.b"]`."""
    return [
        int(index) if index else key or quoted.replace('\\"', '"')
        for quoted, index, key in STEP.findall(path)
    ]


def _looks_secret(path: str, holders: list[Any]) -> bool:
    """Whether a value is called like a secret, or stands in an entry that is."""
    names = [one.get("name") for one in holders if isinstance(one, Mapping)]
    return any(LIKE_A_SECRET.search(str(one)) for one in [path, *names] if one)


def shown(value: Any) -> str | None:
    """A value in a few words; None where there is none."""
    if value is None:
        return None
    if isinstance(value, Mapping) and SECRET_MARK in value:
        return SECRET
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    if UNKNOWN in text:
        return LATER
    if SECRET_MARK in text or (not isinstance(value, str) and LIKE_A_SECRET.search(text)):
        return SECRET
    if len(text) > LONGEST_VALUE or "\n" in text:
        return f"({len(text)} characters)" if isinstance(value, str) else "(…)"
    return text


def value_at(values: Any, path: str) -> str | None:
    """What stands at a path, in a few words."""
    holders = []
    for step in path_steps(path):
        holders.append(values)
        if isinstance(values, Mapping):
            if SECRET_MARK in values:
                return SECRET
            values = values.get(str(step))
        elif isinstance(values, list) and isinstance(step, int) and step < len(values):
            values = values[step]
        else:
            return None
    if values is not None and _looks_secret(path, holders):
        return SECRET
    return shown(values)


def _properties(metadata: Mapping[str, Any]) -> Iterator[Property]:
    """The properties that differ: those of the detailed difference, else the top-level keys."""
    keys = set(metadata.get("keys") or ())
    detailed: Mapping[str, Any] = metadata.get("detailedDiff") or {}
    kinds = {path: str(one.get("diffKind", "")) for path, one in detailed.items()}
    kinds = kinds or dict.fromkeys([*keys, *(metadata.get("diffs") or ())], "")
    old, new = (metadata.get(side) or {} for side in ("old", "new"))
    for path, kind in sorted(kinds.items()):
        before = value_at(old.get("inputs"), path) or value_at(old.get("outputs"), path)
        yield Property(
            path=clip(path),
            forces=kind.endswith("-replace") or (not detailed and path in keys),
            before=None if kind.startswith("add") else before,
            after=None if kind.startswith("delete") else value_at(new.get("inputs"), path),
        )


def _step(metadata: Mapping[str, Any]) -> Step:
    side = metadata.get("new") or metadata.get("old") or {}
    kind = str(metadata["type"])
    provider = kind.startswith("pulumi:providers:") and metadata["op"] != "replace"
    return Step(
        op=OPS[metadata["op"]],
        type=kind,
        name=name_of(metadata["urn"]),
        owner=name_of(side.get("parent") or ""),
        custom=bool(side.get("custom")) and not provider,
        properties=tuple(_properties(metadata)) if metadata["op"] in ("update", "replace") else (),
        inputs=side.get("inputs") or {},
    )


def _resource(preview: Preview, metadata: Mapping[str, Any]) -> None:
    # A replacement is several physical steps and one logical one.
    if not metadata.get("logical"):
        return
    is_stack = metadata["type"] == "pulumi:pulumi:Stack"
    preview.known = preview.known or bool(metadata.get("old") and not is_stack)
    if metadata["op"] in OPS:
        preview.steps.append(_step(metadata))
    elif metadata["op"] == "same" and (metadata.get("new") or {}).get("custom"):
        preview.unchanged += not metadata["type"].startswith("pulumi:providers:")


def _policy(preview: Preview, event: Mapping[str, Any]) -> None:
    level = "mandatory" if event["enforcementLevel"] == "mandatory" else "advisory"
    # The first line is the rule's description, the rest is about this resource.
    message = str(event["message"]).strip()
    preview.violations.append(
        Violation(
            level=cast("Any", level),
            policy=clip(str(event["policyName"])),
            resource=clip(name_of(event.get("resourceUrn") or "")),
            message=clip(message.partition("\n")[2] or message),
        )
    )


def _diagnostic(preview: Preview, event: Mapping[str, Any]) -> None:
    message = str(event.get("message", "")).strip()
    if event.get("severity") != "error" or not message or NOISE.match(message):
        return
    urn = event.get("urn")
    if urn and PROTECTED.search(message):
        preview.protected.append(clip(name_of(urn)))
        return
    preview.errors.append(clip(f"{name_of(urn)}: {message}" if urn else message))


READERS = {
    "policyEvent": _policy,
    "diagnosticEvent": _diagnostic,
}


def read(lines: Iterable[str]) -> Preview:
    """Read the events of one preview; a line that is none is the engine's own complaint."""
    preview = Preview()
    for line in filter(None, map(str.strip, lines)):
        try:
            event = json.loads(line)
        except ValueError:
            if not line.startswith("warning:"):
                preview.errors.append(clip(line))
            continue
        if "resourcePreEvent" in event:
            _resource(preview, event["resourcePreEvent"]["metadata"])
        elif "summaryEvent" in event:
            preview.finished = event["summaryEvent"].get("result") == "succeeded"
        for name, reader in READERS.items():
            if name in event:
                reader(preview, event[name])
    return preview
