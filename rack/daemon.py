"""The daemon: one process that is the rack, from its start until it is told to stop."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from rack.certificate import server_context
from rack.charts import repository
from rack.cluster.child import end_left_over
from rack.cluster.controller import ClusterController
from rack.cluster.programs import PROGRAMS
from rack.fetch import fetch_from
from rack.files import private_folder
from rack.process import PidFile
from rack.proxmox.server import ProxmoxServer
from rack.rack import Rack
from rack.services import ServicesServer, app
from rack.settings import Settings
from rack.sockets import listen

LOG: Final = logging.getLogger(__name__)
STOP_SECONDS: Final = 5.0
LATER: Final = {
    "kube_apiserver": "the Kubernetes API of the simulated rack",
    "etcd_client": "the simulated rack's etcd",
    "etcd_peer": "the simulated rack's etcd",
    "controller_manager": "the simulated rack's kube-controller-manager",
    "scheduler": "the simulated rack's kube-scheduler",
    "kubelet": "the simulated rack's kubelets",
}
"""Ports that are listened on once a cluster is there."""


@dataclass
class Daemon:
    """The parts of a running rack, stopped in the opposite order of their start."""

    settings: Settings
    _parts: list[tuple[str, Callable[[], object]]] = field(default_factory=list)

    def start(self) -> None:
        """Start everything; it answers requests when this returns.

        Raises:
            PortInUseError: somebody else listens on a port of the rack.
            OSError: the home cannot be written.
        """
        settings = self.settings
        end_left_over(settings.home, PROGRAMS)
        for name, purpose in LATER.items():
            # Taken by a program that starts with the cluster: said now, not by its restarts then.
            listen(getattr(settings.ports, name), purpose).close()
        proxmox = listen(settings.ports.proxmox, "the simulated rack's Proxmox API")
        services = listen(settings.ports.services, "the simulated rack's services")
        rack = Rack(settings)
        rack.fetch_through(fetch_from(rack))
        clock = threading.Thread(target=rack.run_clock, name="clock", daemon=True)
        clock.start()
        self._parts.append(("clock", rack.close))

        server = ProxmoxServer(rack, proxmox, server_context(settings))
        server.start()
        self._parts.append(("Proxmox API", server.shutdown))

        web = ServicesServer(app(rack, repository.build(settings.chart_packages)), services)
        web.start()
        self._parts.append(("services", lambda: web.stop(STOP_SECONDS)))

        controller = ClusterController(rack, settings)
        controller.start()
        self._parts.append(("cluster", controller.stop))
        LOG.info("simulated rack: Proxmox %s, services %s", *_urls(settings))

    def stop(self) -> None:
        """Stop everything; one part that fails does not keep the others."""
        for name, stop in reversed(self._parts):
            try:
                stop()
            except Exception:
                LOG.exception("the rack's %s did not stop cleanly", name)
        self._parts.clear()


def _urls(settings: Settings) -> tuple[str, str]:
    return settings.proxmox_url, settings.services_url


def serve(settings: Settings, when_ready: Callable[[], None] = lambda: None) -> None:
    """Be the rack until SIGTERM or SIGINT.

    Raises:
        AlreadyRunningError: another daemon has this home.
        PortInUseError: somebody else listens on a port of the rack.
        OSError: the home cannot be written.
    """
    os.umask(0o077)
    private_folder(settings.home)
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    pid_file = PidFile(settings)
    pid_file.acquire()
    daemon = Daemon(settings)
    try:
        daemon.start()
        when_ready()
        told.wait()
    finally:
        daemon.stop()
        pid_file.release()
