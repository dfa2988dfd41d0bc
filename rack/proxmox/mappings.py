"""Resource mappings of PCI devices."""

from __future__ import annotations

from typing import Any, Final

from rack.proxmox.endpoints import BOOLEAN, CONFIG_ID, NODE, Call, any_on, endpoint, on
from rack.world.errors import Refused, invalid
from rack.world.mapping import PciMapping, check_map, digest
from rack.world.propertystring import Key, split_list

ROOT: Final = "/cluster/mapping/pci"
ITEM: Final = ROOT + "/{id}"
SEEING: Final = ("Mapping.Use", "Mapping.Modify", "Mapping.Audit")
_PATH: Final = "/mapping/pci/{id}"
_FIELDS: Final = {
    "description": Key(longest=4096),
    "mdev": BOOLEAN,
    "map": Key(),
    "live-migration-capable": BOOLEAN,
}
_MAP: Final = frozenset(("map",))
_UPDATE_FAILED: Final = "update hardware mapping failed: "
_DELETABLE: Final = ("description", "mdev", "live-migration-capable")


@endpoint("GET", ROOT, parameters={"check-node": NODE})
def index(call: Call) -> Any:
    """Mappings that the caller may see; with `check-node`, whether each is valid there."""
    node = call.text("check-node")
    host = call.world.host(node) if node else None
    found = []
    for name in sorted(call.world.mappings):
        mapping = call.world.mappings[name]
        if not any(call.has(f"/mapping/pci/{name}", privilege) for privilege in SEEING):
            continue
        entry = {"id": name, **mapping.fields(), "digest": digest(call.world.mappings)}
        if host is not None:
            entry["checks"] = mapping.checks(name, host)
        found.append(entry)
    return found


@endpoint("GET", ITEM, any_on(_PATH, *SEEING))
def read(call: Call) -> Any:
    """One mapping."""
    name = call.text("id")
    if name not in call.world.mappings:
        raise Refused(f"mapping '{name}' not found\n")
    return {**call.world.mappings[name].fields(), "digest": digest(call.world.mappings)}


@endpoint(
    "POST",
    ROOT,
    on("/mapping/pci", "Mapping.Modify"),
    parameters={"id": Key(pattern=CONFIG_ID.pattern, required=True), **_FIELDS},
    arrays=_MAP,
)
def create(call: Call) -> Any:
    """Create a mapping. Nobody looks whether the device is there."""
    name = call.text("id")
    entries = _entries(call)
    if name in call.world.mappings:
        raise Refused(f"create hardware mapping failed: pci ID '{name}' already defined\n")
    call.world.mappings[name] = PciMapping(
        map=entries, description=call.text("description"), mdev=call.flag("mdev")
    )


@endpoint(
    "PUT",
    ITEM,
    on(_PATH, "Mapping.Modify"),
    parameters={**_FIELDS, "delete": Key(), "digest": Key(longest=64)},
    arrays=_MAP,
)
def update(call: Call) -> Any:
    """Change a mapping."""
    name = call.text("id")
    entries = _entries(call)
    if name not in call.world.mappings:
        raise Refused(f"{_UPDATE_FAILED}pci ID '{name}' does not exist\n")
    if call.text("digest") not in ("", digest(call.world.mappings)):
        raise Refused(
            f"{_UPDATE_FAILED}detected modified configuration - file changed by other user? Try"
            " again.\n"
        )
    mapping = call.world.mappings[name].model_copy()
    for gone in split_list(call.text("delete")):
        _delete(mapping, gone, call)
    mapping.map = entries
    mapping.description = call.text("description", mapping.description)
    mapping.mdev = call.flag("mdev", default=mapping.mdev)
    call.world.mappings[name] = mapping


def _delete(mapping: PciMapping, name: str, call: Call) -> None:
    if name == "map":
        raise Refused(f"{_UPDATE_FAILED}unable to delete required option 'map'\n")
    if name not in _DELETABLE:
        raise Refused(f"{_UPDATE_FAILED}no such option '{name}'\n")
    if name in call.values:
        raise Refused(
            f"{_UPDATE_FAILED}cannot set and delete property '{name}' at the same time!\n"
        )
    if name == "description":
        mapping.description = ""
    elif name == "mdev":
        mapping.mdev = False


def _entries(call: Call) -> list[str]:
    entries = call.values.get("map", [])
    if not entries:
        raise invalid(map="property is missing and it is not optional")
    check_map(entries)
    return entries


@endpoint("DELETE", ITEM, on("/mapping/pci", "Mapping.Modify"))
def delete(call: Call) -> Any:
    """Remove a mapping; no error where it is gone already. VMs may still name it."""
    call.world.mappings.pop(call.text("id"), None)
