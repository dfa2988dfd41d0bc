"""The services port: the rack about itself, charts, and what Talos and the cluster offer."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rack.rack import Rack
from rack.talos import http as talos
from rack.world import sabotage
from rack.world.qemu import Vm

POWER_CYCLE: Final = "/rack/hosts/{host}/power-cycle"
FAULTS: Final = "/rack/faults"
FAULT: Final = "/rack/faults/{name}"
_POD_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MEDIA_TYPES: Final = {"yaml": "text/yaml", "tgz": "application/gzip"}


def app(rack: Rack, charts: Mapping[str, bytes]) -> Starlette:
    """Everything that is served as plain HTTP. `charts` maps file names to contents."""
    own = [
        Route("/rack", lambda request: JSONResponse(about(rack))),
        Route(POWER_CYCLE, lambda request: _power_cycle(rack, request), methods=["POST"]),
        Route(FAULTS, lambda request: _faults(rack)),
        Route(FAULT, partial(_inject, rack), methods=["POST"]),
        Route(FAULT, lambda request: _clear(rack, request), methods=["DELETE"]),
        Route("/rack/pods/{uid}", lambda request: _pod(rack, request)),
        Route("/charts/{name}", lambda request: _chart(charts, request)),
    ]
    return Starlette(routes=[*own, *talos.routes(rack)])


def about(rack: Rack) -> dict[str, Any]:
    """What the rack says about itself: how a client knows that nothing here is hardware."""
    settings = rack.settings
    with rack.lock() as world:
        return {
            "simulated_rack": True,
            "version": _version(),
            "pid": os.getpid(),
            "proxmox": settings.proxmox_url,
            "services": settings.services_url,
            "kubernetes": settings.kubernetes_url,
            "latency": settings.latency,
            "bootstrapped": world.cluster is not None,
            "hosts": {host.name: host.losses for host in world.hosts.values()},
            "vms": [_summary(vm) for _, vm in sorted(world.vms.items())],
        }


def _summary(vm: Vm) -> dict[str, Any]:
    machine = vm.machine if vm.is_running else None
    return {
        "vmid": vm.vmid,
        "name": vm.name,
        "node": vm.node,
        "status": "running" if vm.is_running else "stopped",
        "machine": machine.stage if machine else "off",
        "problem": machine.problem if machine else "",
        "addresses": machine.addresses if machine else [],
        "pci": vm.passed,
    }


def _version() -> str:
    try:
        return version("gpu-passthrough")
    except PackageNotFoundError:
        return "0.1.0"


def _power_cycle(rack: Rack, request: Request) -> Response:
    """Cut a host's power and boot it, as a person in front of it would."""
    name = request.path_params["host"]
    with rack.lock() as world:
        if name not in world.hosts:
            there = ", ".join(world.hosts)
            message = f"the simulated rack has no host {name}; it has {there}"
            return JSONResponse({"error": message}, status_code=404)
        guests = request.query_params.get("guests") != "0"
        world.power_cycle(name, rack.now(), guests=guests)
    return JSONResponse({})


def _faults(rack: Rack) -> Response:
    """What is broken on purpose."""
    with rack.lock() as world:
        return JSONResponse(world.faults.injected)


async def _inject(rack: Rack, request: Request) -> Response:
    """Break something; the body is the list of arguments."""
    values = await request.json()

    def work() -> None:
        with rack.lock() as world:
            sabotage.inject(world, request.path_params["name"], values, rack.now())

    try:
        await run_in_threadpool(work)
    except sabotage.FaultError as error:
        return JSONResponse({"error": str(error)}, status_code=400)
    return JSONResponse({})


def _clear(rack: Rack, request: Request) -> Response:
    """Undo a fault, or all of them."""
    try:
        with rack.lock() as world:
            sabotage.clear(world, request.path_params["name"])
    except sabotage.FaultError as error:
        return JSONResponse({"error": str(error)}, status_code=400)
    return JSONResponse({})


def _pod(rack: Rack, request: Request) -> Response:
    """What a program in a pod needs to know about its pod; written by the rack's kubelet."""
    uid = request.path_params["uid"]
    file = rack.settings.pods_home / f"{uid}.json"
    if not _POD_UID.fullmatch(uid) or not file.exists():
        message = f"the simulated rack runs no pod with the uid {uid}"
        return JSONResponse({"error": message}, status_code=404)
    return Response(file.read_bytes(), media_type="application/json")


def _chart(charts: Mapping[str, bytes], request: Request) -> Response:
    """A file of the chart repository."""
    name = request.path_params["name"]
    if name not in charts:
        there = ", ".join(sorted(charts))
        message = f"the simulated rack's chart repository has no {name}; it has {there}"
        return JSONResponse({"error": message}, status_code=404)
    media_type = _MEDIA_TYPES.get(name.rpartition(".")[2], "application/octet-stream")
    return Response(charts[name], media_type=media_type)


class ServicesServer:
    """Serves the app on a socket that listens already, in a thread of its own."""

    def __init__(self, application: Starlette, listener: socket.socket) -> None:
        config = uvicorn.Config(
            application, log_config=None, access_log=False, lifespan="off", ws="none"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="services", daemon=True
        )

    def start(self) -> None:
        """Serve until `stop()`. Connections are taken from now on: the socket listens."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Finish what is being answered, for at most so many seconds."""
        self._server.should_exit = True
        self._thread.join(seconds)
