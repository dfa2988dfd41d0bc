"""Talos' official system extensions: which release has which, and at what version.

Names and releases come from data/talos_extensions.tsv, read from the tags of the extensions'
repository.
"""

from __future__ import annotations

from functools import cache

from rack.world.nodefacts import Frozen
from rack.world.releases import Channel, Release, read_table, version_order

PREFIX = "siderolabs/"
"""Every official extension's image sits in this repository."""

_ALIASES = {
    "v4l-uvc": "v4l-uvc-drivers",
    "usb-modem": "usb-modem-drivers",
    "gasket": "gasket-driver",
    "talos-vmtoolsd": "vmtoolsd-guest-agent",
    "xe-guest-utilities": "xen-guest-agent",
    "nvidia-container-toolkit": "nvidia-container-toolkit-lts",
    "nvidia-open-gpu-kernel-modules": "nvidia-open-gpu-kernel-modules-lts",
    "nonfree-kmod-nvidia": "nonfree-kmod-nvidia-lts",
    "nvidia-fabricmanager": "nvidia-fabricmanager-lts",
    "i915-ucode": "i915",
    "amdgpu-firmware": "amdgpu",
}
"""Old names that the factory resolves where a release no longer has them."""

KERNEL_MODULES = {
    "nvidia-open-gpu-kernel-modules": "open",
    "nonfree-kmod-nvidia": "nonfree",
}
"""The two NVIDIA module extensions, without suffix, and their flavour."""


class Extension(Frozen):
    """An extension in an image, as its own manifest names it."""

    name: str
    """Without `siderolabs/`, with the channel: nonfree-kmod-nvidia-lts."""
    version: str

    @property
    def channel(self) -> Channel | None:
        """The NVIDIA channel of the name, if it has one."""
        if self.name.endswith("-lts"):
            return "lts"
        return "production" if self.name.endswith("-production") else None

    @property
    def base_name(self) -> str:
        """The name without its channel: nonfree-kmod-nvidia."""
        return self.name.removesuffix("-lts").removesuffix("-production")

    @property
    def has_kernel_modules(self) -> bool:
        """The extension brings kernel modules, so the image's module list is rebuilt."""
        return self.base_name in KERNEL_MODULES or self.name in _WITH_KERNEL_MODULES


_WITH_KERNEL_MODULES = frozenset(
    row["name"] for row in read_table("talos_extensions.tsv") if row["kernel_modules"] == "yes"
)


@cache
def official(release: Release) -> dict[str, Extension]:
    """The extensions of a release by full name, `siderolabs/` included."""
    order = version_order(release.talos)
    found: dict[str, Extension] = {}
    for row in read_table("talos_extensions.tsv"):
        ended = bool(row["until"]) and order > version_order(row["until"])
        if version_order(row["since"]) <= order and not ended:
            name = row["name"]
            found[PREFIX + name] = Extension(name=name, version=_version(name, release))
    return found


def resolve(name: str, release: Release) -> Extension | None:
    """The extension that the factory takes for a name; None when the release lacks it."""
    available = official(release)
    alias = _ALIASES.get(name.removeprefix(PREFIX), "")
    return available.get(name) or available.get(PREFIX + alias)


def _version(name: str, release: Release) -> str:
    """The version in the extension's manifest.

    Kernel modules carry the Talos tag beside their own version, the toolkit its own beside the
    driver's. Extensions that nothing in the rack looks at carry the Talos tag alone.
    """
    channel: Channel = "production" if name.endswith("-production") else "lts"
    driver = release.driver(channel)
    base = name.removesuffix("-lts").removesuffix("-production")
    if base in KERNEL_MODULES:
        return f"{driver}-{release.talos}"
    if base == "nvidia-container-toolkit":
        return f"{driver}-{release.container_toolkit}"
    if base == "nvidia-fabricmanager":
        return driver
    return release.qemu_guest_agent if name == "qemu-guest-agent" else release.talos
