"""VMs of a host: configuration, power, and what they are doing."""

from __future__ import annotations

from typing import Any, Final

from rack.proxmox.endpoints import BOOLEAN, UNKNOWN, Call, endpoint, on
from rack.world.errors import Refused, invalid
from rack.world.propertystring import Key
from rack.world.qemu import Vm, parse_network
from rack.world.storage import bytes_of
from rack.world.vmoptions import DRIVE, family, is_drive, option
from rack.world.vmrequests import VmRequests

MIB: Final = 1 << 20
LIST: Final = "/nodes/{node}/qemu"
ONE: Final = LIST + "/{vmid}"
VM_SUMMARY_KEYS: Final[tuple[str, ...]] = (
    "vmid", "name", "status", "template", "tags", "lock", "uptime", "cpu", "maxcpu", "mem",
    "maxmem", "memhost", "disk", "maxdisk", "diskread", "diskwrite", "netin", "netout",
)  # fmt: skip
_COUNT: Final = Key("integer", minimum=0)
_CREATE: Final = {
    "vmid": Key("integer", minimum=100, maximum=999_999_999, required=True),
    "pool": Key(),
    "start": BOOLEAN,
    "unique": BOOLEAN,
    "storage": Key(),
}
_UPDATE: Final = {
    "delete": Key(),
    "digest": Key(longest=40),
    "force": BOOLEAN,
    "skiplock": BOOLEAN,
}
_AGENT_AWAY: Final = "QEMU guest agent is not running\n"


def _requests(call: Call) -> VmRequests:
    return VmRequests(call.world, call.host.name, call.who, call.now)


def _vm(call: Call) -> Vm:
    return call.world.vm(call.number("vmid"), call.host.name)


def _option_rule(name: str) -> Key | None:
    known = option(name)
    return known.rule if known else None


def _options(call: Call, own: tuple[str, ...]) -> dict[str, str]:
    """Options of the VM among the parameters, with their formats checked."""
    found = {name: call.text(name) for name in call.values if name not in own}
    problems: dict[str, str] = {}
    for name, text in found.items():
        try:
            _check_format(name, text)
        except Refused as problem:
            problems[name] = f"invalid format - {problem.message}"
    if problems:
        refusal = invalid()
        refusal.errors = problems
        raise refusal
    return found


def _check_format(name: str, text: str) -> None:
    known = option(name)
    if known is None:
        raise Refused(UNKNOWN)
    if family(name) == "net":
        parse_network(text)
    elif known.format is not None:
        known.format.parse(text)


def vm_summary(call: Call, vm: Vm) -> dict[str, Any]:
    """What lists say about a VM; sizes in bytes."""
    memory = vm.memory_mib * MIB
    found: dict[str, Any] = {
        "vmid": vm.vmid,
        "name": vm.name,
        "status": "running" if vm.is_running else "stopped",
        "uptime": int(call.now - vm.started_at) if vm.is_running else 0,
        "cpu": 0,
        "cpus": vm.cpus,
        "maxcpu": vm.cpus,
        "mem": memory if vm.is_running else 0,
        "memhost": memory if vm.is_running else 0,
        "maxmem": memory,
        "disk": 0,
        "maxdisk": _boot_disk_size(vm),
        "diskread": 0,
        "diskwrite": 0,
        "netin": 0,
        "netout": 0,
    }
    more = {"pid": vm.pid, "lock": vm.lock, "tags": vm.config.get("tags", "")}
    found |= {key: value for key, value in more.items() if value}
    if vm.config.get("template") == "1":
        found["template"] = 1
    return found


def _boot_disk_size(vm: Vm) -> int:
    for name in vm.boot_order():
        size = (
            DRIVE.parse(vm.config[name]).get("size") if is_drive(name) and name in vm.config else ""
        )
        if size:
            return bytes_of(size)
    return 0


@endpoint("GET", LIST, parameters={"full": BOOLEAN})
def index(call: Call) -> Any:
    """VMs of a host that the caller may see."""
    hidden = ("maxcpu",)
    return [
        {key: value for key, value in vm_summary(call, vm).items() if key not in hidden}
        for vm in call.world.vms_of(call.host.name)
        if call.has(f"/vms/{vm.vmid}", "VM.Audit")
    ]


@endpoint("POST", LIST, parameters=_CREATE, is_option=_option_rule)
def create(call: Call) -> Any:
    """Create a VM, in a task."""
    options = _options(call, ("node", *_CREATE))
    return _requests(call).create(
        call.number("vmid"), options, pool=call.text("pool"), start=call.flag("start")
    )


@endpoint(
    "GET",
    ONE + "/config",
    on("/vms/{vmid}", "VM.Audit"),
    parameters={"current": BOOLEAN, "snapshot": Key()},
)
def config(call: Call) -> Any:
    """The configuration with what is pending; with `current`, what is in effect."""
    vm = _vm(call)
    return vm.fields(vm.config if call.flag("current") else vm.effective())


def _configure(call: Call) -> None:
    options = _options(call, ("node", "vmid", "background_delay", *_UPDATE))
    if call.flag("skiplock"):
        raise invalid(skiplock="Only root may use this option.")
    _requests(call).configure(
        call.number("vmid"), options, call.text("delete"), call.text("digest")
    )


@endpoint("PUT", ONE + "/config", parameters=_UPDATE, is_option=_option_rule)
def put_config(call: Call) -> Any:
    """Change the configuration at once."""
    _configure(call)


