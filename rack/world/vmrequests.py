"""What Proxmox VE checks before it takes a request about a VM, and the task that it then starts.

Parameters were checked against their types before. `who` is the user or token that asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rack.world.access import ROOT
from rack.world.datacenter import Datacenter
from rack.world.disks import DiskMaker, check_drive, remove_drive
from rack.world.errors import Refused, forbidden, invalid
from rack.world.propertystring import is_true, split_list
from rack.world.qemu import Vm, parse_network, require_unlocked
from rack.world.vmoptions import HOSTPCI, family, is_drive, option
from rack.world.vmwork import set_options

_EITHER_CLOUD_INIT: Final = ("VM.Config.Cloudinit", "VM.Config.Network")


@dataclass(frozen=True)
class VmRequests:
    """Requests of one user or token about the VMs of one host."""

    world: Datacenter
    node: str
    who: str
    now: float

    def create(
        self, vmid: int, options: Mapping[str, str], *, pool: str = "", start: bool = False
    ) -> str:
        """Create a VM; its disks are made by the task whose UPID is returned.

        Raises:
            Refused: 403, 400 or 500 as PVE answers, for example because the number is taken.
        """
        host = self.world.host(self.node)
        if pool:
            raise Refused(f"Permission check failed (pool '{pool}' does not exist)\n", status=403)
        if start:
            self._check(vmid, "VM.PowerMgmt")
        if not self._may(vmid, "VM.Allocate"):
            raise Refused("Permission check failed\n", status=403)
        for name in filter(is_drive, sorted(options)):
            check_drive(name, options[name], host, self.world.access, self.who, vmid)
        self._check_options(vmid, options)
        if vmid in self.world.vms:
            taken = self.world.vms[vmid].node
            raise Refused(
                f"unable to create VM {vmid} - VM {vmid} already exists on node '{taken}'\n"
            )
        self.world.vms[vmid] = Vm(vmid=vmid, node=self.node, lock="create")
        return self._submit("qmcreate", vmid, options=dict(options), start=start)

    def configure(self, vmid: int, options: Mapping[str, str], delete: str, digest: str) -> None:
        """Change a VM's configuration; what a running VM cannot take waits for its next start.

        Raises:
            Refused: as PVE answers; then nothing was changed.
        """
        vm = self.world.vm(vmid, self.node)
        gone = split_list(delete)
        if not gone and not options:
            raise Refused("no options specified\n")
        self._check_deletions(gone, options)
        host = self.world.host(self.node)
        for name in filter(is_drive, sorted(options)):
            self._check(vmid, "VM.Config.Disk")
            check_drive(name, options[name], host, self.world.access, self.who, vmid)
        self._check_options(vmid, options)
        for name in gone:
            self._check_option(vmid, name, vm.config.get(name, ""))
        if digest and digest != vm.digest:
            raise Refused("checksum mismatch (file change by other user?)\n")
        require_unlocked(vm)
        self._check_balloon({**vm.effective(), **options})
        self._change(vm, options, gone)

    def _check_deletions(self, gone: list[str], options: Mapping[str, str]) -> None:
        for name in gone:
            if name in options:
                raise invalid(
                    delete=f"you can't use '-{name}' and -delete {name}' at the same time"
                )
            if option(name) is None:
                raise invalid(delete=f"unknown option '{name}'")

    def _check_balloon(self, config: Mapping[str, str]) -> None:
        balloon, memory = config.get("balloon", "0"), config.get("memory", "512")
        if int(balloon) > int(memory.partition(",")[0].removeprefix("current=")):
            raise Refused("balloon value too large (must be smaller than assigned memory)\n")

    def _change(self, vm: Vm, options: Mapping[str, str], gone: list[str]) -> None:
        host = self.world.host(self.node)
        maker = DiskMaker(host, vm, self.now, [])
        waiting = {name: text for name, text in options.items() if self._must_wait(vm, name)}
        scratch = vm.model_copy(deep=True)
        maker.vm = scratch
        try:
            set_options(scratch, options, maker)
        except Refused:
            maker.undo()
            raise
        for name in options:
            if name in waiting:
                vm.pending[name] = scratch.config[name]
                vm.pending_delete = [n for n in vm.pending_delete if n != name]
            else:
                vm.config[name] = scratch.config[name]
                vm.pending.pop(name, None)
        vm.config |= {n: t for n, t in scratch.config.items() if family(n) == "unused"}
        for name in gone:
            self._delete(vm, name)

    def _must_wait(self, vm: Vm, name: str) -> bool:
        known = option(name)
        if not vm.is_running or (known is not None and known.hot):
            return False
        # A new disk is plugged into a running VM, another setting of one that is there is not.
        return not (family(name) in ("scsi", "virtio") and name not in vm.config)

    def _delete(self, vm: Vm, name: str) -> None:
        vm.pending.pop(name, None)
        if name not in vm.config:
            return
        if self._must_wait(vm, name):
            vm.pending_delete = sorted({*vm.pending_delete, name})
        elif is_drive(name) or family(name) == "unused":
            remove_drive(vm, self.world.host(self.node), name)
        else:
            del vm.config[name]

    def start(self, vmid: int) -> str:
        """Start a VM. Whatever is wrong shows in the task: PVE answers with success first."""
        self._powered(vmid)
        return self._submit("qmstart", vmid)

    def stop(self, vmid: int) -> str:
        """Pull a VM's plug."""
        self._powered(vmid)
        return self._submit("qmstop", vmid)

    def shutdown(self, vmid: int, *, force: bool) -> str:
        """Ask a VM's guest to switch off."""
        self._powered(vmid)
        return self._submit("qmshutdown", vmid, force=force)

    def reboot(self, vmid: int) -> str:
        """Shut a running VM down and start it again."""
        return self._when_running("qmreboot", vmid)

    def reset(self, vmid: int) -> str:
        """Press a running VM's reset button."""
        return self._when_running("qmreset", vmid)

    def _powered(self, vmid: int) -> Vm:
        self._check(vmid, "VM.PowerMgmt")
        return self.world.vm(vmid, self.node)

    def _when_running(self, kind: str, vmid: int) -> str:
        if not self._powered(vmid).is_running:
            raise Refused(f"VM {vmid} not running\n")
        return self._submit(kind, vmid)

    def destroy(self, vmid: int, *, unreferenced: bool) -> str:
        """Remove a stopped VM with its disks."""
        self._check(vmid, "VM.Allocate")
        vm = self.world.vm(vmid, self.node)
        if is_true(vm.config.get("protection")):
            raise Refused(f"can't remove VM {vmid} - protection mode enabled\n")
        if vm.is_running:
            raise Refused(f"VM {vmid} is running - destroy failed\n")
        return self._submit("qmdestroy", vmid, unreferenced=unreferenced)

    def resize(self, vmid: int, disk: str, size: str) -> str:
        """Grow a disk."""
        self._check(vmid, "VM.Config.Disk")
        require_unlocked(self.world.vm(vmid, self.node))
        return self._submit("resize", vmid, disk=disk, size=size)

    def _submit(self, kind: str, vmid: int, **work: Any) -> str:
        return self.world.submit(kind, self.node, str(vmid), self.who, self.now, **work)

    def _may(self, vmid: int, privilege: str) -> bool:
        return self.world.access.has(self.who, f"/vms/{vmid}", privilege)

    def _check(self, vmid: int, privilege: str) -> None:
        self.world.access.check(self.who, f"/vms/{vmid}", privilege)

    def _check_options(self, vmid: int, options: Mapping[str, str]) -> None:
        for name in sorted(options):
            self._check_option(vmid, name, options[name])

    def _check_option(self, vmid: int, name: str, text: str) -> None:
        """Demand what setting or deleting an option takes; some depend on its value."""
        known = option(name)
        if self.who == ROOT or known is None or is_drive(name):
            return
        if not known.privilege:
            raise Refused(f"only root can set '{name}' config\n")
        kind = family(name)
        if kind == "hostpci" and text:
            self._check_hostpci(vmid, name, text)
        elif kind in ("serial", "usb") and text.startswith(("/dev/", "host=")):
            raise Refused(f"only root can set '{name}' config for real devices\n")
        elif known.privilege == "VM.Config.Cloudinit":
            if not any(self._may(vmid, privilege) for privilege in _EITHER_CLOUD_INIT):
                raise forbidden(f"/vms/{vmid}", *_EITHER_CLOUD_INIT)
        else:
            self._check(vmid, known.privilege)
        self._check_beyond_vm(name, text)

    def _check_beyond_vm(self, name: str, text: str) -> None:
        """Some options touch more than the VM: the host's own start, a bridge."""
        if name == "startup":
            self.world.access.check(self.who, "/", "Sys.Modify")
        bridge = parse_network(text).get("bridge") if family(name) == "net" and text else None
        if bridge:
            path = f"/sdn/zones/localnetwork/{bridge}"
            self.world.access.check_any(self.who, path, ("SDN.Use",))

    def _check_hostpci(self, vmid: int, name: str, text: str) -> None:
        device = HOSTPCI.parse(text)
        if "host" in device:
            raise Refused(f"only root can set '{name}' config for non-mapped devices\n")
        if "mapping" not in device:
            raise Refused("either 'host' or 'mapping' must be set.\n")
        path = f"/mapping/pci/{device['mapping']}"
        self.world.access.check(self.who, path, "Mapping.Use")
        self._check(vmid, "VM.Config.HWType")
        if "romfile" in device:
            raise invalid(**{name: "only root@pam can set 'romfile' option"})
