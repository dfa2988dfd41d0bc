"""A Talos machine configuration: several YAML documents, read as strictly as Talos does.

`load` refuses what Talos refuses of the documents' form; machine_config_rules checks what they
say. The class answers what the rest of the rack asks a configuration.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError

from rack.world.machine_config_structure import MAIN, Kind, Structure, kinds, write
from rack.world.releases import Release

Document = dict[str, Any]
Role = Literal["controlplane", "worker"]

_MAIN_KEYS: Final = frozenset({"version", "machine", "cluster", "debug", "persist"})
_ROLES: Final[dict[str, Role]] = {
    "init": "controlplane",
    "controlplane": "controlplane",
    "worker": "worker",
    "join": "worker",
}
_POD_SUBNET: Final = "10.244.0.0/16"
_SERVICE_SUBNET: Final = "10.96.0.0/12"
_APPLIED_AT_ONCE: Final = frozenset(
    {
        *("ca", "acceptedCAs", "certSANs", "install", "kernel", "kubelet", "controlPlane", "pods"),
        *("network", "time", "sysctls", "sysfs", "logging", "registries", "seccompProfiles"),
        *("nodeLabels", "nodeAnnotations", "nodeTaints"),
    }
)
"""Parts of `machine` that Talos changes without a reboot."""
_FEATURES_APPLIED_AT_ONCE: Final = frozenset(
    {
        "kubernetesTalosAPIAccess",
        "kubePrism",
        "hostDNS",
        "imageCache",
        "nodeAddressSortAlgorithm",
    }
)


class InvalidConfiguration(ValueError):  # noqa: N818 - Talos' own word
    """Talos refuses the configuration, in its own words."""


@dataclass(frozen=True)
class MachineConfig:
    """The documents of one machine."""

    documents: tuple[tuple[str, Document], ...]
    """Kind and content, in the order written; the main document's kind is v1alpha1."""

    def of_kind(self, kind: str) -> list[Document]:
        """All documents of a kind."""
        return [document for name, document in self.documents if name == kind]

    @property
    def main(self) -> Document:
        """The document with `machine` and `cluster`; empty where there is none."""
        return next(iter(self.of_kind(MAIN)), {})

    def at(self, *path: str) -> Any:
        """A value in the main document; None where any part of the path is absent."""
        node: Any = self.main
        for key in path:
            node = node.get(key) if isinstance(node, dict) else None
        return node

    @property
    def machine_type(self) -> str:
        """The type as written."""
        return str(self.at("machine", "type") or "")

    @property
    def role(self) -> Role | None:
        """The role that the type stands for; None for a type that Talos does not know."""
        return _ROLES.get(self.machine_type)

    @property
    def static_hostname(self) -> str:
        """The hostname that the configuration sets; empty where another source names it."""
        documents = (document.get("hostname") for document in self.of_kind("HostnameConfig"))
        return str(self.at("machine", "network", "hostname") or next(documents, "") or "")

    @property
    def automatic_hostname(self) -> Literal["stable", "off", "address"]:
        """How Talos makes up a hostname where no source names one."""
        for document in self.of_kind("HostnameConfig"):
            return "stable" if document.get("auto") == "stable" else "off"
        stable = self.at("machine", "features", "stableHostname")
        return "stable" if stable else "address"

    @property
    def static_addresses(self) -> list[str]:
        """IPv4 addresses that the configuration adds to the machine, without prefix length."""
        devices = self.at("machine", "network", "interfaces") or []
        found = [text for device in devices for text in _strings(device.get("addresses"))]
        for document in self.of_kind("LinkConfig"):
            entries = document.get("addresses") or []
            found += _strings([entry.get("address") for entry in entries])
        return [text.partition("/")[0] for text in found]

    @property
    def virtual_addresses(self) -> list[str]:
        """Addresses that the control plane nodes share; the machine holds them as well."""
        devices = self.at("machine", "network", "interfaces") or []
        found = [str((device.get("vip") or {}).get("ip", "")) for device in devices]
        found += [str(document.get("name", "")) for document in self.of_kind("Layer2VIPConfig")]
        return [address for address in found if address]

    @property
    def kernel_modules(self) -> frozenset[str]:
        """Names of the kernel modules that the configuration loads."""
        listed = self.at("machine", "kernel", "modules") or []
        documents = self.of_kind("KernelModuleConfig")
        return frozenset(str(module.get("name", "")) for module in [*listed, *documents])

    def image_version(self, *path: str) -> str:
        """The tag of an image in the main document, without v; empty where none is set."""
        _, found, version = str(self.at(*path) or "").rpartition(":v")
        return version.partition("@")[0] if found else ""

    def pem(self, *path: str) -> str:
        """A certificate or key of the main document as PEM text; empty where there is none."""
        return _text_of(self.at(*path))

    def accepted_certificates(self, part: Literal["machine", "cluster"]) -> str:
        """PEM of the authorities that the Talos or the Kubernetes API accepts, joined."""
        accepted = self.at(part, "acceptedCAs") or []
        extra = (_text_of(entry.get("crt")) for entry in accepted)
        return "".join([self.pem(part, "ca", "crt"), *extra])

    @property
    def cluster_name(self) -> str:
        """The cluster's name; Talos calls it `default` where nobody named it."""
        return str(self.at("cluster", "clusterName") or "default")

    @property
    def endpoint(self) -> str:
        """URL of the Kubernetes API."""
        return str(self.at("cluster", "controlPlane", "endpoint") or "")

    @property
    def pod_subnets(self) -> tuple[str, ...]:
        """Networks of the pods."""
        return tuple(_strings(self.at("cluster", "network", "podSubnets"))) or (_POD_SUBNET,)

    @property
    def service_subnets(self) -> tuple[str, ...]:
        """Networks of the services."""
        return tuple(_strings(self.at("cluster", "network", "serviceSubnets"))) or (
            _SERVICE_SUBNET,
        )

    @property
    def pod_security_default(self) -> str:
        """Pod security level outside kube-system; Kubernetes' own where no plugin is set."""
        for plugin in self.at("cluster", "apiServer", "admissionControl") or []:
            if plugin.get("name") == "PodSecurity":
                defaults = (plugin.get("configuration") or {}).get("defaults") or {}
                return str(defaults.get("enforce", "privileged"))
        return "privileged"

    def needs_reboot(self, new: MachineConfig) -> bool:
        """Changing to `new` touches what Talos reads only at boot."""
        return _fixed_part(self) != _fixed_part(new)


