"""The plugin's schema as Pulumi's own tools read it, for example to write code for an import."""

from __future__ import annotations

import json
from typing import Any

from rack.plugins.contract import Properties, Property, Schema, Signature

Spec = dict[str, Any]


def package_schema(schema: Schema) -> str:
    """Write `schema` as a Pulumi package schema, in JSON."""
    types = {_token(schema, name): _object(schema, table) for name, table in schema.types.items()}
    document = {
        "name": schema.package,
        "version": schema.version,
        "provider": _resource(schema, Signature(schema.provider, schema.provider)),
        "resources": {token: _resource(schema, s) for token, s in schema.resources.items()},
        "functions": {
            token: {"inputs": _object(schema, s.inputs), "outputs": _object(schema, s.outputs)}
            for token, s in schema.functions.items()
        },
        "types": {token: {**spec, "type": "object"} for token, spec in types.items()},
    }
    return json.dumps(document)


def _resource(schema: Schema, signature: Signature) -> Spec:
    inputs = _object(schema, signature.inputs)
    return {
        "inputProperties": inputs["properties"],
        "requiredInputs": inputs["required"],
        "properties": _object(schema, signature.outputs)["properties"],
    }


def _object(schema: Schema, properties: Properties) -> Spec:
    return {
        "properties": {name: _property(schema, rule) for name, rule in properties.items()},
        "required": [name for name, rule in properties.items() if rule.required],
    }


def _property(schema: Schema, rule: Property) -> Spec:
    return {**_type(schema, rule.type), **({"secret": True} if rule.secret else {})}


def _type(schema: Schema, kind: str) -> Spec:
    if kind.startswith("["):
        return {"type": "array", "items": _type(schema, kind[1:-1])}
    if kind.startswith("{"):
        return {"type": "object", "additionalProperties": _type(schema, kind[1:-1])}
    return {"$ref": f"#/types/{_token(schema, kind)}"} if kind in schema.types else {"type": kind}


def _token(schema: Schema, name: str) -> str:
    return f"{schema.package}:index/{name}:{name}"
