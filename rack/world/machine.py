"""A Talos Linux machine on a VM's disk.

It boots into maintenance mode, takes a configuration, runs, and refuses what Talos refuses. A
nocloud disk image counts as installed: applying a configuration neither pulls an installer nor
reboots, and the boot image's own extensions count until an upgrade replaces them.

The machine has no clock: every call gets `now` in seconds of Unix time, and `advance` lets happen
what is due.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Final, Literal

from pydantic import BaseModel

from rack.world.factory import ImageContent
from rack.world.firmware import boot_problem
from rack.world.guest_gpus import GuestGpu, module_extension, present
from rack.world.machine_config import InvalidConfiguration, MachineConfig, load
from rack.world.machine_config_rules import validate
from rack.world.machine_facts import Running, cluster_facts, node_facts
from rack.world.nodefacts import ClusterFacts, Frozen, NodeFacts
from rack.world.pci import PciFunction
from rack.world.talos_error import TalosError
from rack.world.tasks import Latency
from rack.world.vm import VmHardware

Stage = Literal["off", "booting", "maintenance", "running", "reboot-loop"]
ApplyMode = Literal["auto", "no_reboot", "reboot", "staged", "try"]

SECONDS: Final = {"boot": 35.0, "configure": 45.0, "upgrade": 90.0}
"""Realistic durations: firmware to API; configuration to kubelet; installer to reboot."""

REBOOT_AFTER: Final = 4206.0
"""Seconds after which a machine with NVIDIA's modules and no NVIDIA card gives up and reboots."""


class NocloudInterface(Frozen):
    """One network card in the nocloud data."""

    mac_address: str
    """Upper case; Talos finds the card by it."""
    address: str = ""
    """IPv4 address with prefix length; empty for DHCP."""
    gateway: str = ""


class Nocloud(Frozen):
    """What Proxmox VE's cloud-init drive tells the guest."""

    hostname: str = ""
    interfaces: tuple[NocloudInterface, ...] = ()
    nameservers: tuple[str, ...] = ()


