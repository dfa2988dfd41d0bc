"""Where a rack keeps its state and where it listens."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from rack.world.tasks import Latency

CHECKOUT: Final = Path(__file__).parent.parent
LOOPBACK: Final = "127.0.0.1"


class SettingsError(ValueError):
    """An environment variable of the rack has a value that it cannot use."""


class Ports(BaseModel):
    """Ports on the loopback address."""

    model_config = ConfigDict(frozen=True)

    proxmox: int = 8006
    """TLS: the Proxmox VE API."""
    services: int = 8480
    """Plain HTTP: image factory, charts, machine API, the rack itself."""
    kube_apiserver: int = 6443
    etcd_client: int = 23790
    etcd_peer: int = 23800
    controller_manager: int = 10257
    scheduler: int = 10259
    kubelet: int = 10247
    """TLS: exec and logs of every node, for the API server only."""

    def shifted(self, by: int) -> Ports:
        """The same ports, each higher by a number."""
        return Ports(**{name: port + by for name, port in self.model_dump().items()})


class Settings(BaseModel):
    """Settings of one rack."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    home: Path = CHECKOUT / ".rack"
    """Everything that the rack keeps, readable by its owner only."""
    port_shift: int = 0
    """Added to every port, so that several racks can run beside each other."""
    latency: Latency = "instant"
    """`instant` for tests, `realistic` for demonstrations and benchmarks."""
    chart_packages: Path | None = None
    """Folder of real chart packages that are served instead of the stand-ins."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Read the settings from RACK_HOME, RACK_PORT_SHIFT, RACK_LATENCY, RACK_CHART_PACKAGES.

        Raises:
            SettingsError: a value is not what it should be.
        """
        given = {
            name: environment[variable]
            for name in cls.model_fields
            if environment.get(variable := f"RACK_{name.upper()}")
        }
        try:
            found = cls.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            variable = f"RACK_{str(first['loc'][0]).upper()}"
            raise SettingsError(
                f"{variable}={environment[variable]}: {first['msg']}. Correct or unset it"
            ) from None
        return found.model_copy(update={"home": found.home.expanduser().absolute()})

    @property
    def ports(self) -> Ports:
        """The ports of this rack."""
        return Ports().shifted(self.port_shift)

    @property
    def proxmox_url(self) -> str:
        """The Proxmox VE API."""
        return f"https://{LOOPBACK}:{self.ports.proxmox}"

    @property
    def services_url(self) -> str:
        """Image factory, charts and machine API."""
        return f"http://{LOOPBACK}:{self.ports.services}"

    @property
    def kubernetes_url(self) -> str:
        """The Kubernetes API of the rack's cluster."""
        return f"https://{LOOPBACK}:{self.ports.kube_apiserver}"

    @property
    def certificate(self) -> Path:
        """Self-signed certificate of the Proxmox VE API; its own authority."""
        return self.home / "proxmox.pem"

    @property
    def certificate_key(self) -> Path:
        """Key of that certificate."""
        return self.home / "proxmox.key"

    @property
    def token_file(self) -> Path:
        """One line: the API token for Pulumi and the checks."""
        return self.home / "proxmox-token"

    @property
    def pid_file(self) -> Path:
        """Process number of the daemon."""
        return self.home / "daemon.pid"

    @property
    def log_file(self) -> Path:
        """What the daemon says."""
        return self.home / "daemon.log"

    @property
    def world_file(self) -> Path:
        """The world, as JSON."""
        return self.home / "world.json"

    @property
    def kubernetes_home(self) -> Path:
        """Certificates, configurations and logs of the control plane."""
        return self.home / "kubernetes"

    @property
    def kubeconfig(self) -> Path:
        """Administrator's kubeconfig, there once the cluster is bootstrapped."""
        return self.home / "kubeconfig"

    @property
    def pods_home(self) -> Path:
        """What programs in pods read about their pod, a file each."""
        return self.home / "pods"
