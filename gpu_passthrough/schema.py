"""The JSON Schema of a whole Pulumi.<stack>.yaml, so that an editor completes and checks it.

`python -m gpu_passthrough.schema > schema/stack.schema.json` writes it. A value that is encrypted
is allowed wherever a secret is.
"""

from __future__ import annotations

import json
from typing import Any

from gpu_passthrough.config import NAMESPACE, Stack

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


def stack_file_schema() -> dict[str, Any]:
    """The schema of a stack file: the project's keys with their prefix, other keys left alone.

    No section is required, because defaults.yaml may give it.
    """
    model = _without_titles(_with_secrets(Stack.model_json_schema(by_alias=True)))
    sections = {f"{NAMESPACE}:{key}": value for key, value in model["properties"].items()}
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