class Machine(BaseModel):
    """One machine; it lives as long as the disk that it is on."""

    latency: Latency = "instant"
    stage: Stage = "off"
    problem: str = ""
    """Why it does not come up, as its console says; empty when nothing is wrong."""
    image: ImageContent | None = None
    """What the disk boots: its first image, or what an upgrade put there."""
    nocloud: Nocloud = Nocloud()
    functions: tuple[PciFunction, ...] = ()
    """PCI functions that were passed through at the last start."""
    hardware: VmHardware | None = None
    configuration: str = ""
    """The configuration in effect."""
    staged_configuration: str = ""
    """Takes effect at the next boot."""
    staged_image: ImageContent | None = None
    etcd: str = ""
    """Identity of the data in etcd on the disk; empty where there is none."""
    kernel_modules: frozenset[str] = frozenset()
    """Names declared since boot."""
    boots: int = 0
    booted_at: float = 0.0
    due: float | None = None
    heading_for: Stage = "off"
    """The stage that it reaches at `due`."""

    def power_on(
        self,
        image: ImageContent,
        nocloud: Nocloud,
        functions: Iterable[PciFunction],
        hardware: VmHardware,
        now: float,
    ) -> None:
        """Start with this hardware; `image` is what the disk was made from."""
        self.image = self.image or image
        self.nocloud, self.functions, self.hardware = nocloud, tuple(functions), hardware
        self._boot(now)
        self.advance(now)

    def power_off(self) -> None:
        """Lose power at once; the disk keeps configuration and etcd."""
        self.stage, self.due, self.problem = "off", None, ""

    def reboot(self, now: float) -> None:
        """Restart the operating system."""
        self._boot(now)
        self.advance(now)

    def advance(self, now: float) -> bool:
        """Let happen what is due until `now`; tell whether anything was."""
        moved = False
        while self.due is not None and self.due <= now:
            at, self.due, moved = self.due, None, True
            self._arrive(self.heading_for, at)
        return moved

    @property
    def next_event(self) -> float | None:
        """When something is due next, in Unix time; None where nothing is."""
        return self.due

    def _head_for(self, stage: Stage, at: float) -> None:
        self.heading_for, self.due = stage, at

    def _seconds(self, what: str) -> float:
        return SECONDS[what] if self.latency == "realistic" else 0.0

    def _boot(self, now: float) -> None:
        self.image, self.staged_image = self.staged_image or self.image, None
        self.configuration = self.staged_configuration or self.configuration
        self.staged_configuration = ""
        self.kernel_modules = frozenset()
        self.boots, self.booted_at = self.boots + 1, now
        self.stage, self.due, self.problem = (
            "booting",
            None,
            boot_problem(self._image, self._hardware),
        )
        if not self.problem:
            delay = self._seconds("boot") + (self._seconds("configure") if self._is_set_up else 0)
            self._head_for("running" if self._is_set_up else "maintenance", now + delay)

    def _arrive(self, stage: Stage, at: float) -> None:
        if stage == "booting":
            self._boot(at)
            return
        if stage == "running":
            if not self.hostname:
                self.problem = (
                    "waiting for a hostname: neither nocloud data nor configuration has one"
                )
                return
            self.kernel_modules |= self.config.kernel_modules
            if self._lacks_its_gpu:
                self._head_for("reboot-loop", self.booted_at + REBOOT_AFTER)
        self.stage = stage

    @property
    def _image(self) -> ImageContent:
        if self.image is None:
            raise AssertionError("a machine was used before its first start")
        return self.image

    @property
    def _hardware(self) -> VmHardware:
        if self.hardware is None:
            raise AssertionError("a machine was used before its first start")
        return self.hardware

    @property
    def gpus(self) -> list[GuestGpu]:
        """The NVIDIA cards on the machine's bus."""
        return present(self.functions, self._hardware)

    @property
    def _lacks_its_gpu(self) -> bool:
        return module_extension(self._image) is not None and not self.gpus

    @property
    def config(self) -> MachineConfig:
        """The configuration in effect; an empty one before the first was applied."""
        try:
            return load(self.configuration, self._image.release)
        except InvalidConfiguration:
            # An upgrade or a downgrade met a configuration of another version.
            return MachineConfig(())

    @property
    def _is_set_up(self) -> bool:
        return bool(self.config.main)

    @property
    def boot_id(self) -> str:
        """Another one at every boot."""
        seed = f"{self._hardware.vmid}/{self.boots}/{self.booted_at}"
        return str(uuid.uuid5(uuid.NAMESPACE_OID, seed))

    @property
    def hostname(self) -> str:
        """The node's name: the configuration's, else the platform's, else one that Talos makes."""
        config = self.config
        named = config.static_hostname or self.nocloud.hostname * self._reads_nocloud
        if named:
            return named.partition(".")[0].lower()
        if config.automatic_hostname == "off":
            return ""
        seed = uuid.uuid5(uuid.NAMESPACE_OID, str(self._hardware.vmid)).hex
        return f"talos-{seed[:3]}-{seed[3:6]}"

    @property
    def _reads_nocloud(self) -> bool:
        """Only an image of the nocloud platform looks at Proxmox VE's cloud-init drive."""
        return self._image.platform == "nocloud"

    @property
    def own_addresses(self) -> list[str]:
        """IPv4 addresses that are the machine's whenever its system is up, without prefix.

        The platform's come first; a configuration adds its own and takes none away.
        """
        found = [entry.address.partition("/")[0] for entry in self._static_interfaces()]
        config = self.config
        found += config.static_addresses
        found += config.virtual_addresses if self.etcd else []
        return list(dict.fromkeys(found))

    @property
    def addresses(self) -> list[str]:
        """Addresses that answer now."""
        return self.own_addresses if self.stage in ("maintenance", "running") else []

    def _static_interfaces(self) -> list[NocloudInterface]:
        cards = self._hardware.mac_addresses
        entries = self.nocloud.interfaces if self._reads_nocloud else ()
        return [entry for entry in entries if entry.address and entry.mac_address in cards]

    def agent_interfaces(self) -> list[dict[str, Any]]:
        """What the QEMU guest agent says of the network; empty where no agent answers.

        The agent is an extension, and works on the nocloud platform only.
        """
        names = {extension.name for extension in self._image.extensions}
        if "qemu-guest-agent" not in names or not self.addresses or not self._reads_nocloud:
            return []
        found = [_agent_interface("lo", "00:00:00:00:00:00", "127.0.0.1/8")]
        for index, entry in enumerate(self._static_interfaces()):
            found.append(_agent_interface(f"eth{index}", entry.mac_address.lower(), entry.address))
        return found

    def apply(self, text: str, now: float, mode: ApplyMode = "auto") -> str:
        """Take a machine configuration and return what Talos says it did with it.

        Raises:
            TalosError: the machine is not up, the configuration is not valid, or it needs a
                reboot and `mode` does not allow one.
        """
        self._require_up()
        new = self._checked(text)
        if self.stage == "maintenance":
            self.configuration = text
            self.stage = "booting"
            self._head_for("running", now + self._seconds("configure"))
            self.advance(now)
            return "Applied configuration without a reboot"
        must_reboot = self.config.needs_reboot(new)
        if mode == "staged":
            self.staged_configuration = text
            return "Staged configuration to be applied after the next reboot"
        if must_reboot and mode in ("no_reboot", "try"):
            message = "this config change can't be applied in immediate mode"
            raise TalosError("InvalidArgument", message)
        self.configuration, self.staged_configuration = text, ""
        if mode == "reboot" or must_reboot:
            self.reboot(now)
            return "Applied configuration with a reboot"
        self.kernel_modules |= new.kernel_modules
        return "Applied configuration without a reboot"

    def _checked(self, text: str) -> MachineConfig:
        try:
            new = load(text, self._image.release)
            if not new.main:
                raise InvalidConfiguration(
                    "the applied machine configuration doesn't contain v1alpha1 config, did you"
                    " mean to patch the machine config instead?"
                )
            validate(new, self._image.release)
        except InvalidConfiguration as error:
            raise TalosError("InvalidArgument", str(error)) from error
        return new

    def _require_up(self) -> None:
        if self.stage not in ("maintenance", "running"):
            raise TalosError("Unavailable", f"simulated rack: the machine is {self.stage}")

    def require_control_plane(self, call: str) -> None:
        """Refuse a call that only a configured control plane machine answers.

        Raises:
            TalosError: it is something else.
        """
        if self.stage != "running":
            raise TalosError("FailedPrecondition", f"{call} is not available yet")
        if self.config.role != "controlplane":
            raise TalosError("Unimplemented", f"{call} is only available on control plane nodes")

    def bootstrap(self, now: float) -> None:
        """Start a new etcd on this machine: once in the life of its disk.

        Raises:
            TalosError: it was done before, or this is no configured control plane machine.
        """
        self.require_control_plane("bootstrap")
        if self.etcd:
            raise TalosError("AlreadyExists", "etcd data directory is not empty")
        self.etcd = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.boot_id}/etcd/{now}"))

    def reset(self, now: float, *, reboot: bool) -> None:
        """Wipe configuration and etcd; then boot into maintenance mode, or switch off.

        Raises:
            TalosError: the machine is not up.
        """
        self._require_up()
        self.configuration = self.staged_configuration = self.etcd = ""
        if reboot:
            self.reboot(now)
        else:
            self.power_off()

    def upgrade(self, image: ImageContent, now: float) -> None:
        """Put what an installer brings on the disk and boot it.

        Raises:
            TalosError: the machine is not up, or runs a release that is too far away.
        """
        self._require_up()
        old = self._image.release.talos
        if problem := image.release.upgrade_problem(old):
            raise TalosError("FailedPrecondition", f"pre-flight checks failed: {problem}")
        self.staged_image = image
        self.stage = "booting"
        self._head_for("booting", now + self._seconds("upgrade"))
        self.advance(now)

    def facts(self) -> NodeFacts | None:
        """What the machine is to Kubernetes; None while it does not run."""
        if self.stage != "running":
            return None
        addresses = self.addresses
        return node_facts(
            Running(
                image=self._image,
                config=self.config,
                hardware=self._hardware,
                gpus=self.gpus,
                kernel_modules=self.kernel_modules,
                hostname=self.hostname,
                address=addresses[0] if addresses else "",
                boot_id=self.boot_id,
            )
        )

    @property
    def cluster(self) -> ClusterFacts | None:
        """The cluster whose etcd runs here; None while none does."""
        if self.stage != "running" or not self.etcd:
            return None
        address = next(iter(self.addresses), "")
        return cluster_facts(self.config, self._image, self._hardware.vmid, address, self.etcd)

    def join_problem(self, control_plane: Machine) -> str:
        """Why the kubelet here cannot join the other machine's cluster; empty when it can."""
        own, other = self.config, control_plane.config
        if own.pem("cluster", "ca", "crt") != other.pem("cluster", "ca", "crt"):
            return (
                "tls: failed to verify certificate: x509: certificate signed by unknown authority"
            )
        if own.at("cluster", "token") != other.at("cluster", "token"):
            return "failed to run Kubelet: cannot create certificate signing request: Unauthorized"
        return ""


def _agent_interface(name: str, mac_address: str, address: str) -> dict[str, Any]:
    ip, _, prefix = address.partition("/")
    entry = {"ip-address": ip, "ip-address-type": "ipv4", "prefix": int(prefix or 32)}
    return {"name": name, "hardware-address": mac_address, "ip-addresses": [entry]}
