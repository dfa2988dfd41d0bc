"""Storages of a host, and the files and disks in them (pve-storage)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from rack.world.errors import Refused, invalid
from rack.world.factory import ImageContent
from rack.world.nodefacts import Frozen

GIB: Final = 1 << 30
UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
EXTENT: Final = 4 << 20
"""LVM allocates in such steps, in bytes."""

FILE_EXTENSIONS: Final = {
    "iso": re.compile(r"[^/]+\.(?:iso|img)", re.I),
    "vztmpl": re.compile(r"[^/]+\.(?:tar|tar\.(?:gz|xz|zst|bz2))", re.I),
    "import": re.compile(r"[a-zA-Z0-9\-.+=_]+\.(ova|qcow2|raw|vmdk)"),
}
"""Names of files by content type."""

_WRONG_NAME: Final = {"import": "invalid filename or wrong extension"}
_FOLDERS: Final = {"iso": "template/iso", "vztmpl": "template/cache", "import": "import"}
_CONTENT_TYPES: Final = ("images", "rootdir", "vztmpl", "backup", "iso", "snippets", "import")

ContentType = Literal["images", "rootdir", "vztmpl", "backup", "iso", "snippets", "import"]


class FetchedImage(Frozen):
    """What a host finds behind a URL."""

    filename: str
    size: int
    """Bytes of the file as it is transferred."""
    virtual_size: int
    """Bytes of the disk that the image holds."""
    format: str
    """qcow2, raw, raw.xz, iso and so on: what the bytes are, whatever the name says."""
    checksums: dict[str, str] = Field(default_factory=dict)
    """Algorithm → hex digest."""
    content: ImageContent | None = None
    """The operating system in it, where the rack knows one."""
    media_type: str = "application/octet-stream"


Fetch = Callable[[str], FetchedImage]
"""Fetches a URL as a host would; raises Refused with the reason when it cannot."""


class Volume(BaseModel):
    """One stored file or disk."""

    id: str
    """Storage and path in it, for example `local-lvm:vm-101-disk-0`."""
    content: ContentType
    format: str
    size: int
    """Bytes: of a file, its length; of a VM's disk, what the guest sees."""
    used: int = 0
    """Bytes that it takes."""
    vmid: int | None = None
    """The VM that it belongs to."""
    created: float = 0.0
    """Unix time."""
    virtual_size: int = 0
    """Bytes of the disk in an image file, as a guest would see it."""
    image: ImageContent | None = None
    """The operating system on it."""
    checksums: dict[str, str] = {}

    @property
    def identity(self) -> str:
        """Unlike the name, never used again for another volume."""
        return f"{self.id}@{self.created}"


