"""The control plane of a bootstrapped cluster: the real programs, as children of the daemon."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from urllib3.exceptions import HTTPError

from rack.cluster.api import Api, ApiError
from rack.cluster.child import Child
from rack.cluster.pki import Pki
from rack.cluster.programs import MEMORY, PROGRAMS, command
from rack.files import private_folder
from rack.settings import Settings
from rack.world.nodefacts import ClusterFacts

LOG: Final = logging.getLogger(__name__)
STOP_S: Final = 3.0
"""The API server waits for its watches when it ends; nobody here misses what it would say."""
_AFTER_READY: Final = PROGRAMS[2:]


class ControlPlane:
    """The programs of one cluster, from its bootstrap until its VM is off."""

    def __init__(self, settings: Settings, facts: ClusterFacts) -> None:
        self.facts = facts
        self._settings = settings
        self._pki = Pki(settings, facts)
        self._children: dict[str, Child] = {}
        self._api: Api | None = None
        self.is_ready = False
        """The API server has answered that it is ready."""

    def start(self) -> None:
        """Start etcd and the API server; the others follow when that is ready.

        Raises:
            AuthorityError: the machine secrets make no certificates.
        """
        self._pki.write()
        logs = private_folder(self._settings.kubernetes_home / "logs")
        private_folder(self._settings.kubernetes_home / "etcd")
        for name in PROGRAMS:
            argv = command(name, self._settings, self.facts, self._pki)
            program = shutil.which(name) or name
            environment = {**os.environ, **MEMORY}
            self._children[name] = Child(name, [program, *argv[1:]], logs, environment)
        for name in PROGRAMS:
            if name not in _AFTER_READY:
                self._children[name].start()
        LOG.info("the control plane of %s starts", self.facts.name)

    def look(self, is_dead: Callable[[str], bool]) -> None:
        """See that everything lives, and go on with the start when the API server is ready.

        Args:
            is_dead: whether a program is kept from running, by its name.
        """
        for name, child in self._children.items():
            if is_dead(name):
                child.kill()
            else:
                child.keep_alive()
        if not self.is_ready and self._answers():
            self._finish()

    def _answers(self) -> bool:
        api = self._connect()
        try:
            api.request("GET", "/readyz")
        except ValueError:
            return True  # the answer is a plain "ok"
        except (ApiError, HTTPError, OSError):
            return False
        return True

    def _connect(self) -> Api:
        if self._api is None:
            self._api = Api(Path(self._pki.file("rack.kubeconfig")))
        return self._api

    def _finish(self) -> None:
        for name in _AFTER_READY:
            self._children[name].start()
        self._pki.write_administrator(self._settings.kubeconfig)
        self.is_ready = True
        LOG.info("the control plane of %s is ready", self.facts.name)

    def stop(self) -> None:
        """End every program; what is in etcd stays."""
        self._settings.kubeconfig.unlink(missing_ok=True)
        self.is_ready = False
        for child in reversed(self._children.values()):
            child.terminate()
        for child in reversed(self._children.values()):
            child.wait(STOP_S)
        self._children.clear()
        LOG.info("the control plane of %s is off", self.facts.name)


def wipe_etcd(settings: Settings, kept: set[str]) -> None:
    """Remove the data of every etcd but the given: their disks are gone, or were wiped."""
    folder = settings.kubernetes_home / "etcd"
    for data in folder.iterdir() if folder.exists() else ():
        if data.name not in kept:
            shutil.rmtree(data, ignore_errors=True)