def _strings(values: list[Any] | None) -> list[str]:
    """The texts of a list; null stands for an empty one, which says nothing."""
    return [str(value) for value in values or [] if value not in (None, "")]


def _text_of(encoded: Any) -> str:
    return base64.b64decode(str(encoded or "")).decode(errors="replace")


def _fixed_part(config: MachineConfig) -> Document:
    machine = config.at("machine") or {}
    fixed = {key: value for key, value in machine.items() if key not in _APPLIED_AT_ONCE}
    features = machine.get("features") or {}
    kept = {key: v for key, v in features.items() if key not in _FEATURES_APPLIED_AT_ONCE}
    return {**fixed, "features": kept, "persist": config.at("persist")}


@lru_cache(maxsize=64)
def load(text: str, release: Release) -> MachineConfig:
    """Read the documents of a machine configuration.

    Raises:
        InvalidConfiguration: no YAML, an unknown kind or key, a wrong type, or one document
            twice; in Talos' words.
    """
    documents: list[tuple[str, Document]] = []
    seen: set[tuple[str, str, str]] = set()
    for node in _parse(text):
        identity = _identity(node)
        line = node.lc.line + 1
        label = "/".join(identity)
        if identity in seen:
            raise InvalidConfiguration(f"duplicate document {label} is not allowed (line {line})")
        seen.add(identity)
        try:
            documents.append((_decode(node, release), node))
        except InvalidConfiguration as error:
            where = f"error decoding document {label} (line {line})"
            raise InvalidConfiguration(f"{where}: {error}") from None
    return MachineConfig(tuple(documents))


def _parse(text: str) -> list[CommentedMap]:
    try:
        nodes = list(YAML(typ="rt", pure=True).load_all(text))
    except YAMLError as error:
        raise InvalidConfiguration(f"decode error: yaml: {_brief(error)}") from error
    nodes = [node for node in nodes if node is not None]
    for node in nodes:
        if not isinstance(node, CommentedMap):
            raise InvalidConfiguration("expected a YAML document at line 1")
    return nodes


def _brief(error: YAMLError) -> str:
    """The problem and its line, without the text around it, which may hold a key."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "invalid YAML"
    return f"line {mark.line + 1}: {problem}" if mark else str(problem)


def _identity(node: CommentedMap) -> tuple[str, str, str]:
    values = (node.get("apiVersion") or "", node.get("kind") or MAIN, node.get("name") or "")
    return str(values[0]), str(values[1]), str(values[2])


def _decode(node: CommentedMap, release: Release) -> str:
    """Check the form of one document and return its kind."""
    name = _kind_name(node)
    kind = _registered(name, node, release)
    envelope = frozenset() if name == MAIN else frozenset({"apiVersion", "kind"})
    body = CommentedMap({key: value for key, value in node.items() if key not in envelope})
    body.lc.data = node.lc.data
    structure = Structure(release.minor)
    if wrong := list(structure.mismatches(body, kind.fields)):
        lines = "\n".join(f"  {problem}" for problem in wrong)
        raise InvalidConfiguration(f"yaml: unmarshal errors:\n{lines}")
    if unknown := structure.unknown(body, kind.fields):
        raise InvalidConfiguration(f"unknown keys found during decoding:\n{write(unknown)}")
    return name


def _kind_name(node: CommentedMap) -> str:
    if "kind" in node:
        if not node.get("apiVersion"):
            raise InvalidConfiguration("missing apiVersion")
        return str(node["kind"])
    if _MAIN_KEYS.isdisjoint(node):
        raise InvalidConfiguration("missing kind")
    return MAIN


def _registered(name: str, node: CommentedMap, release: Release) -> Kind:
    kind = kinds().get(name)
    version = str(node.get("apiVersion", MAIN))
    if kind is None or kind.since > release.minor or version != MAIN:
        raise InvalidConfiguration(f'"{name}" "{version}": not registered')
    return kind
