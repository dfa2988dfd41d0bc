"""Changing a VM in place: options, disks, node and power, in that order of risk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rack.plugins.contract import Plain, PluginError
from rack.plugins.proxmoxve import disks, state
from rack.plugins.proxmoxve.codec import parse
from rack.plugins.proxmoxve.devices import HOT_OPTIONS
from rack.plugins.proxmoxve.options import options
from rack.plugins.proxmoxve.power import Power
from rack.plugins.proxmoxve.resource import Context

FIXED_VOLUMES = {"efiDisk": "efidisk0", "tpmState": "tpmstate0"}


@dataclass
class Change:
    """One change of one VM, from its state `old` to the plan `new`."""

    context: Context
    vm_id: int
    old: Plain
    new: Plain
    _restart: bool = field(default=False, init=False)

    @property
    def power(self) -> Power:
        """The VM's switch, with the new time-outs."""
        return Power(self.context.client, self.new["nodeName"], self.vm_id, self.new)

    def prepare(self) -> None:
        """Refuse what cannot be done, before anything is."""
        sizes = {disk["interface"]: disk["size"] for disk in self.old.get("disks") or []}
        for disk in self.new.get("disks") or []:
            was = sizes.get(disk["interface"], 0)
            if disk["size"] < was:
                raise PluginError(
                    f"disk resize failure: requested size ({disk['size']}G) of disk"
                    f" {disk['interface']} is lower than current size ({was}G)"
                )

    def apply(self) -> None:
        """Make the change."""
        if self.old["nodeName"] != self.new["nodeName"]:
            self._migrate()
        self._move_volumes()
        self._configure()
        self._grow_disks()
        self._settle_power()

    def _migrate(self) -> None:
        source = Power(self.context.client, self.old["nodeName"], self.vm_id, self.old)
        parameters = {
            "target": self.new["nodeName"],
            "online": source.is_running(),
            "with-local-disks": True,
        }
        upid = self.context.client.post(f"{source.path}/migrate", parameters)
        self.context.client.wait(upid, "VM migrate", self.new["timeoutMigrate"])

    def _move_volumes(self) -> None:
        """Move volumes whose storage changed."""
        before = {disk["interface"]: disk for disk in self.old.get("disks") or []}
        after = {disk["interface"]: disk for disk in self.new.get("disks") or []}
        for name, option in FIXED_VOLUMES.items():
            if self.old.get(name) and self.new.get(name):
                before[option], after[option] = self.old[name], self.new[name]
        for interface, disk in after.items():
            was = before.get(interface, {}).get("datastoreId", disk["datastoreId"])
            if disk["datastoreId"] != was:
                parameters = {"disk": interface, "storage": disk["datastoreId"], "delete": 1}
                upid = self.context.client.post(f"{self.power.path}/move_disk", parameters)
                self.context.client.wait(upid, "Disk move", self.new["timeoutMigrate"])

    def _configure(self) -> None:
        """Set and delete the options that differ."""
        before, after = (self._comparable(side) for side in (self.old, self.new))
        changed: dict[str, Any] = {k: v for k, v in after.items() if before.get(k) != v}
        gone = sorted(set(before) - set(after))
        live = state.as_text(self.context.client.get(f"{self.power.path}/config"))
        changed |= self._disk_options(live)
        gone += self._gone_disks(live)
        if gone:
            changed["delete"] = ",".join(gone)
        if changed:
            self.context.client.put(f"{self.power.path}/config", changed)
        self._restart = any(
            not self._is_hot(name) for name in (*changed, *gone) if name != "delete"
        )

    def _comparable(self, side: Plain) -> dict[str, str]:
        """Return the options of a VM, without what the move of a volume changes."""
        written = options(side, self.vm_id)
        for name, option in FIXED_VOLUMES.items():
            if option in written and self.old.get(name) and self.new.get(name):
                pairs = parse(written[option], "file")
                written[option] = written[option].replace(
                    f"file={pairs['file']}", f"file={self.new[name]['datastoreId']}:1"
                )
        return written

    def _disk_options(self, live: dict[str, str]) -> dict[str, str]:
        before = {disk["interface"]: disk for disk in self.old.get("disks") or []}
        changed = {}
        for disk in self.new.get("disks") or []:
            name = disk["interface"]
            if name not in live:
                changed[name] = disks.new(disk)
            elif name in before and disks.settings_changed(before[name], disk):
                changed[name] = disks.existing(disk, live[name])
        return changed

    def _gone_disks(self, live: dict[str, str]) -> list[str]:
        kept = {disk["interface"] for disk in self.new.get("disks") or []}
        was = {disk["interface"] for disk in self.old.get("disks") or []}
        return sorted(name for name in was - kept if name in live)

    def _grow_disks(self) -> None:
        live = state.as_text(self.context.client.get(f"{self.power.path}/config"))
        found = disks.of_config(live)
        for disk in self.new.get("disks") or []:
            size = disks.gibibytes(found.get(disk["interface"], {}).get("size", "0"))
            if size < disk["size"]:
                grow(self.power, disk, self.new["timeoutMigrate"])

    def _is_hot(self, option: str) -> bool:
        """Tell whether a running VM takes a change of this option without a restart."""
        features = self.new.get("hotplug", "network,disk,usb")
        if option.startswith("net"):
            return "network" in features or features == "1"
        return option in HOT_OPTIONS

    def _settle_power(self) -> None:
        """Leave the VM in the power state asked for, with the changes in effect."""
        power = self.power
        if self.new["template"]:
            power.shut_down()
            if not self.old.get("template"):
                upid = self.context.client.post(f"{power.path}/template")
                self.context.client.wait(upid, "VM convert to template", self.new["timeoutCreate"])
        elif not self.new["started"]:
            power.shut_down()
        elif not power.is_running():
            power.start()
        elif self._restart and self.new["rebootAfterUpdate"]:
            power.restart()
        elif self._restart:
            self.context.warn(
                "a reboot is required to apply configuration changes, but automatic reboots are"
                " disabled by 'reboot_after_update = false'. Please reboot the VM manually."
            )


def grow(power: Power, disk: Plain, seconds: float) -> None:
    """Grow a disk to its size in GiB; PVE refuses to shrink one."""
    parameters = {"disk": disk["interface"], "size": f"{disk['size']}G"}
    upid = power.client.put(f"{power.path}/resize", parameters)
    power.client.wait(upid, "VM disk resize", seconds)
