"""Layers 1 and 2: hands what the program registered to Proxmox VE and Talos, as plugins do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from rack.plugins.contract import PluginError, Schema
from rack.plugins.proxmoxve import disks
from rack.plugins.proxmoxve.codec import encode, unparse
from rack.plugins.proxmoxve.mapping import MAP
from rack.plugins.proxmoxve.options import options
from rack.plugins.talos import patches
from rack.talos.machines import reach
from rack.world.datacenter import Datacenter
from rack.world.errors import Refused
from rack.world.factory import accept, image, installer
from rack.world.machine import REBOOT_AFTER
from rack.world.mapping import PciMapping, check_map
from rack.world.storage import FetchedImage
from rack.world.vmoptions import HOSTPCI, family, option
from rack.world.vmrequests import VmRequests

from .recording import Plugins
from .sites import NOW, TOKEN


class Failure(Exception):  # noqa: N818 - what the world says, not a defect of the test
    """The first thing that does not work: at which layer, and what that layer says."""

    def __init__(self, layer: str, message: str) -> None:
        super().__init__(f"{layer}: {message}")
        self.layer, self.message = layer, message


class Hardware:
    """A world, and the resources that are put into it one after the other."""

    def __init__(self, world: Datacenter, recorded: Plugins) -> None:
        self.world = world
        self.recorded = recorded
        self.host_of: dict[int, str] = {}
        world.fetch_through(self._fetch)

    def put(self) -> None:
        """Make every resource in the order in which the engine was asked for it.

        Raises:
            Failure: the first refusal.
        """
        for one in self.recorded.resources:
            if step := STEPS.get(one.type):
                inputs = whole(one.inputs)
                check_inputs(one.name, one.type, inputs)
                try:
                    step(self, inputs)
                except Refused as refusal:
                    said = "; ".join([refusal.message.strip(), *refusal.errors.values()])
                    raise Failure(refusal.layer, f"{one.name}: {said}") from None
                except PluginError as error:
                    raise Failure("plugin", f"{one.name}: {error}") from None

    def _fetch(self, url: str) -> FetchedImage:
        content = image(self.world.schematics, urlsplit(url).path)
        return FetchedImage(
            filename=url.rpartition("/")[2],
            size=content.size,
            virtual_size=content.virtual_size,
            format=content.format,
            content=content,
        )

    def _done(self, upid: str) -> None:
        task = self.world.task(upid)
        if task is not None and task.failed:
            raise Refused("\n".join([*task.log, task.exit_status]))

    def schematic(self, inputs: Mapping[str, Any]) -> None:
        """Post a schematic to the image factory."""
        made = accept(inputs["schematic"])
        self.world.schematics[made.id] = made

    def file(self, inputs: Mapping[str, Any]) -> None:
        """Let a host download a file."""
        node, content = inputs["nodeName"], inputs["contentType"]
        storage = self.world.host(node).storage(inputs["datastoreId"])
        name = storage.check_download(content, inputs["fileName"])
        work = {"storage": storage.name, "content": content, "filename": name}
        self._done(self.world.submit("download", node, name, TOKEN, NOW, url=inputs["url"], **work))

    def mapping(self, inputs: Mapping[str, Any]) -> None:
        """Create a resource mapping."""
        name = inputs["name"]
        if HOSTPCI.keys["mapping"].problem(name):
            raise Refused(f"id: invalid format - invalid configuration ID '{name}'\n")
        entries = [unparse(encode(MAP, one)) for one in inputs["maps"]]
        check_map(entries)
        if name in self.world.mappings:
            raise Refused(f"create hardware mapping failed: pci ID '{name}' already defined\n")
        self.world.mappings[name] = PciMapping(map=entries, description=inputs.get("comment", ""))

    def vm(self, inputs: Mapping[str, Any]) -> None:
        """Create a VM, grow its imported disk, start it."""
        schema = Schema.load("proxmoxve")
        full = schema.with_defaults(schema.resource(VM).inputs, dict(inputs))
        vmid = full["vmId"]
        written = options(full, vmid) | {d["interface"]: disks.new(d) for d in full["disks"]}
        for name, text in written.items():
            check_option(name, text)
        requests = VmRequests(self.world, full["nodeName"], TOKEN, NOW)
        self._done(requests.create(vmid, written))
        for disk in full["disks"]:
            self._done(requests.resize(vmid, disk["interface"], f"{disk['size']}G"))
        self._done(requests.start(vmid))

    def apply(self, inputs: Mapping[str, Any]) -> None:
        """Give a machine its configuration."""
        text = patches.apply_to_text(
            inputs["machineConfigurationInput"], inputs.get("configPatches") or []
        )
        _, machine = reach(self.world, inputs["node"])
        machine.apply(text, NOW)
        wanted = installer(self.world.schematics, machine.config.at("machine", "install", "image"))
        booted = machine.image
        if booted is None or wanted.schematic_id != booted.schematic_id:
            raise Refused("the installer is not of the schematic that the machine booted", "talos")

    def bootstrap(self, inputs: Mapping[str, Any]) -> None:
        """Start etcd."""
        _, machine = reach(self.world, inputs["node"])
        machine.bootstrap(NOW)

    def kubeconfig(self, inputs: Mapping[str, Any]) -> None:
        """Ask for the administrator's access."""
        _, machine = reach(self.world, inputs["node"])
        machine.require_control_plane("kubeconfig")

    def joined(self, names: set[str]) -> None:
        """Every machine runs, has joined, drives all of its cards, and stays up.

        Raises:
            Failure: one does not.
        """
        if self.world.cluster is None:
            raise Failure("talos", "no control plane was bootstrapped")
        plane = next(machine for _, machine in self.world.machines if machine.etcd)
        for vm, machine in self.world.machines:
            if problem := machine.problem or machine.join_problem(plane):
                raise Failure("talos", f"VM {vm.vmid}: {problem}")
            facts = machine.facts()
            if facts is None:
                raise Failure("talos", f"VM {vm.vmid} is {machine.stage}")
            if len(facts.gpus) and (
                facts.driver is None or len(facts.driver.gpus) < len(facts.gpus)
            ):
                said = facts.driver.problem if facts.driver else "no NVIDIA module is loaded"
                raise Failure("nvidia", f"{facts.name}: {said}")
        missing = names - {facts.name for facts in self.world.nodes}
        if missing:
            raise Failure("talos", f"not joined: {', '.join(sorted(missing))}")
        self.world.advance(NOW + 2 * REBOOT_AFTER)
        for vm, machine in self.world.machines:
            if machine.stage != "running":
                raise Failure("talos", f"VM {vm.vmid} is {machine.stage} an hour later")


