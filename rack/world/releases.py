"""The Talos releases that the rack's image factory offers, and what each one ships.

Numbers come from data/talos_releases.tsv, read from the tags of Talos and of its system
extensions. Talos' own rules that depend on the version are methods here, so that no other
module compares version numbers.
"""

from __future__ import annotations

import csv
import re
from functools import cache
from importlib import resources
from typing import Literal

from rack.world.nodefacts import Frozen

Channel = Literal["lts", "production"]

_VERSION = re.compile(r"^v?(\d+)\.(\d+)\.(\d+)(?:-(alpha|beta|rc)\.(\d+))?$")
_FINAL = "~"
"""Sorts a final release after its own pre-releases."""


def read_table(name: str) -> list[dict[str, str]]:
    """Rows of a tab-separated file in the data folder, with its first line as keys."""
    text = resources.files("rack.world").joinpath("data", name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t"))


def version_order(version: str) -> tuple[int, int, int, str, int]:
    """A key that sorts Talos or Kubernetes versions as semantic versioning does.

    Raises:
        ValueError: the text is no such version.
    """
    found = _VERSION.match(version)
    if not found:
        raise ValueError(f"{version!r} is not a version such as v1.13.9 or v1.14.0-rc.1")
    major, minor, patch, stage, number = found.groups()
    return int(major), int(minor), int(patch), stage or _FINAL, int(number or 0)


def minor_of(version: str) -> tuple[int, int]:
    """Major and minor number of a version: (1, 13) of v1.13.9."""
    return version_order(version)[:2]


class Release(Frozen):
    """One Talos release."""

    talos: str
    """With the leading v."""
    lts: str
    """NVIDIA driver of the extensions with the suffix -lts."""
    production: str
    """NVIDIA driver of the extensions with the suffix -production."""
    container_toolkit: str
    """NVIDIA container toolkit, with the leading v."""
    kernel: str
    containerd: str
    kubernetes_min: str
    """Oldest Kubernetes minor that this Talos runs, for example 1.31."""
    kubernetes_max: str
    kubernetes_default: str
    qemu_guest_agent: str

    @property
    def minor(self) -> tuple[int, int]:
        """Major and minor number, for example (1, 13)."""
        return minor_of(self.talos)

    @property
    def has_standard_nvidia_paths(self) -> bool:
        """The driver lies where the GPU Operator looks, and containerd injects CDI devices.

        From 1.13.0-rc.0 on: libraries in /usr/local/lib, a link /usr/bin/nvidia-smi.
        """
        return self.minor >= (1, 13)

    @property
    def nvidia_library_path(self) -> str:
        """The host's folder of the driver libraries."""
        return "/usr/local/lib" if self.has_standard_nvidia_paths else "/usr/local/glibc/usr/lib"

    @property
    def toolkit_mode(self) -> Literal["legacy", "jit-cdi"]:
        """How the container toolkit injects by default: by a CDI specification from 1.18 on."""
        return "jit-cdi" if minor_of(self.container_toolkit) >= (1, 18) else "legacy"

    def driver(self, channel: Channel) -> str:
        """NVIDIA driver version of a channel."""
        return self.lts if channel == "lts" else self.production

    def kubernetes_problem(self, version: str) -> str:
        """Talos' own words when it cannot run this Kubernetes version; empty when it can."""
        plain = version.removeprefix("v")
        wanted = minor_of(version)
        if wanted < minor_of(f"{self.kubernetes_min}.0"):
            age = "old"
        elif wanted > minor_of(f"{self.kubernetes_max}.0"):
            age = "new"
        else:
            return ""
        talos = self.talos.removeprefix("v")
        return f"version of Kubernetes {plain} is too {age} to be used with Talos {talos}"

    def upgrade_problem(self, running: str) -> str:
        """Why a machine of Talos `running` cannot change to this release; empty when it can.

        Talos takes an upgrade from at most two minors back, and a downgrade from at most one
        minor ahead.
        """
        steps = self.minor[1] - minor_of(running)[1]
        if -1 <= steps <= 2:
            return ""
        verdict = "old to upgrade" if steps > 0 else "new to downgrade"
        old, new = running.removeprefix("v"), self.talos.removeprefix("v")
        return f"host version {old} is too {verdict} to Talos {new}"


@cache
def releases() -> dict[str, Release]:
    """Every release by its version, oldest first."""
    found = (Release.model_validate(row) for row in read_table("talos_releases.tsv"))
    return {release.talos: release for release in found}
