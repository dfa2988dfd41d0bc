"""The plugin's functions. Most compute; only the image factory's and the cluster's ask the rack.

Each returns the outputs that come on top of its inputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from rack.plugins.contract import Plain, PluginError
from rack.plugins.talos import kubeconfig, machine_secrets, patches, yamltext
from rack.plugins.talos.client import Rack
from rack.plugins.talos.generate import Request, generate
from rack.plugins.talos.resource import DEFAULT_SECONDS, deadline
from rack.plugins.talos.secrets_resource import version_problems
from rack.plugins.talos.versions import DEFAULT_KUBERNETES, DEFAULT_TALOS, Contract

Function = Callable[[Rack, Plain], Plain]

STABLE: Final = re.compile(r"v?\d+\.\d+\.\d+")
DISK_FORMATS: Final = {"metal": "raw.zst", "nocloud": "raw.xz"}
"""The image factory's default disk image of the platforms that the rack boots."""


def machine_configuration(rack: Rack, inputs: Plain) -> Plain:
    """talos:machine/getConfiguration: a machine's configuration with its patches applied."""
    del rack
    _require_endpoint(inputs["clusterEndpoint"])
    for problem in version_problems(inputs).values():
        raise PluginError(problem)
    machine_secrets.require_base64(inputs["machineSecrets"]["certs"], "machineSecrets.certs")
    talos = inputs.get("talosVersion") or DEFAULT_TALOS
    kubernetes = inputs.get("kubernetesVersion") or DEFAULT_KUBERNETES
    request = Request(
        cluster_name=inputs["clusterName"],
        endpoint=inputs["clusterEndpoint"],
        machine_type=inputs["machineType"],
        kubernetes_version=kubernetes.removeprefix("v"),
        contract=Contract.parse(talos),
        secrets=inputs["machineSecrets"],
    )
    documents = patches.apply(generate(request), patches.load(inputs.get("configPatches") or []))
    return {
        "id": inputs["clusterName"],
        "talosVersion": talos,
        "kubernetesVersion": kubernetes,
        "machineConfiguration": yamltext.dump(documents),
    }


def client_configuration(rack: Rack, inputs: Plain) -> Plain:
    """talos:client/getConfiguration: a talosconfig file for talosctl."""
    del rack
    client, name = inputs["clientConfiguration"], inputs["clusterName"]
    machine_secrets.require_base64(client, "clientConfiguration")
    context = {
        "endpoints": inputs.get("endpoints") or [],
        **({"nodes": inputs["nodes"]} if inputs.get("nodes") else {}),
        "ca": client["caCertificate"],
        "crt": client["clientCertificate"],
        "key": client["clientKey"],
    }
    text = yamltext.dump([{"context": name, "contexts": {name: context}}])
    return {"id": name, "talosConfig": text}


def cluster_kubeconfig(rack: Rack, inputs: Plain) -> Plain:
    """talos:cluster/getKubeconfig: the kubeconfig without a resource."""
    seconds = deadline(inputs, "read", DEFAULT_SECONDS)
    text = kubeconfig.fetch(rack, inputs["node"], inputs["clientConfiguration"], seconds)
    name, client = kubeconfig.parse(text)
    return {
        "id": name,
        "endpoint": inputs.get("endpoint") or inputs["node"],
        "kubeconfigRaw": text,
        "kubernetesClientConfiguration": client,
    }


def factory_versions(rack: Rack, inputs: Plain) -> Plain:
    """talos:imageFactory/getVersions: what the factory builds."""
    stable_only = (inputs.get("filters") or {}).get("stableVersionsOnly", False)
    known = [v for v in rack.talos_versions() if not stable_only or STABLE.fullmatch(v)]
    return {"id": "talos_versions", "talosVersions": known}


def factory_extensions(rack: Rack, inputs: Plain) -> Plain:
    """talos:imageFactory/getExtensionsVersions: official extensions of a Talos version."""
    version = "v" + inputs["talosVersion"].removeprefix("v")
    parts = (inputs.get("filters") or {}).get("names") or []
    exact = (inputs.get("exactFilters") or {}).get("names") or []
    infos = rack.extensions(version)
    if parts or exact:
        infos = [i for i in infos if i["name"] in exact or any(p in i["name"] for p in parts)]
    keys = ("author", "description", "digest", "name", "ref")
    described = [{key: str(info.get(key, "")) for key in keys} for info in infos]
    return {"id": "extensions_info", "extensionsInfos": described}


def factory_urls(rack: Rack, inputs: Plain) -> Plain:
    """talos:imageFactory/getUrls: where the factory serves the assets of a schematic.

    The rack boots the platforms metal and nocloud; it has no images of others, nor single boards.
    """
    platform = inputs.get("platform")
    if platform not in DISK_FORMATS:
        raise PluginError(
            f"'platform': the simulated rack has images of {' and '.join(DISK_FORMATS)}, not of "
            f"{platform or inputs.get('sbc') or 'nothing'}"
        )
    architecture = inputs.get("architecture") or "amd64"
    schematic = inputs["schematicId"]
    version = "v" + inputs["talosVersion"].removeprefix("v")
    host, base = urlsplit(rack.url).netloc, f"{rack.url}/image/{schematic}/{version}"
    name, disk = f"{platform}-{architecture}", DISK_FORMATS[platform]
    urls = {
        "installer": f"{host}/{platform}-installer/{schematic}:{version}",
        "installerSecureboot": f"{host}/{platform}-installer-secureboot/{schematic}:{version}",
        "iso": f"{base}/{name}.iso",
        "isoSecureboot": f"{base}/{name}-secureboot.iso",
        "diskImage": f"{base}/{name}.{disk}",
        "diskImageSecureboot": f"{base}/{name}-secureboot.{disk}",
        "pxe": f"{urlsplit(rack.url).scheme}://pxe.{host}/pxe/{schematic}/{version}/{name}",
        # The official plugin fills these in for metal only.
        "kernel": f"{base}/kernel-{architecture}",
        "kernelCommandLine": f"{base}/cmdline-{name}",
        "initramfs": f"{base}/initramfs-{architecture}.xz",
        "uki": f"{base}/{name}-secureboot-uki.efi",
    }
    if platform != "metal":
        urls |= dict.fromkeys(("kernel", "kernelCommandLine", "initramfs", "uki"), "")
    return {"id": "", "architecture": architecture, "urls": urls}


FUNCTIONS: Final[Mapping[str, Function]] = {
    "talos:machine/getConfiguration:getConfiguration": machine_configuration,
    "talos:client/getConfiguration:getConfiguration": client_configuration,
    "talos:cluster/getKubeconfig:getKubeconfig": cluster_kubeconfig,
    "talos:imageFactory/getVersions:getVersions": factory_versions,
    "talos:imageFactory/getExtensionsVersions:getExtensionsVersions": factory_extensions,
    "talos:imageFactory/getUrls:getUrls": factory_urls,
}


def _require_endpoint(endpoint: Any) -> None:
    try:
        url = urlsplit(endpoint)
        port = url.port
    except ValueError:
        url, port = urlsplit(""), None
    if url.scheme != "https" or not url.hostname:
        raise PluginError(
            f"'clusterEndpoint': {endpoint!r} must be a URL such as "
            f"https://{url.hostname or '192.168.20.20'}:{port or 6443}"
        )
