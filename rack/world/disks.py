"""Making, importing, growing and removing the disks of a VM (qemu-server, create_disks)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rack.world.access import ROOT, Access
from rack.world.errors import Refused, invalid
from rack.world.host import Host
from rack.world.propertystring import is_true
from rack.world.qemu import Vm
from rack.world.storage import Volume, bytes_of, content_of, size_text, split_volume_id
from rack.world.vmoptions import DRIVE, is_drive

NEW_DISK: Final = re.compile(r"(?:([^/:\s]+):)?(\d+(?:\.\d+)?)")
"""`storage:size in GiB`: a disk that is to be made."""

CLOUD_INIT_BYTES: Final = 4 << 20
EFI_BYTES: Final = {"2m": 128 << 10, "4m": 528 << 10}
TPM_BYTES: Final = 4 << 20
IMAGE_USE: Final = 0.35
"""Part of an imported disk that its data take on a thin storage."""

_NO_VOLUME: Final = ("none", "cdrom")


def check_drive(option: str, text: str, host: Host, access: Access, who: str, vmid: int) -> None:
    """Check one drive of a request before anything is made, as the API call itself does.

    Raises:
        Refused: 400, 403 or 500 as PVE answers.
    """
    drive = DRIVE.parse(text)
    volume = drive.get("file", "")
    storage, rest = split_volume_id(volume)
    if not volume:
        raise invalid(**{option: "invalid format - format error\nfile: property is missing\n"})
    if "import-from" in drive:
        _check_import(option, drive, host, access, who, vmid)
    if volume in _NO_VOLUME:
        return
    if rest == "cloudinit":
        host.storage(storage)
    elif found := NEW_DISK.fullmatch(volume):
        if not found[1]:
            raise Refused("no storage ID specified (and no default storage)\n")
        access.check(who, f"/storage/{found[1]}", "Datastore.AllocateSpace")
        if "images" not in host.storage(found[1]).content:
            raise invalid(storage=f"storage '{found[1]}' does not support vm images")
    else:
        _check_existing(option, drive, host, access, who, vmid)


def _check_import(
    option: str, drive: dict[str, str], host: Host, access: Access, who: str, vmid: int
) -> None:
    target = NEW_DISK.fullmatch(drive["file"])
    if not target or float(target[2]) != 0:
        raise invalid(
            **{
                option: "'import-from' requires special syntax - "
                "use <storage ID>:0,import-from=<source>"
            }
        )
    source = drive["import-from"]
    storage = split_volume_id(source)[0]
    if not storage:
        if who != ROOT:
            raise Refused("Only root can pass arbitrary filesystem paths.\n")
        raise Refused(f"the simulated rack has no files outside storages: '{source}'\n")
    host.storage(storage)
    kind = content_of(source)
    if not kind:
        raise Refused(f"unable to parse directory volume name '{split_volume_id(source)[1]}'\n")
    if kind not in ("images", "import"):
        message = f"{source} has wrong type '{kind}' - needs to be 'images' or 'import'"
        raise invalid(**{option: message})
    check_volume_access(source, host, access, who, vmid)


def _check_existing(
    option: str, drive: dict[str, str], host: Host, access: Access, who: str, vmid: int
) -> None:
    volume = drive["file"]
    kind = content_of(volume)
    check_volume_access(volume, host, access, who, vmid)
    if kind not in ("images", "iso"):
        raise invalid(**{option: "content type needs to be 'images' or 'iso'"})
    if kind == "iso" and drive.get("media") != "cdrom":
        raise invalid(**{option: "explicit 'media=cdrom' is required for iso images"})


def check_volume_access(
    volume_id: str, host: Host, access: Access, who: str, vmid: int | None
) -> None:
    """Demand what reading a stored file or disk takes.

    Raises:
        Refused: 403, or 500 where PVE says it so.
    """
    storage = split_volume_id(volume_id)[0]
    if not storage:
        if who != ROOT:
            raise Refused("Only root can pass arbitrary filesystem paths.\n")
        return
    path = f"/storage/{storage}"
    if access.has(who, path, "Datastore.Allocate"):
        return
    kind = content_of(volume_id)
    if kind in ("iso", "vztmpl", "import"):
        access.check_any(who, path, ("Datastore.AllocateSpace", "Datastore.Audit"))
        return
    volume = host.volume(volume_id)
    owner = volume.vmid if volume else None
    if owner is None:
        raise Refused(f"missing privileges to access {volume_id}\n")
    if owner != vmid:
        access.check(who, path, "Datastore.Audit")
        access.check(who, f"/vms/{owner}", "VM.Config.Disk")


@dataclass
class DiskMaker:
    """Makes the volumes of one VM; `made` names them, so that a failure can remove them."""

    host: Host
    vm: Vm
    now: float
    made: list[str]

    def make(self, option: str, text: str) -> str:
        """Make what a drive's option asks for and return the option as PVE keeps it.

        Raises:
            Refused: the storage is full, the source is missing, and the like.
        """
        drive = DRIVE.parse(text)
        volume = drive["file"]
        storage, rest = split_volume_id(volume)
        found = NEW_DISK.fullmatch(volume)
        if volume in _NO_VOLUME:
            drive.pop("size", None)
        elif rest == "cloudinit":
            self._cloud_init(option, storage, drive)
        elif found and "import-from" in drive:
            self._import(option, storage, drive)
        elif found:
            self._create(option, storage, float(found[2]), drive)
        else:
            self._attach(option, drive)
        return DRIVE.write(drive)

    def _cloud_init(self, option: str, storage: str, drive: dict[str, str]) -> None:
        attached = self.vm.cloud_init_drive()
        if attached and attached != option:
            raise Refused(f"{option} - cloud-init drive is already attached at '{attached}'\n")
        target = self.host.storage(storage)
        format_ = drive.pop("format", None) or ("qcow2" if target.is_file_based else "raw")
        name = f"vm-{self.vm.vmid}-cloudinit"
        volume = target.allocate(
            self.vm.vmid, CLOUD_INIT_BYTES, self.now, format=format_, name=name
        )
        self._use(volume, drive, CLOUD_INIT_BYTES)
        drive["media"] = "cdrom"
        drive.pop("size", None)

    def _create(self, option: str, storage: str, gib: float, drive: dict[str, str]) -> None:
        size = int(gib * (1 << 30))
        if option == "efidisk0":
            size = EFI_BYTES[drive.setdefault("efitype", "2m")]
        elif option == "tpmstate0":
            size = TPM_BYTES
        if size <= 0:
            raise Refused("allocated size must be greater than zero\n")
        volume = self._allocate(storage, size, drive)
        self._use(volume, drive, 0 if gib and option not in ("efidisk0", "tpmstate0") else size)

    def _import(self, option: str, storage: str, drive: dict[str, str]) -> None:
        source_id = drive.pop("import-from")
        source = self.host.volume(source_id)
        if source is None:
            raise Refused(
                f"cannot import from '{source_id}' - volume '{source_id}' does not exist\n"
            )
        size = source.virtual_size or source.size
        try:
            volume = self._allocate(storage, size, drive)
        except Refused as error:
            raise Refused(f"cannot import from '{source_id}' - {error.message}") from None
        volume.image = source.image
        self._use(volume, drive, int(size * IMAGE_USE))

    def _attach(self, option: str, drive: dict[str, str]) -> None:
        volume = self.host.volume(drive["file"])
        if volume is None:
            raise Refused(f"volume {drive['file']} does not exist\n")
        if drive.get("format", volume.format) != volume.format:
            raise Refused(
                f"drive '{option}' - volume '{volume.id}' - 'format={drive['format']}' option"
                f" different from storage format '{volume.format}'\n"
            )
        drive["size"] = size_text(volume.size)

    def _allocate(self, storage: str, size: int, drive: dict[str, str]) -> Volume:
        target = self.host.storage(storage)
        return target.allocate(self.vm.vmid, size, self.now, format=drive.pop("format", ""))

    def _use(self, volume: Volume, drive: dict[str, str], used: int) -> None:
        """Enter a new volume into its drive and account for the space that it takes."""
        self.made.append(volume.id)
        storage = self.host.storage(split_volume_id(volume.id)[0])
        storage.check_space(used)
        volume.used = used
        drive["file"], drive["size"] = volume.id, size_text(volume.size)

    def undo(self) -> None:
        """Remove what was made."""
        for volume_id in self.made:
            self.host.free(volume_id)
        self.made.clear()


def resize(vm: Vm, host: Host, option: str, size: str) -> None:
    """Grow a disk to a size, or by one that starts with `+`.

    Raises:
        Refused: no such disk, or it would shrink.
    """
    if option not in vm.config or not is_drive(option):
        raise Refused(f"disk '{option}' does not exist\n")
    drive = DRIVE.parse(vm.config[option])
    if drive.get("media") == "cdrom":
        raise Refused("you can't resize a cdrom\n")
    volume = host.volume(drive["file"])
    if volume is None:
        raise Refused(f"Could not determine current size of volume '{drive['file']}'\n")
    wanted = bytes_of(size.lstrip("+")) + (volume.size if size.startswith("+") else 0)
    if wanted < volume.size:
        raise Refused("shrinking disks is not supported\n")
    volume.size = wanted
    drive["size"] = size_text(wanted)
    vm.config[option] = DRIVE.write(drive)


def remove_drive(vm: Vm, host: Host, option: str) -> None:
    """Take a drive out of a configuration: a disk of the VM is kept as `unusedN`, as PVE does."""
    drive = DRIVE.parse(vm.config.pop(option))
    volume = host.volume(drive.get("file", ""))
    if volume is None or volume.vmid != vm.vmid:
        return
    if "cloudinit" in volume.id or option.startswith("unused"):
        host.free(volume.id)
        return
    number = next(n for n in range(256) if f"unused{n}" not in vm.config)
    vm.config[f"unused{number}"] = volume.id


def boot_volume(vm: Vm, host: Host) -> Volume | None:
    """The disk that firmware starts: the first in the boot order that holds a system."""
    for name in vm.boot_order():
        drive = DRIVE.parse(vm.config.get(name, "")) if is_drive(name) else {}
        volume = host.volume(drive.get("file", ""))
        if volume and volume.image and not is_true(drive.get("snapshot")):
            return volume
    return None


def check_owner(volume_id: str, host: Host, access: Access, who: str) -> None:
    """Demand what removing a stored file or disk takes."""
    storage = host.storage(split_volume_id(volume_id)[0])
    access.check(who, f"/storage/{storage.name}", "Datastore.Allocate")
