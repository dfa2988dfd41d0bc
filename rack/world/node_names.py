"""Rules for labels, annotations and taints of a node, as Talos checks and sorts them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_LIMIT: Final = 63
_DOMAIN_LIMIT: Final = 253
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")

OWNED_LABELS: Final = "talos.dev/owned-labels"
OWNED_ANNOTATIONS: Final = "talos.dev/owned-annotations"
OWNED_TAINTS: Final = "talos.dev/owned-taints"
"""Annotations in which Talos keeps what it set itself; nobody else may set them."""

CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"


def is_label_value(value: str) -> bool:
    """The text may be the value of a label; anything else Talos writes as an annotation."""
    return not value or (len(value) <= _NAME_LIMIT and bool(_NAME.fullmatch(value)))


def key_problem(key: str) -> str:
    """Why Kubernetes would not take the key of a label or annotation; empty when it would."""
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        return f'prefix cannot be empty: "{key}"'
    if slash and (len(prefix) > _DOMAIN_LIMIT or not _DOMAIN.fullmatch(prefix)):
        return f'prefix "{prefix}" is invalid: domain doesn\'t match required format: "{prefix}"'
    if not name:
        return f'name cannot be empty: "{key}"'
    if len(name) > _NAME_LIMIT:
        return f'name is too long: "{key}" (limit is {_NAME_LIMIT})'
    return "" if _NAME.fullmatch(name) else f'name "{name}" is invalid'


def labels_problems(labels: Mapping[str, Any]) -> list[str]:
    """What is wrong with a set of labels."""
    found = [key_problem(key) for key in sorted(labels)]
    found += [
        f'label value "{value}" is invalid'
        for _, value in sorted(labels.items())
        if not is_label_value(str(value if value is not None else ""))
    ]
    return [problem for problem in found if problem]


def annotations_problems(annotations: Mapping[str, Any]) -> list[str]:
    """What is wrong with a set of annotations."""
    found = [key_problem(key) for key in sorted(annotations)]
    reserved = sorted({OWNED_LABELS, OWNED_ANNOTATIONS, OWNED_TAINTS} & set(annotations))
    found += [f'annotation "{key}" is reserved' for key in reserved]
    return [problem for problem in found if problem]


def taints_problems(taints: Mapping[str, Any]) -> list[str]:
    """What is wrong with a set of taints, written as key: value:effect."""
    found = [key_problem(key) for key in sorted(taints)]
    found += [
        f'invalid taint effect "{effect}"'
        for _, text in sorted(taints.items())
        if (effect := split_taint(str(text))[1]) not in _EFFECTS
    ]
    return [problem for problem in found if problem]


def split_taint(text: str) -> tuple[str, str]:
    """Value and effect of a taint; the effect alone may be written."""
    value, colon, effect = text.partition(":")
    return (value, effect) if colon else ("", value)