def check_option(name: str, text: str) -> None:
    """What the API checks of each option of a VM before it takes the request."""
    known = option(name)
    if known is None:
        raise Refused(f"{name}: property is not defined in schema\n")
    if problem := known.rule.problem(text):
        raise Refused(f"{name}: {problem}\n")
    if known.format is not None and family(name) != "net":
        known.format.parse(text)


def whole(value: Any) -> Any:
    """Numbers as the plugins read them from the protocol: whole ones are integers."""
    if isinstance(value, dict):
        return {key: whole(one) for key, one in value.items()}
    if isinstance(value, list):
        return [whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def check_inputs(name: str, kind: str, inputs: dict[str, Any]) -> None:
    """What a plugin checks of a resource's inputs before it does anything.

    Raises:
        Failure: an input is unknown, missing or of another type.
    """
    schema = Schema.load(kind.partition(":")[0])
    for failure in schema.check(schema.resource(kind).inputs, inputs):
        raise Failure("plugin", f"{name}: {failure.property}: {failure.reason}")


VM: Final = "proxmoxve:index/vmLegacy:VmLegacy"
STEPS: Final[Mapping[str, Callable[[Hardware, Mapping[str, Any]], None]]] = {
    "talos:imageFactory/schematic:Schematic": Hardware.schematic,
    "proxmoxve:download/file:File": Hardware.file,
    "proxmoxve:hardware/mapping/pci:Pci": Hardware.mapping,
    VM: Hardware.vm,
    "talos:machine/configurationApply:ConfigurationApply": Hardware.apply,
    "talos:machine/bootstrap:Bootstrap": Hardware.bootstrap,
    "talos:cluster/kubeconfig:Kubeconfig": Hardware.kubeconfig,
}
