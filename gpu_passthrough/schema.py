"""The JSON Schema of a whole Pulumi.<stack>.yaml, so that an editor completes and checks it.

`python -m gpu_passthrough.schema > schema/stack.schema.json` writes it. A value that is encrypted
is allowed wherever a secret is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu_passthrough.config import NAMESPACE, Stack
from gpu_passthrough.load import PROJECT, defaults

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SECURE = {
    "type": "object",
    "description": "A secret, as `pulumi config set --secret` writes it.",
    "properties": {"secure": {"type": "string"}},
    "required": ["secure"],
    "additionalProperties": False,
}
FILE_PROPERTIES = {
    "environment": {"description": "Pulumi ESC environments."},
    "encryptionsalt": {"type": "string"},
    "encryptedkey": {"type": "string"},
    "secretsprovider": {"type": "string"},
}


def _with_secrets(schema: Any) -> Any:
    """Allow the encrypted form of every secret."""
    if isinstance(schema, list):
        return [_with_secrets(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "password":
        rest = {k: v for k, v in schema.items() if k not in {"format", "writeOnly", "type"}}
        return {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Secure"}], **rest}
    return {key: _with_secrets(one) for key, one in schema.items()}


def _as_pulumi_writes(section: dict[str, Any]) -> dict[str, Any]:
    """Allow a plain value of a whole key as text: Pulumi writes it so when it saves the file."""
    if section.get("type") != "boolean":
        return section
    rest = {key: value for key, value in section.items() if key != "type"}
    return {"anyOf": [{"type": "boolean"}, {"enum": ["true", "false"]}], **rest}


def _without_titles(schema: Any) -> Any:
    """Leave out the titles that only repeat a key."""
    if isinstance(schema, list):
        return [_without_titles(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    keep = {
        key: one for key, one in schema.items() if not (key == "title" and isinstance(one, str))
    }
    return {key: _without_titles(one) for key, one in keep.items()}


def _closed(schema: Any) -> Any:
    """Refuse names that a map's pattern does not allow; the generator leaves them open."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(one) for key, one in schema.items()}
    return closed | {"additionalProperties": False} if "patternProperties" in schema else closed


def _not_required(model: dict[str, Any], schema: dict[str, Any], given: Any) -> None:
    """What the defaults give need not stand in a stack file."""
    for choice in schema.get("anyOf", []):
        _not_required(model, choice, given)
    if "$ref" in schema:
        _not_required(model, model["$defs"][schema["$ref"].rsplit("/", 1)[1]], given)
    if not isinstance(given, dict):
        return
    needed = [key for key in schema.get("required", []) if key not in given]
    if "required" in schema:
        schema["required"] = needed
    items = list(schema.get("patternProperties", {}).values())
    for key, value in given.items():
        part = schema.get("properties", {}).get(key)
        for one in [part] if part else items:
            _not_required(model, one, value)


def stack_file_schema(folder: Path = PROJECT) -> dict[str, Any]:
    """The schema of a stack file: the project's keys with their prefix, other keys left alone.

    Required is what a section needs and the defaults in the folder do not give.
    """
    model = _closed(_without_titles(_with_secrets(Stack.model_json_schema(by_alias=True))))
    _not_required(model, model, defaults(folder))
    sections = {
        f"{NAMESPACE}:{key}": _as_pulumi_writes(value) for key, value in model["properties"].items()
    }
    config = {
        "type": "object",
        "properties": sections,
        "patternProperties": {f"^(?!{NAMESPACE}:)[^:]+:.+$": {}},
        "additionalProperties": False,
    }
    return {
        "$schema": DIALECT,
        "title": f"A stack file of {NAMESPACE}",
        "type": "object",
        "properties": {"config": config, **FILE_PROPERTIES},
        "additionalProperties": False,
        "$defs": {**model["$defs"], "Secure": SECURE},
    }


def text() -> str:
    """The schema as it is written to the file."""
    return json.dumps(stack_file_schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(text(), end="")
