"""The official SDKs' own types: what each resource of the program may be given."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Union, get_args, get_origin

import pulumi_kubernetes as kubernetes
import pulumi_proxmoxve as proxmoxve
import pulumiverse_talos as talos
from pulumi import Output, _types
from pulumi_kubernetes.apps.v1.Deployment import DeploymentInitArgs
from pulumi_kubernetes.core.v1.Namespace import NamespaceInitArgs
from pulumi_kubernetes.core.v1.PersistentVolumeClaim import PersistentVolumeClaimInitArgs
from pulumi_kubernetes.core.v1.Secret import SecretInitArgs
from pulumi_kubernetes.core.v1.Service import ServiceInitArgs
from pulumi_kubernetes.helm.v3.Release import ReleaseArgs
from pulumi_kubernetes.node.v1.RuntimeClass import RuntimeClassInitArgs
from pulumi_kubernetes.node.v1.RuntimeClassPatch import RuntimeClassPatchArgs

ARGUMENTS: dict[str, type] = {
    "proxmoxve:download/file:File": proxmoxve.download.FileArgs,
    "proxmoxve:hardware/mapping/pci:Pci": proxmoxve.hardware.mapping.PciArgs,
    "proxmoxve:index/vmLegacy:VmLegacy": proxmoxve.VmLegacyArgs,
    "talos:cluster/kubeconfig:Kubeconfig": talos.cluster.KubeconfigArgs,
    "talos:imageFactory/schematic:Schematic": talos.imagefactory.SchematicArgs,
    "talos:machine/bootstrap:Bootstrap": talos.machine.BootstrapArgs,
    "talos:machine/configurationApply:ConfigurationApply": talos.machine.ConfigurationApplyArgs,
    "talos:machine/secrets:Secrets": talos.machine.SecretsArgs,
    "kubernetes:apps/v1:Deployment": DeploymentInitArgs,
    "kubernetes:core/v1:Namespace": NamespaceInitArgs,
    "kubernetes:core/v1:PersistentVolumeClaim": PersistentVolumeClaimInitArgs,
    "kubernetes:core/v1:Secret": SecretInitArgs,
    "kubernetes:core/v1:Service": ServiceInitArgs,
    "kubernetes:helm.sh/v3:Release": ReleaseArgs,
    "kubernetes:node.k8s.io/v1:RuntimeClass": RuntimeClassInitArgs,
    "kubernetes:node.k8s.io/v1:RuntimeClassPatch": RuntimeClassPatchArgs,
    "pulumi:providers:kubernetes": kubernetes.ProviderArgs,
    "pulumi:providers:proxmoxve": proxmoxve.ProviderArgs,
    "pulumi:providers:talos": talos.ProviderArgs,
}
"""The SDK's arguments of every resource that the program may register."""


def problems(token: str, inputs: Mapping[str, Any]) -> list[str]:
    """What the SDK's types say against a resource's inputs; a token that it lacks is a problem."""
    if token not in ARGUMENTS:
        return [f"{token}: no resource that this project uses of an official SDK"]
    return list(_object(ARGUMENTS[token], inputs, token))


@cache
def _table(kind: type) -> tuple[dict[str, Any], frozenset[str]]:
    """Wire name → type of an arguments class, and the names that are required."""
    names = _types.input_type_py_to_pulumi_names(kind)
    parameters = inspect.signature(kind).parameters.values()
    required = {one.name for one in parameters if one.default is inspect.Parameter.empty}
    return _types.input_type_types(kind), frozenset(names[n] for n in required & names.keys())


def _object(kind: type, value: Any, at: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{at}: {value!r} is not an object"
        return
    types, required = _table(kind)
    for name in value.keys() - types.keys():
        yield f"{at}.{name}: the official SDK does not know it"
    for name in required:
        if value.get(name) is None:
            yield f"{at}.{name}: required"
    for name, one in value.items():
        if name in types and one is not None:
            yield from _value(types[name], one, f"{at}.{name}")


def _value(kind: Any, value: Any, at: str) -> Iterator[str]:
    kinds = list(_plain(kind))
    found = [list(_of(one, value, at)) for one in kinds]
    if found and all(found):
        yield from min(found, key=len)


def _plain(kind: Any) -> Iterator[Any]:
    """The types that an input may have, without awaitables and outputs around them."""
    if get_origin(kind) is Union:
        for one in get_args(kind):
            yield from _plain(one)
    elif (
        kind is not type(None)
        and get_origin(kind) is not Output
        and "Awaitable" not in str(kind)[:30]
    ):
        yield kind


def _of(kind: Any, value: Any, at: str) -> Iterator[str]:
    origin = get_origin(kind)
    if isinstance(kind, type) and _types.is_input_type(kind):
        yield from _object(kind, value, at)
    elif origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            yield f"{at}: {value!r} is not a map"
        else:
            for key, one in value.items():
                yield from _value(get_args(kind)[1], one, f"{at}.{key}")
    elif origin is not None and issubclass(origin, Sequence):
        if not isinstance(value, list):
            yield f"{at}: {value!r} is not a list"
        else:
            for number, one in enumerate(value):
                yield from _value(get_args(kind)[0], one, f"{at}[{number}]")
    elif kind in (str, bool, int, float) and not _is_scalar(kind, value):
        yield f"{at}: {value!r} is not of type {kind.__name__}"


def _is_scalar(kind: type, value: Any) -> bool:
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if kind is str:
        return isinstance(value, str)
    return isinstance(value, (int, float)) and (kind is float or float(value).is_integer())
