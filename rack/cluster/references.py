"""What a pod refers to in its namespace and cannot start without: ConfigMaps and Secrets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

Reference = tuple[str, str]
"""Kind in lower case as kubelets write it, and name."""
_VOLUME_KEYS: Final = (("configMap", "configmap", "name"), ("secret", "secret", "secretName"))
_ENV_FROM: Final = (("configMapRef", "configmap"), ("secretRef", "secret"))
_VALUE_FROM: Final = (("configMapKeyRef", "configmap"), ("secretKeyRef", "secret"))


def missing_volume(pod: Mapping[str, Any], known: Collection[Reference]) -> tuple[str, str]:
    """Volume whose source does not exist, and what the kubelet says; empty where all do."""
    for volume in pod["spec"].get("volumes") or ():
        for kind, name in _volume_sources(volume):
            if (kind, name) not in known:
                return volume["name"], f'{kind} "{name}" not found'
    return "", ""


def _volume_sources(volume: Mapping[str, Any]) -> Iterator[Reference]:
    for key, kind, name in _VOLUME_KEYS:
        if (one := volume.get(key)) and not one.get("optional"):
            yield kind, one[name]
    for source in (volume.get("projected") or {}).get("sources") or ():
        for key, kind, _ in _VOLUME_KEYS:
            if (one := source.get(key)) and not one.get("optional"):
                yield kind, one["name"]


def missing_variable(container: Mapping[str, Any], known: Collection[Reference]) -> str:
    """What the kubelet says of a container's variable whose source does not exist."""
    for source in container.get("envFrom") or ():
        for key, kind in _ENV_FROM:
            one = source.get(key) or {}
            if _is_missing(one, kind, known):
                return f'{kind} "{one["name"]}" not found'
    for variable in container.get("env") or ():
        for key, kind in _VALUE_FROM:
            one = (variable.get("valueFrom") or {}).get(key) or {}
            if _is_missing(one, kind, known):
                return f'{kind} "{one["name"]}" not found'
    return ""


def _is_missing(one: Mapping[str, Any], kind: str, known: Collection[Reference]) -> bool:
    return bool(one) and not one.get("optional") and (kind, one["name"]) not in known