class Storage(BaseModel):
    """One storage of a host."""

    name: str
    type: Literal["dir", "lvmthin"]
    content: list[ContentType]
    capacity_gib: int
    volumes: dict[str, Volume] = {}

    @property
    def is_file_based(self) -> bool:
        """Its volumes are files in a folder."""
        return self.type == "dir"

    @property
    def total(self) -> int:
        """Capacity in bytes."""
        return self.capacity_gib * GIB

    @property
    def used(self) -> int:
        """Bytes that the volumes take."""
        return sum(volume.used for volume in self.volumes.values())

    def check_space(self, size: int) -> None:
        """Refuse what does not fit.

        Raises:
            Refused: as the tools of the storage's type say it.
        """
        if self.used + size <= self.total:
            return
        if self.is_file_based:
            raise Refused("No space left on device\n")
        raise Refused(f"free space of thin pool '{self.name}' is not enough for {size} bytes\n")

    def allocate(
        self, vmid: int, size: int, now: float, *, format: str = "", name: str = ""
    ) -> Volume:
        """Make an empty disk of `size` bytes for a VM.

        Raises:
            Refused: the storage holds no disks of that format, or the name is taken.
        """
        wanted = format or "raw"
        if not self.is_file_based:
            size = -(-size // EXTENT) * EXTENT
        if not self.is_file_based and wanted != "raw":
            raise Refused(f"unsupported format '{wanted}'\n")
        extension = f".{wanted}" if self.is_file_based else ""
        folder = f"{vmid}/" if self.is_file_based else ""
        stem = name or f"vm-{vmid}-disk-{self._next_disk(vmid)}"
        volume = Volume(
            id=f"{self.name}:{folder}{stem}{extension}",
            content="images",
            format=wanted,
            size=size,
            vmid=vmid,
            created=now,
        )
        if volume.id in self.volumes:
            raise Refused(f"unable to create image: volume '{volume.id}' already exists\n")
        self.volumes[volume.id] = volume
        return volume

    def _next_disk(self, vmid: int) -> int:
        pattern = re.compile(rf"vm-{vmid}-disk-(\d+)")
        used = {int(found[1]) for v in self.volumes if (found := pattern.search(v))}
        return next(n for n in range(len(used) + 1) if n not in used)

    def path_of(self, volume: Volume) -> str:
        """Where a volume is in the host's file system."""
        rest = split_volume_id(volume.id)[1]
        if not self.is_file_based:
            return f"/dev/pve/{rest}"
        if volume.content == "images":
            return f"/var/lib/vz/images/{rest}"
        return f"/var/lib/vz/{_FOLDERS.get(volume.content, volume.content)}/{rest.split('/')[-1]}"

    def file_id(self, content: str, filename: str) -> str:
        """Name of the volume of a downloaded file."""
        return f"{self.name}:{content}/{filename}"

    def check_download(self, content: str, filename: str) -> str:
        """Check where a file goes and return its name as PVE writes it.

        Raises:
            Refused: the storage does not take that content, or the name does not fit it.
        """
        if not self.is_file_based:
            raise Refused(
                f"can't upload to storage type '{self.type}', not a file based storage!\n"
            )
        if content not in self.content:
            raise Refused(f"storage '{self.name}' is not configured for content-type '{content}'\n")
        name = re.sub(r"[^a-zA-Z0-9_.-]", "_", re.sub(r"^.*[/\\]", "", filename))
        if not FILE_EXTENSIONS[content].fullmatch(name):
            raise invalid(filename=_WRONG_NAME.get(content, "wrong file extension"))
        return name

    def keep_download(
        self, content: ContentType, name: str, file: FetchedImage, now: float
    ) -> None:
        """Store a file that was fetched.

        Raises:
            Refused: it is not what its name says, or does not fit.
        """
        self.check_space(file.size)
        extension = name.rpartition(".")[2].lower()
        if content == "import" and extension != "raw" and file.format != extension:
            raise Refused(f"failed to verify file: Image is not in {extension} format\n")
        # qemu-img takes any bytes for a raw image: only the guest's firmware notices.
        boots = file.format == extension
        volume_id = self.file_id(content, name)
        self.volumes[volume_id] = Volume(
            id=volume_id,
            content=content,
            format=extension,
            size=file.size,
            used=file.size,
            created=now,
            virtual_size=file.virtual_size if boots else file.size,
            image=file.content if boots else None,
            checksums=file.checksums,
        )

    def status(self) -> dict[str, Any]:
        """What the API says about the storage; sizes in bytes."""
        order = sorted(self.content, key=_CONTENT_TYPES.index)
        return {
            "type": self.type,
            "content": ",".join(order),
            "total": self.total,
            "used": self.used,
            "avail": max(self.total - self.used, 0),
            "enabled": 1,
            "active": 1,
            "shared": 0,
        }


def split_volume_id(volume_id: str) -> tuple[str, str]:
    """Storage and the rest of a volume's name; an empty storage for a path."""
    storage, separator, rest = volume_id.partition(":")
    return (storage, rest) if separator and "/" not in storage else ("", volume_id)


def content_of(volume_id: str) -> str:
    """Content type that a volume's name stands for; empty where PVE cannot parse it."""
    rest = split_volume_id(volume_id)[1]
    folder, separator, name = rest.partition("/")
    if separator and folder in FILE_EXTENSIONS:
        return folder if FILE_EXTENSIONS[folder].fullmatch(name) else ""
    return "images" if re.search(r"(^|/)(vm|base)-\d+-\S+$", rest) else ""


def bytes_of(size: str) -> int:
    """Read a size as PVE writes it, `40G` or `528K`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", size)
    if not found:
        raise Refused(f"unable to parse size '{size}'\n")
    return int(float(found[1]) * UNITS[found[2]])


def size_text(size: int) -> str:
    """Write a size with the largest unit that leaves a whole number."""
    for unit in ("T", "G", "M", "K"):
        if size >= UNITS[unit] and size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]}{unit}"
    return str(size)
