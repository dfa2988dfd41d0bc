"""The API of the rack's Talos machines: a stand-in for gRPC on port 50000.

`POST /machines/<address>/<call>` with a JSON object. In maintenance mode a machine believes
everybody; from its first configuration on, only who presents a certificate of its own authority.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rack.rack import Rack
from rack.talos.certificates import administrator_kubeconfig, require_administrator
from rack.world.datacenter import Datacenter
from rack.world.errors import Refused
from rack.world.factory import installer
from rack.world.machine import ApplyMode, Machine
from rack.world.qemu import Vm
from rack.world.talos_error import TalosError

CERTIFICATE_HEADER: Final = "X-Talos-Certificate"
SIGNATURE_HEADER: Final = "X-Talos-Signature"
PORT: Final = 50000
_MODES: Final = get_args(ApplyMode)
_WIPED: Final = frozenset({"STATE", "EPHEMERAL"})


@dataclass(frozen=True)
class Call:
    """One call to one machine that is up."""

    world: Datacenter
    vm: Vm
    machine: Machine
    parameters: Mapping[str, Any]
    now: float

    def take(self, name: str, kind: type, default: Any = None) -> Any:
        """A parameter of the call.

        Raises:
            TalosError: it is missing or of another type.
        """
        value = self.parameters.get(name, default)
        if not isinstance(value, kind):
            message = f"{name}: expected a {kind.__name__}, got {type(value).__name__}"
            raise TalosError("InvalidArgument", message)
        return value


class Machines:
    """The machines of one rack."""

    def __init__(self, rack: Rack) -> None:
        self._rack = rack

    def routes(self) -> list[Route]:
        """The paths of their API."""
        return [
            Route("/machines/{address}", self.read),
            Route("/machines/{address}/{call}", self.call, methods=["POST"]),
        ]

    def read(self, request: Request) -> Response:
        """What a machine shows to anyone who reaches it."""
        try:
            with self._rack.lock() as world:
                _, machine = reach(world, request.path_params["address"])
                return JSONResponse(_summary(machine))
        except Refused as refusal:
            return _refused(refusal)

    async def call(self, request: Request) -> Response:
        """Call a machine."""
        body = await request.body()
        return await run_in_threadpool(self._call, request, body)

    def _call(self, request: Request, body: bytes) -> Response:
        name, address = request.path_params["call"], request.path_params["address"]
        try:
            if name not in CALLS:
                message = f"unknown method {name}; the simulated rack has {', '.join(CALLS)}"
                raise TalosError("Unimplemented", message)
            with self._rack.lock() as world:
                vm, machine = reach(world, address)
                now = self._rack.now()
                if machine.stage == "running":
                    require_administrator(
                        machine.config.accepted_certificates("machine"),
                        request.headers.get(CERTIFICATE_HEADER, ""),
                        request.headers.get(SIGNATURE_HEADER, ""),
                        body,
                        now,
                    )
                parameters = _read(body, CALLS[name].parameters)
                answer = CALLS[name].work(Call(world, vm, machine, parameters, now))
        except Refused as refusal:
            return _refused(refusal)
        return JSONResponse(answer)


def reach(world: Datacenter, address: str) -> tuple[Vm, Machine]:
    """The machine that answers at an address.

    Raises:
        TalosError: none does, or one that is not up.
    """
    for vm, machine in world.machines:
        if address in machine.addresses:
            return vm, machine
    dialing = f'connection error: desc = "transport: Error while dialing: dial tcp {address}:{PORT}'
    for vm, machine in world.machines:
        if address in machine.own_addresses:
            why = f": {machine.problem}" if machine.problem else ""
            raise TalosError(
                "Unavailable",
                f'{dialing}: connect: connection refused" (simulated rack: VM {vm.vmid} is'
                f" {machine.stage}{why})",
            )
    raise TalosError("Unavailable", f'{dialing}: connect: no route to host" (simulated rack)')


def _summary(machine: Machine) -> dict[str, Any]:
    image = machine.image
    return {
        "stage": machine.stage,
        "version": image.talos_version if image else "",
        "schematic": image.schematic_id if image else "",
        "hostname": machine.hostname,
        "addresses": machine.addresses,
    }


def _read(body: bytes, known: frozenset[str]) -> dict[str, Any]:
    try:
        parameters = json.loads(body or b"{}")
    except ValueError:
        raise TalosError("InvalidArgument", "the request's body is no JSON") from None
    if not isinstance(parameters, dict):
        raise TalosError("InvalidArgument", "the request's body is no JSON object")
    if unknown := sorted(parameters.keys() - known):
        raise TalosError("InvalidArgument", f"unknown parameter {', '.join(unknown)}")
    return parameters


def _apply(call: Call) -> dict[str, Any]:
    mode = call.take("mode", str, "auto")
    if mode not in _MODES:
        raise TalosError("InvalidArgument", f"mode {mode!r} is not one of {', '.join(_MODES)}")
    text = call.take("configuration", str)
    return {"mode_details": call.machine.apply(text, call.now, mode)}


def _bootstrap(call: Call) -> dict[str, Any]:
    call.machine.require_control_plane("bootstrap")
    # The other members of a bootstrapped cluster have joined its etcd by themselves.
    if any(machine.etcd and not call.machine.join_problem(machine) for machine in _others(call)):
        raise TalosError("AlreadyExists", "etcd data directory is not empty")
    call.machine.bootstrap(call.now)
    return {}


def _others(call: Call) -> list[Machine]:
    return [machine for _, machine in call.world.machines if machine is not call.machine]


def _kubeconfig(call: Call) -> dict[str, Any]:
    call.machine.require_control_plane("kubeconfig")
    return {"kubeconfig": administrator_kubeconfig(call.machine.config, call.now)}


def _reset(call: Call) -> dict[str, Any]:
    reboot = call.take("reboot", bool, False)
    wiped = frozenset(call.take("wipe", list, sorted(_WIPED)))
    if wiped != _WIPED:
        raise TalosError("InvalidArgument", "the simulated rack wipes STATE and EPHEMERAL, both")
    if call.take("graceful", bool, True) and _is_last_member(call):
        raise TalosError(
            "FailedPrecondition",
            "failed to leave etcd cluster: this is its only member. Talos would wait here; the"
            " simulated rack answers at once: reset with graceful: false",
        )
    call.machine.reset(call.now, reboot=reboot)
    if not reboot:
        call.vm.switch_off()
    return {}


def _is_last_member(call: Call) -> bool:
    members = [machine for machine in _others(call) if machine.config.role == "controlplane"]
    joined = [machine for machine in members if not machine.join_problem(call.machine)]
    return bool(call.machine.etcd) and not joined


def _upgrade(call: Call) -> dict[str, Any]:
    image = installer(call.world.schematics, call.take("image", str))
    call.machine.upgrade(image, call.now)
    return {"ack": "Upgrade request received"}


def _reboot(call: Call) -> dict[str, Any]:
    call.machine.reboot(call.now)
    return {}


@dataclass(frozen=True)
class Method:
    """One call of the API."""

    work: Callable[[Call], dict[str, Any]]
    parameters: frozenset[str] = frozenset()


CALLS: Final[Mapping[str, Method]] = {
    "apply": Method(_apply, frozenset({"configuration", "mode"})),
    "bootstrap": Method(_bootstrap),
    "kubeconfig": Method(_kubeconfig),
    "reset": Method(_reset, frozenset({"graceful", "reboot", "wipe"})),
    "upgrade": Method(_upgrade, frozenset({"image"})),
    "reboot": Method(_reboot),
}
"""Name → call."""


def _refused(refusal: Refused) -> Response:
    """A gRPC status as JSON; the factory's refusals of an installer are NotFound or invalid."""
    by_status = {404: "NotFound", 400: "InvalidArgument"}
    code = getattr(refusal, "code", by_status.get(refusal.status, "Unknown"))
    answer = {"code": code, "message": refusal.message.strip()}
    return JSONResponse(answer, status_code=refusal.status)
