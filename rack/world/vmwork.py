"""What the tasks of a host do once they run: the second half of each long operation.

Each function gets the world and the task; what it raises is the task's error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from rack.world.disks import DiskMaker, boot_volume, remove_drive, resize
from rack.world.errors import Refused
from rack.world.host import Host
from rack.world.machine import Machine, Nocloud
from rack.world.propertystring import split_list
from rack.world.qemu import (
    Vm,
    default_boot_order,
    new_mac_address,
    new_uuid,
    parse_network,
    require_unlocked,
    write_network,
)
from rack.world.starting import Starter, warnings
from rack.world.vmoptions import family, is_drive

if TYPE_CHECKING:
    from rack.world.datacenter import Datacenter
    from rack.world.tasks import Task

Work = Callable[["Datacenter", "Task"], None]


def create(world: Datacenter, task: Task) -> None:
    """Make the disks of a VM and write its configuration; a failure leaves nothing."""
    vmid = int(task.id)
    vm = world.vm(vmid)
    maker = DiskMaker(world.hosts[vm.node], vm, task.finish, [])
    options: dict[str, str] = task.work["options"]
    try:
        set_options(vm, options, maker)
    except Refused as error:
        maker.undo()
        del world.vms[vmid]
        raise Refused(f"unable to create VM {vmid} - {error.message}") from None
    if order := default_boot_order(vm.config):
        vm.config.setdefault("boot", "order=" + ";".join(order))
    seed = f"{vmid}/{task.start}"
    vm.config.setdefault("smbios1", f"uuid={new_uuid(seed)}")
    vm.config.setdefault("vmgenid", new_uuid(f"{seed}/generation"))
    vm.config["meta"] = f"creation-qemu=10.0.2,ctime={int(task.start)}"
    task.log += [f"{name}: successfully created disk '{vm.config[name]}'" for name in vm.drives()]
    vm.lock = ""
    if task.work.get("start"):
        world.submit("qmstart", vm.node, task.id, task.user, task.finish)


def set_options(vm: Vm, options: Mapping[str, str], maker: DiskMaker) -> None:
    """Put options into a VM's configuration, making the disks and addresses they ask for."""
    for name in sorted(options):
        text = options[name]
        if is_drive(name):
            if name in vm.config and _file(text) != _file(vm.config[name]):
                remove_drive(vm, maker.host, name)
            text = maker.make(name, text)
        elif family(name) == "net":
            card = parse_network(text)
            card.setdefault("macaddr", new_mac_address(f"{vm.vmid}/{name}/{maker.now}"))
            text = write_network(card)
        elif name == "tags":
            text = ";".join(sorted(set(split_list(text))))
        vm.config[name] = text


def _file(drive: str) -> str:
    return drive.partition(",")[0].removeprefix("file=")


def start(world: Datacenter, task: Task) -> None:
    """Start a VM: check everything, take its devices from the host, power the machine."""
    vm = world.vm(int(task.id))
    host = world.hosts[vm.node]
    if vm.config.get("template") == "1":
        raise Refused("you can't start a vm if it's a template\n")
    require_unlocked(vm)
    if vm.is_running:
        raise Refused(f"VM {vm.vmid} already running\n")
    _apply_pending(vm, host)
    starter = Starter(vm, host, world.vms_of(vm.node), world.mappings)
    try:
        functions = starter.check()
        for function in functions:
            host.bind_group(function)
    finally:
        task.log += [*warnings(vm), *starter.log]
    vm.pid, vm.started_at = world.pid(), task.finish
    vm.passed = [function.address for function in functions]
    power_on(world, vm, task.finish)


def _apply_pending(vm: Vm, host: Host) -> None:
    """Put the changes into effect that waited for a start."""
    for name in vm.pending_delete:
        if name in vm.config and is_drive(name):
            remove_drive(vm, host, name)
    vm.config = vm.effective()
    vm.pending, vm.pending_delete = {}, []


def power_on(world: Datacenter, vm: Vm, now: float) -> None:
    """Let firmware start the operating system of the boot disk, where there is one."""
    host = world.hosts[vm.node]
    volume = boot_volume(vm, host)
    vm.booted = volume.identity if volume else ""
    there = {disk.identity for disk in host.volumes_of(vm.vmid)}
    vm.systems = {disk: system for disk, system in vm.systems.items() if disk in there}
    if volume is None or volume.image is None:
        return
    machine = vm.systems.setdefault(volume.identity, Machine())
    machine.latency = world.latency
    functions = [f for f in host.functions if f.address in vm.passed]
    nocloud = vm.nocloud(host.nameservers) or Nocloud()
    machine.power_on(volume.image, nocloud, functions, vm.hardware(volume.size), now)