@endpoint(
    "POST",
    ONE + "/config",
    parameters={**_UPDATE, "background_delay": Key("integer", minimum=1, maximum=30)},
    is_option=_option_rule,
)
def post_config(call: Call) -> Any:
    """Change the configuration in a task. The rack changes it at once and ends the task."""
    _configure(call)
    return call.world.submit("qmconfig", call.host.name, call.text("vmid"), call.who, call.now)


@endpoint("GET", ONE + "/pending", on("/vms/{vmid}", "VM.Audit"))
def pending(call: Call) -> Any:
    """Options with the values that are in effect and that wait for the next start."""
    vm = _vm(call)
    live, later = vm.fields(vm.config), vm.fields(vm.pending)
    found = []
    for name in sorted({*vm.config, *vm.pending}):
        entry: dict[str, Any] = {"key": name}
        if name in vm.config:
            entry["value"] = live[name]
        if name in vm.pending:
            entry["pending"] = later[name]
        if name in vm.pending_delete:
            entry["delete"] = 1
        found.append(entry)
    return [*found, {"key": "digest", "value": vm.digest}]


@endpoint("GET", ONE + "/status/current", on("/vms/{vmid}", "VM.Audit"))
def current(call: Call) -> Any:
    """What the VM is doing."""
    vm = _vm(call)
    found = {key: v for key, v in vm_summary(call, vm).items() if key != "maxcpu"}
    found |= {"qmpstatus": found["status"], "ha": {"managed": 0}}
    if vm.wants_agent():
        found["agent"] = 1
    if vm.is_running:
        machine = "pc-q35-10.0" if vm.is_q35 else "pc-i440fx-10.0"
        found |= {"running-machine": f"{machine}+pve0", "running-qemu": "10.0.2"}
    return found


_SKIP: Final = {"skiplock": BOOLEAN}


def _refuse_skiplock(call: Call) -> None:
    if call.flag("skiplock"):
        raise invalid(skiplock="Only root may use this option.")


@endpoint(
    "POST",
    ONE + "/status/start",
    on("/vms/{vmid}", "VM.PowerMgmt"),
    parameters={**_SKIP, "timeout": _COUNT, "machine": Key(), "force-cpu": Key()},
)
def start(call: Call) -> Any:
    """Start the VM, in a task: what is wrong shows there."""
    _refuse_skiplock(call)
    return _requests(call).start(call.number("vmid"))


@endpoint(
    "POST",
    ONE + "/status/stop",
    on("/vms/{vmid}", "VM.PowerMgmt"),
    parameters={**_SKIP, "timeout": _COUNT, "keepActive": BOOLEAN, "overrule-shutdown": BOOLEAN},
)
def stop(call: Call) -> Any:
    """Pull the plug, in a task."""
    _refuse_skiplock(call)
    return _requests(call).stop(call.number("vmid"))


@endpoint(
    "POST",
    ONE + "/status/shutdown",
    on("/vms/{vmid}", "VM.PowerMgmt"),
    parameters={**_SKIP, "timeout": _COUNT, "forceStop": BOOLEAN, "keepActive": BOOLEAN},
)
def shutdown(call: Call) -> Any:
    """Ask the guest to switch off, in a task."""
    _refuse_skiplock(call)
    return _requests(call).shutdown(call.number("vmid"), force=call.flag("forceStop"))


@endpoint(
    "POST",
    ONE + "/status/reboot",
    on("/vms/{vmid}", "VM.PowerMgmt"),
    parameters={"timeout": _COUNT},
)
def reboot(call: Call) -> Any:
    """Shut the VM down and start it again, in a task."""
    return _requests(call).reboot(call.number("vmid"))


@endpoint("POST", ONE + "/status/reset", on("/vms/{vmid}", "VM.PowerMgmt"), parameters=_SKIP)
def reset(call: Call) -> Any:
    """Press the reset button, in a task."""
    _refuse_skiplock(call)
    return _requests(call).reset(call.number("vmid"))


@endpoint(
    "DELETE",
    ONE,
    on("/vms/{vmid}", "VM.Allocate"),
    parameters={**_SKIP, "purge": BOOLEAN, "destroy-unreferenced-disks": BOOLEAN},
)
def destroy(call: Call) -> Any:
    """Remove a stopped VM with its disks, in a task."""
    _refuse_skiplock(call)
    unreferenced = call.flag("destroy-unreferenced-disks")
    return _requests(call).destroy(call.number("vmid"), unreferenced=unreferenced)


@endpoint(
    "PUT",
    ONE + "/resize",
    on("/vms/{vmid}", "VM.Config.Disk"),
    parameters={
        **_SKIP,
        "disk": Key(required=True),
        "size": Key(pattern=r"\+?\d+(\.\d+)?[KMGT]?", required=True),
        "digest": Key(longest=40),
    },
)
def resize(call: Call) -> Any:
    """Grow a disk, in a task."""
    return _requests(call).resize(call.number("vmid"), call.text("disk"), call.text("size"))


@endpoint("GET", ONE + "/agent/network-get-interfaces", on("/vms/{vmid}", "VM.GuestAgent.Audit"))
def interfaces(call: Call) -> Any:
    """The guest's network interfaces, from its agent."""
    vm = _vm(call)
    if not vm.wants_agent():
        raise Refused("No QEMU guest agent configured\n")
    if not vm.is_running:
        raise Refused(f"VM {vm.vmid} is not running\n")
    if vm.machine is None:
        raise Refused(_AGENT_AWAY)
    found = vm.machine.agent_interfaces()
    if not found:
        raise Refused(_AGENT_AWAY)
    return {"result": found}
