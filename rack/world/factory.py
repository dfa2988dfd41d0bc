"""The image factory: which Talos images exist, and what is in each.

It knows the schematics that were posted to it. An image of an unknown schematic, of a Talos
release that it does not have, or with an extension that the release lacks, is refused with the
factory's own words and status.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from rack.world.errors import Refused
from rack.world.extensions import Extension, resolve
from rack.world.nodefacts import Frozen
from rack.world.releases import Release, releases
from rack.world.schematic import InvalidSchematic, Schematic, parse

MIB: Final = 1 << 20

_VANILLA: Final = parse("customization: {}\n")
"""Talos without any extension: the public factory has always known it."""

_IMAGE_PATH: Final = re.compile(r"/?image/(?P<schematic>[^/]+)/(?P<version>[^/]+)/(?P<file>[^/?]+)")
_FILE: Final = re.compile(
    r"(?P<platform>[a-z-]+?)-(?P<arch>amd64|arm64)(?P<secure>-secureboot)?"
    r"\.(?P<format>(?:iso|raw|qcow2|vhd|ova)(?:\.(?:xz|gz|zst|tar\.gz))?)"
)
_INSTALLER: Final = re.compile(
    r"[^/]+/(?:(?P<platform>[a-z-]+)-)?installer(?P<secure>-secureboot)?"
    r"/(?P<schematic>[0-9a-f]+):(?P<version>[^:@]+)"
)

_BASE_SIZE: Final = 100 * MIB
_EXTENSION_SIZE: Final = 4 * MIB
_NVIDIA_SIZE: Final = 160 * MIB
"""Rough sizes of compressed contents; nothing depends on more than their order."""
_DISK_SIZE: Final = 1290 * MIB
"""The disk that a nocloud image describes: EFI, boot, META and state partitions."""


class ImageContent(Frozen):
    """What is in a boot image, or in the installer that an upgrade uses."""

    talos_version: str
    """With the leading v."""
    platform: str
    """nocloud, metal and so on: where Talos looks for its network settings."""
    arch: str = "amd64"
    format: str = "raw"
    """Disk format and compression, for example qcow2 or raw.xz."""
    schematic_id: str
    extensions: tuple[Extension, ...] = ()
    secure_boot: bool = False
    """Signed with the factory's own keys."""
    size: int = 0
    """Bytes of the file."""
    virtual_size: int = _DISK_SIZE
    """Bytes of the disk in it."""

    @property
    def release(self) -> Release:
        """The Talos release of the image."""
        return releases()[self.talos_version]

    def nvidia(self, base_name: str) -> Extension | None:
        """The NVIDIA extension of that name, of either channel."""
        return next((e for e in self.extensions if e.base_name == base_name), None)


def accept(text: str) -> Schematic:
    """Read a posted schematic.

    Raises:
        Refused: it is not valid; status 400.
    """
    try:
        return parse(text)
    except InvalidSchematic as error:
        raise Refused(str(error), "talos", status=400) from error


def find_schematic(known: Mapping[str, Schematic], schematic_id: str) -> Schematic:
    """A schematic that was posted before.

    Raises:
        Refused: nobody posted it; status 404.
    """
    if schematic_id == _VANILLA.id:
        return _VANILLA
    if schematic_id not in known:
        raise Refused(f'schematic ID "{schematic_id}" not found', "talos", status=404)
    return known[schematic_id]


def find_release(version: str) -> Release:
    """A Talos release by its version, with or without the leading v.

    Raises:
        Refused: the factory has none of that version; status 404.
    """
    plain = version.removeprefix("v")
    release = releases().get(f"v{plain}")
    if release is None:
        raise Refused(f"version {plain} is not available", "talos", status=404)
    return release


def image(known: Mapping[str, Schematic], path: str) -> ImageContent:
    """The image behind a path such as `/image/<schematic>/v1.13.9/nocloud-amd64.qcow2`.

    Raises:
        Refused: the factory has no such image; status 404 or 400.
    """
    found = _IMAGE_PATH.fullmatch(path)
    if not found:
        raise Refused(f"no route for {path}", "talos", status=404)
    schematic = find_schematic(known, found["schematic"])
    release = find_release(found["version"])
    file = _FILE.fullmatch(found["file"])
    if not file:
        message = f'error parsing profile from path: invalid profile path: "{found["file"]}"'
        raise Refused(message, "talos", status=400)
    return _content(schematic, release, file["platform"], file)


def installer(known: Mapping[str, Schematic], reference: str) -> ImageContent:
    """What the installer `HOST/<platform>-installer/<schematic>:<version>` puts on a disk.

    `HOST/installer/...` is the old name of the metal platform's.

    Raises:
        Refused: the reference names no installer of the factory, or none that it can build.
    """
    found = _INSTALLER.fullmatch(reference)
    if not found:
        raise Refused(
            f'error validating installer image "{reference}": the simulated rack pulls only '
            "HOST/<platform>-installer/<schematic>:<version> of its own image factory",
            "talos",
            status=400,
        )
    schematic = find_schematic(known, found["schematic"])
    release = find_release(found["version"])
    return _content(schematic, release, found["platform"] or "metal", found)


def _content(
    schematic: Schematic, release: Release, platform: str, found: re.Match[str]
) -> ImageContent:
    parts = found.groupdict()
    extensions = tuple(_resolve(name, release) for name in schematic.extensions)
    compressed = _BASE_SIZE + sum(_size(extension) for extension in extensions)
    format_name = parts.get("format", "oci")
    return ImageContent(
        talos_version=release.talos,
        platform=platform,
        arch=parts.get("arch", "amd64"),
        format=format_name,
        schematic_id=schematic.id,
        extensions=extensions,
        secure_boot=bool(parts.get("secure")),
        size=_DISK_SIZE if format_name == "raw" else compressed,
    )


def _resolve(name: str, release: Release) -> Extension:
    extension = resolve(name, release)
    if extension is None:
        raise Refused(
            f'error enhancing profile from schematic: official extension "{name}" is not '
            f"available for Talos version {release.talos}",
            "talos",
            status=400,
        )
    return extension


def _size(extension: Extension) -> int:
    return _NVIDIA_SIZE if "nvidia" in extension.name else _EXTENSION_SIZE