def stop(world: Datacenter, task: Task) -> None:
    """Pull the plug; a VM that is off stays off."""
    vm = world.vm(int(task.id))
    require_unlocked(vm)
    vm.switch_off()


def shutdown(world: Datacenter, task: Task) -> None:
    """Ask the guest to switch off; where none listens, pull the plug if that was allowed."""
    vm = world.vm(int(task.id))
    require_unlocked(vm)
    if not vm.is_running:
        return
    hears = vm.machine is not None and vm.machine.stage != "booting"
    if not hears and not task.work.get("force"):
        raise Refused("VM quit/powerdown failed - got timeout\n")
    vm.switch_off()


def reboot(world: Datacenter, task: Task) -> None:
    """Shut a VM down and start it again, with what was pending."""
    shutdown(world, task)
    start(world, task)


def reset(world: Datacenter, task: Task) -> None:
    """Press the reset button: the machine boots, nothing of its hardware changes."""
    vm = world.vm(int(task.id))
    if vm.machine is not None:
        vm.machine.power_off()
    power_on(world, vm, task.finish)


def destroy(world: Datacenter, task: Task) -> None:
    """Remove a VM with its disks, and with unreferenced ones where that was asked for."""
    vm = world.vm(int(task.id))
    require_unlocked(vm)
    if vm.is_running:
        raise Refused(f"VM {vm.vmid} is running - destroy failed\n")
    host = world.hosts[vm.node]
    referenced = " ".join([*vm.config.values(), *vm.pending.values()])
    for volume in list(host.volumes_of(vm.vmid)):
        if volume.id in referenced or task.work.get("unreferenced"):
            host.free(volume.id)
    del world.vms[vm.vmid]
    path = f"/vms/{vm.vmid}"
    world.access.acl = [entry for entry in world.access.acl if entry.path != path]


def grow(world: Datacenter, task: Task) -> None:
    """Grow a disk."""
    vm = world.vm(int(task.id))
    resize(vm, world.hosts[vm.node], task.work["disk"], task.work["size"])


def download(world: Datacenter, task: Task) -> None:
    """Fetch a file into a storage."""
    storage = world.host(task.node).storage(task.work["storage"])
    content, name, url = (task.work[key] for key in ("content", "filename", "url"))
    existing = storage.volumes.get(storage.file_id(content, name))
    algorithm, wanted = task.work.get("algorithm", ""), task.work.get("checksum", "").lower()
    task.log.append(f"downloading {url} to /var/lib/vz/{content}/{name}")
    if existing:
        got = existing.checksums.get(algorithm, "")
        if wanted and got == wanted:
            task.log.append("OK, got correct file already, no need to download")
            return
        if wanted:
            raise Refused(f"checksum mismatch: got '{got}' != expect '{wanted}', aborting\n")
        raise Refused(f"refusing to override existing file '{storage.path_of(existing)}'\n")
    if task.work.get("compression"):
        raise Refused(f"decompression not supported for {content}\n")
    file = world.fetch(url)
    got = file.checksums.get(algorithm, "")
    if wanted and got != wanted:
        raise Refused(f"checksum mismatch: got '{got}' != expect '{wanted}'\n")
    storage.keep_download(content, name, file, task.finish)
    task.log.append(f"download of '{url}' to '{name}' finished")


def remove_volume(world: Datacenter, task: Task) -> None:
    """Remove a stored file or disk."""
    volume_id: str = task.work["volume"]
    host = world.host(task.node)
    if host.volume(volume_id) is None:
        raise Refused(f"unlink '{volume_id}' failed - No such file or directory\n")
    for vm in world.vms_of(task.node):
        if vm.is_running and any(volume_id in text for text in vm.config.values()):
            raise Refused(f"volume '{volume_id}' is in use by running VM {vm.vmid}\n")
    host.free(volume_id)
    task.log.append(f"Removed volume '{volume_id}'")


WORK: Final[Mapping[str, Work]] = {
    "qmcreate": create,
    "qmstart": start,
    "qmstop": stop,
    "qmshutdown": shutdown,
    "qmreboot": reboot,
    "qmreset": reset,
    "qmdestroy": destroy,
    "qmconfig": lambda world, task: None,
    "resize": grow,
    "download": download,
    "imgdel": remove_volume,
}
"""Kind of task → its work."""
