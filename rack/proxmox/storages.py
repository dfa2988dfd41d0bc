"""Storages of a host: their state, what is in them, downloads."""

from __future__ import annotations

from typing import Any, Final

from rack.proxmox.endpoints import BOOLEAN, VMID, Call, any_on, endpoint
from rack.proxmox.nodes import URL, may_reach_network
from rack.world.disks import check_owner, check_volume_access
from rack.world.errors import Refused, invalid
from rack.world.propertystring import Key
from rack.world.storage import Volume, content_of, split_volume_id

CONTENT: Final = Key(choices=("images", "rootdir", "vztmpl", "backup", "iso", "snippets", "import"))
ALGORITHMS: Final = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
STORAGES: Final = "/nodes/{node}/storage"
ONE: Final = STORAGES + "/{storage}"
VOLUME: Final = ONE + "/content/{volume*}"
_SEEING: Final = ("Datastore.Audit", "Datastore.AllocateSpace")


@endpoint(
    "GET",
    STORAGES,
    parameters={
        "content": Key(),
        "enabled": BOOLEAN,
        "storage": Key(),
        "format": BOOLEAN,
        "target": Key(),
    },
)
def index(call: Call) -> Any:
    """Storages that the caller may use."""
    wanted = set(filter(None, call.text("content").split(",")))
    only = call.text("storage")
    return [
        {
            "storage": storage.name,
            **storage.status(),
            "used_fraction": storage.used / storage.total,
        }
        for storage in call.host.storages.values()
        if any(call.has(f"/storage/{storage.name}", privilege) for privilege in _SEEING)
        and (not wanted or wanted & set(storage.content))
        and only in ("", storage.name)
    ]


@endpoint("GET", ONE + "/status", any_on("/storage/{storage}", *_SEEING))
def status(call: Call) -> Any:
    """State of one storage; sizes in bytes."""
    return call.host.storage(call.text("storage")).status()


@endpoint(
    "GET",
    ONE + "/content",
    any_on("/storage/{storage}", *_SEEING),
    parameters={"content": CONTENT, "vmid": VMID},
)
def content(call: Call) -> Any:
    """Files and disks in a storage that the caller may read."""
    storage = call.host.storage(call.text("storage"))
    listed = []
    for volume in sorted(storage.volumes.values(), key=lambda v: v.id):
        if call.text("content") not in ("", volume.content):
            continue
        if "vmid" in call.values and volume.vmid != call.number("vmid"):
            continue
        try:
            check_volume_access(volume.id, call.host, call.world.access, call.who, None)
        except Refused:
            continue
        listed.append(_listed(volume))
    return listed


def _listed(volume: Volume) -> dict[str, Any]:
    found: dict[str, Any] = {
        "volid": volume.id,
        "content": volume.content,
        "format": volume.format,
        "size": volume.size,
        "ctime": int(volume.created),
    }
    if volume.vmid is not None:
        found |= {"vmid": volume.vmid, "used": volume.used}
    return found


def _volume_id(call: Call) -> str:
    """The volume that a path names, with or without its storage in front."""
    storage, volume = call.text("storage"), call.text("volume")
    named, _ = split_volume_id(volume)
    if named and named != storage:
        raise invalid(volume=f"storage ID mismatch ({named} != {storage})\n")
    return volume if named else f"{storage}:{volume}"


@endpoint("GET", VOLUME)
def read(call: Call) -> Any:
    """Path, size and format of one volume."""
    volume_id, host = _volume_id(call), call.host
    storage = host.storage(call.text("storage"))
    _require_name(volume_id)
    check_volume_access(volume_id, host, call.world.access, call.who, None)
    volume = host.volume(volume_id)
    if volume is None:
        raise Refused(f"volume_size_info on '{volume_id}' failed - no format\n")
    return {
        "path": storage.path_of(volume),
        "size": volume.virtual_size or volume.size,
        "used": volume.used,
        "format": volume.format,
    }


@endpoint("DELETE", VOLUME, parameters={"delay": Key("integer", minimum=1, maximum=30)})
def delete(call: Call) -> Any:
    """Remove a volume, in a task."""
    volume_id, host = _volume_id(call), call.host
    _require_name(volume_id)
    check_owner(volume_id, host, call.world.access, call.who)
    owner = getattr(host.volume(volume_id), "vmid", None)
    storage = call.text("storage")
    name = f"{owner}@{storage}" if owner is not None else storage
    return call.world.submit("imgdel", host.name, name, call.who, call.now, volume=volume_id)


def _require_name(volume_id: str) -> None:
    if not content_of(volume_id):
        name = split_volume_id(volume_id)[1]
        raise Refused(f"unable to parse directory volume name '{name}'\n")


def _may_download(call: Call) -> None:
    call.require(f"/storage/{call.text('storage')}", "Datastore.AllocateTemplate")
    may_reach_network(call)


@endpoint(
    "POST",
    ONE + "/download-url",
    _may_download,
    parameters={
        "url": URL,
        "content": Key(choices=("iso", "vztmpl", "import"), required=True),
        "filename": Key(longest=255, required=True),
        "checksum": Key(),
        "checksum-algorithm": Key(choices=ALGORITHMS),
        "compression": Key(choices=("gz", "lzo", "zst", "bz2")),
        "verify-certificates": BOOLEAN,
    },
)
def download(call: Call) -> Any:
    """Let the host download a file into a storage, in a task."""
    given = [name in call.values for name in ("checksum", "checksum-algorithm")]
    if given == [True, False]:
        raise invalid(checksum="missing property - 'checksum-algorithm'")
    if given == [False, True]:
        raise invalid(checksum_algorithm="missing property - 'checksum'")
    storage = call.host.storage(call.text("storage"))
    name = storage.check_download(call.text("content"), call.text("filename"))
    return call.world.submit(
        "download",
        call.host.name,
        name,
        call.who,
        call.now,
        storage=storage.name,
        content=call.text("content"),
        filename=name,
        url=call.text("url"),
        checksum=call.text("checksum"),
        algorithm=call.text("checksum-algorithm"),
        compression=call.text("compression"),
    )
