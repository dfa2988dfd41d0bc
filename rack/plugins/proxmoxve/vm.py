"""VmLegacy: create, read, update and delete a VM as the official provider does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from pulumi.provider.experimental.provider import PropertyDiffKind

from rack.plugins.contract import PartialCreationError, Plain, PluginError
from rack.plugins.proxmoxve import cloudinit, disks
from rack.plugins.proxmoxve import state as vmstate
from rack.plugins.proxmoxve.client import ApiError, CancelledError, Client, TaskError, volume_path
from rack.plugins.proxmoxve.options import block_of, default_boot_order, options
from rack.plugins.proxmoxve.power import Power
from rack.plugins.proxmoxve.resource import Context, Found, Kinds
from rack.plugins.proxmoxve.vmupdate import Change, grow

PASSWORD: Final = "initialization.userAccount.password"  # noqa: S105 - a property's path


class VmLegacy:
    """A QEMU virtual machine. Its id is the VM's number."""

    def create(self, context: Context, inputs: Plain) -> Found:
        """Create the configuration and the disks, then start the VM.

        Creation and start are different moments: a VM that exists but did not start, or whose
        image does not fit its disk, is reported as partial creation, so that the state holds it.
        """
        if inputs.get("clone"):
            raise PluginError(
                "`clone` is not part of the simulated rack: it has no templates to clone from"
            )
        client = context.client
        vm_id = inputs.get("vmId") or int(client.get("/cluster/nextid"))
        vm = {**inputs, "vmId": vm_id}
        vm["bootOrders"] = vm.get("bootOrders") or default_boot_order(vm)
        self._post(client, vm)
        return self._settle(context, vm, lambda: self._finish(client, vm), as_made(vm))

    def _post(self, client: Client, vm: Plain) -> None:
        """Create the VM; raise partial creation when nobody waited until the task had ended."""
        parameters: Plain = {
            "vmid": vm["vmId"],
            **options(vm, vm["vmId"]),
            **{disk["interface"]: disks.new(disk) for disk in vm.get("disks") or []},
            "pool": vm.get("poolId") or None,
        }
        upid = client.post(f"/nodes/{vm['nodeName']}/qemu", parameters)
        try:
            client.wait(upid, "VM create", vm["timeoutCreate"])
        except CancelledError as error:
            raise PartialCreationError(str(vm["vmId"]), as_made(vm), vm, str(error)) from None

    def _finish(self, client: Client, vm: Plain) -> None:
        power = Power(client, vm["nodeName"], vm["vmId"], vm)
        for disk in vm.get("disks") or []:
            if disk.get("importFrom"):
                grow(power, disk, vm["timeoutCreate"])
        if vm["template"]:
            upid = client.post(f"{power.path}/template")
            client.wait(upid, "VM convert to template", vm["timeoutCreate"])
        elif vm["started"]:
            power.start()
            if vm["reboot"]:
                power.restart()

    def _settle(
        self, context: Context, vm: Plain, action: Callable[[], None], unread: Plain | None = None
    ) -> Found:
        """Run what follows the VM's creation, and read the VM.

        A failure is reported together with what the VM really is by then; `unread` is reported
        when the VM cannot be read either, and without it such a failure is an ordinary one.
        """
        try:
            action()
            return self._must_find(context, vm)
        except PluginError as error:
            found: Found | None = None
            with suppress(PluginError):
                # Without the guest agent, which may be what failed.
                found = self._read(context, str(vm["vmId"]), vm, ask_agent=False)
            outputs = found.outputs if found else unread
            if outputs is None:
                raise
            raise PartialCreationError(str(vm["vmId"]), outputs, vm, str(error)) from error

    def _must_find(self, context: Context, vm: Plain) -> Found:
        found = self.read(context, str(vm["vmId"]), vm)
        if found is None:
            raise PluginError(
                f"the API does not show VM {vm['vmId']} on node {vm['nodeName']}: it is gone, or"
                " the token lacks VM.Audit on /vms"
            )
        return found

    def read(self, context: Context, resource_id: str, state: Plain) -> Found | None:
        """Read the VM of the id `vmid`, or `node/vmid` in an import."""
        return self._read(context, resource_id, state, ask_agent=True)

    def _read(
        self, context: Context, resource_id: str, current: Plain, *, ask_agent: bool
    ) -> Found | None:
        client = context.client
        vm_id = _vm_id(resource_id)
        resource = _resource_of(client, vm_id)
        if resource is None:
            return None
        path = f"/nodes/{resource['node']}/qemu/{vm_id}"
        try:
            config = vmstate.as_text(client.get(f"{path}/config"))
            running = client.get(f"{path}/status/current")["status"] == "running"
        except ApiError as error:
            if error.gone:
                return None
            raise
        node, pool = resource["node"], resource.get("pool", "")
        observed = vmstate.Observed(vm_id, node, config, running, pool)
        outputs = vmstate.properties(observed, current, _format_of(client, observed.node))
        if ask_agent and running and block_of(outputs, "agent")["enabled"]:
            outputs = self._with_addresses(context, observed, outputs, current)
        return Found(str(vm_id), outputs, vmstate.inputs_of(outputs))

    def _with_addresses(
        self, context: Context, vm: vmstate.Observed, outputs: Plain, current: Plain
    ) -> Plain:
        try:
            found = Power(context.client, vm.node, vm.vm_id, outputs).interfaces()
        except CancelledError:
            raise
        except PluginError as error:
            # As the official provider: the VM is there and runs, only its addresses are unknown.
            context.warn(f"error waiting for network interfaces from QEMU agent: {error}")
            return outputs
        seen = vmstate.Observed(vm.vm_id, vm.node, vm.config, vm.running, vm.pool, found)
        return vmstate.properties(seen, current, _format_of(context.client, vm.node))

    def update(self, context: Context, resource_id: str, old: Plain, new: Plain) -> Plain:
        """Change the VM in place; what a running VM cannot take restarts it, if it may."""
        vm_id = int(resource_id)
        change = Change(context, vm_id, old, new)
        change.prepare()
        return self._settle(context, {**new, "vmId": vm_id}, change.apply).outputs

    def delete(self, context: Context, resource_id: str, state: Plain) -> None:
        """Switch the VM off and remove it with its disks."""
        vm_id = int(resource_id)
        power = Power(context.client, state["nodeName"], vm_id, state)
        try:
            if power.is_running():
                power.stop() if state["stopOnDestroy"] else power.shut_down()
            upid = context.client.delete(
                power.path,
                purge=state["purgeOnDestroy"],
                **{"destroy-unreferenced-disks": state["deleteUnreferencedDisksOnDestroy"]},
            )
            context.client.wait(upid, "VM delete", state["timeoutStopVm"])
        except (ApiError, TaskError) as error:
            # Something else may be what does not exist, a storage for example.
            if not error.gone or _resource_of(context.client, vm_id):
                raise

    def refine(self, kinds: Kinds, old: Plain, new: Plain) -> Kinds:
        """Apply the rules on migration, templates, hotplug and masked passwords."""
        kept = dict(kinds)
        if new.get("migrate") and "nodeName" in kept:
            kept["nodeName"] = PropertyDiffKind.UPDATE
        if new.get("template"):
            kept.pop("started", None)
        if _features(old.get("hotplug")) == _features(new.get("hotplug")):
            kept.pop("hotplug", None)
        password = ((old.get("initialization") or {}).get("userAccount") or {}).get("password")
        if cloudinit.is_masked(password):
            kept.pop(PASSWORD, None)
        return kept


def as_made(vm: Plain) -> Plain:
    """Return what a VM is between its creation and its start, as far as its inputs tell."""
    return {**vm, "started": False}


def _features(hotplug: Any) -> list[str]:
    return sorted(hotplug.split(",")) if isinstance(hotplug, str) else []


def _vm_id(resource_id: str) -> int:
    number = resource_id.rpartition("/")[2]
    if not number.isdigit():
        raise PluginError(f"unexpected format of ID ({resource_id}), expected node/id")
    return int(number)


def _resource_of(client: Client, vm_id: int) -> Plain | None:
    """Find the VM in the cluster: its node and pool."""
    for resource in client.get("/cluster/resources", type="vm"):
        if resource.get("vmid") == vm_id:
            return dict(resource)
    return None


def _format_of(client: Client, node: str) -> disks.FormatOf:
    """Ask a storage for the format of a volume, when the configuration does not say."""

    def ask(volume: str) -> str | None:
        try:
            return str(client.get(volume_path(node, volume)).get("format") or "") or None
        except ApiError as error:
            if error.status in (401, 403):
                raise
            # The volume is gone, or the storage cannot tell: no reason to hide the VM.
            return None

    return ask
