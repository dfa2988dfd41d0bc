"""Starting, stopping and restarting one VM, and waiting for its guest agent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from rack.plugins.contract import Plain, PluginError
from rack.plugins.proxmoxve.client import ApiError, Client
from rack.plugins.proxmoxve.options import block_of

DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
AGENT_AWAY: Final = ("agent is not running", "not running", "got timeout", "agent not")


def seconds_of(duration: str) -> float:
    """Read a duration as Go writes it, `15m` or `1h30m`."""
    return sum(float(number) * SECONDS[unit] for number, unit in DURATION.findall(duration))


@dataclass(frozen=True)
class Power:
    """The switch of one VM."""

    client: Client
    node: str
    vm_id: int
    vm: Plain
    """The VM's properties: its time-outs and its agent."""

    @property
    def path(self) -> str:
        """The VM's place in the API."""
        return f"/nodes/{self.node}/qemu/{self.vm_id}"

    def is_running(self) -> bool:
        """Ask whether the VM runs."""
        return bool(self.client.get(f"{self.path}/status/current")["status"] == "running")

    def start(self) -> None:
        """Start the VM unless it runs, and wait until it does."""
        if self.is_running():
            return
        seconds = self.vm["timeoutStartVm"]
        self._act("start", "VM start", seconds, {"timeout": seconds})
        self._await(running=True, seconds=seconds)

    def stop(self) -> None:
        """Pull the plug of the VM and wait until it is off."""
        seconds = self.vm["timeoutStopVm"]
        self._act("stop", "VM stop", seconds)
        self._await(running=False, seconds=seconds)

    def shut_down(self) -> None:
        """Switch a running VM off: through its guest agent when it has one, else by the plug."""
        if not self.is_running():
            return
        if not block_of(self.vm, "agent")["enabled"]:
            self.stop()
            return
        seconds = self.vm["timeoutShutdownVm"]
        self._act("shutdown", "VM shutdown", seconds, {"timeout": seconds, "forceStop": 1})
        self._await(running=False, seconds=seconds)

    def restart(self) -> None:
        """Switch a running VM off and on again: a reboot from inside changes no hardware."""
        if self.is_running():
            self.shut_down()
            self.start()

    def _act(self, verb: str, what: str, seconds: float, parameters: Plain | None = None) -> None:
        upid = self.client.post(f"{self.path}/status/{verb}", parameters)
        self.client.wait(upid, what, seconds)

    def _await(self, *, running: bool, seconds: float) -> None:
        for _ in self.client.until(seconds):
            if self.is_running() is running:
                return
        wanted = "running" if running else "stopped"
        raise PluginError(f"VM {self.vm_id} is not {wanted} after {seconds:g} s")

    def interfaces(self) -> tuple[Plain, ...]:
        """Wait for the guest agent's network interfaces, up to the agent's time-out.

        Raises `PluginError` when there is none until then.
        """
        agent = block_of(self.vm, "agent")
        wait_for = agent.get("waitForIp") or {}
        if wait_for.get("disabled"):
            return ()
        for _ in self.client.until(seconds_of(agent["timeout"])):
            found = self._ask_agent()
            if found and _has_addresses(found, wait_for):
                return tuple(found)
        raise PluginError(
            f"timeout while waiting for the QEMU agent on VM {self.vm_id} to publish the network"
            f" interfaces ({agent['timeout']}). Does the guest run the agent? Without it, set"
            " `agent.enabled` to false"
        )

    def _ask_agent(self) -> list[Plain]:
        try:
            answer: Any = self.client.get(f"{self.path}/agent/network-get-interfaces")
        except ApiError as error:
            if error.status == 500 and any(text in error.message for text in AGENT_AWAY):
                return []
            raise
        return list((answer or {}).get("result") or [])


def _has_addresses(interfaces: list[Plain], wait_for: Plain) -> bool:
    """Tell whether an interface other than the loopback has the kinds of address waited for.

    By the interface, not by the address: the simulated rack's guests live in 127.0.0.0/8.
    """
    kinds = {
        address["ip-address-type"]
        for interface in interfaces
        if interface.get("name") != "lo"
        for address in interface.get("ip-addresses") or []
        if not address["ip-address"].startswith(("169.254.", "fe80:"))
    }
    wanted = {kind for kind in ("ipv4", "ipv6") if wait_for.get(kind)}
    return wanted <= kinds if wanted else bool(kinds)
