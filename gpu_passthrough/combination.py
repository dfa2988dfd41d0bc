"""The rules of what fits together, over the few values of a stack that decide.

The facts are tables in data/, each row with its source; the rules are small pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from gpu_passthrough import cards, tables, versions
from gpu_passthrough.problems import Path
from gpu_passthrough.versions import Version

Pin = Literal["talos", "kubernetes", "channel", "kernel_modules", "operator", "driver"]

PINS: dict[Pin, tuple[str, Path]] = {
    "operator": ("GPU Operator", ("gpuOperator", "version")),
    "kernel_modules": ("kernel modules", ("cluster", "extensions", "kernelModules")),
    "channel": ("extension channel", ("cluster", "extensions", "channel")),
    "talos": ("Talos", ("cluster", "talosVersion")),
    "kubernetes": ("Kubernetes", ("cluster", "kubernetesVersion")),
    "driver": ("driver", ("cluster", "extensions", "driver")),
}
"""What may change to make a combination work: its name and path, the cheapest change first."""

HOST_DRIVER = versions.parse("v1.13.0-rc.0")
"""The first Talos on which the operator's validator finds the driver of the host."""
UNSUPPORTED_OPERATOR = versions.parse("v26.3.0")
FIRST_SUFFIXED = (1, 8)
"""From this Talos on the extensions' names carry their channel."""


@dataclass(frozen=True)
class Combination:
    """The values that decide whether a chain works."""

    talos: Version
    kubernetes: Version
    channel: str
    kernel_modules: str
    operator: Version
    driver: str | None
    """The driver that is expected; None where any will do."""
    architectures: tuple[str, ...]
    """Of the cards in the stack, each once; empty where there is no card."""
    cuda: tuple[tuple[str, str], ...]
    """Apps and the CUDA version of their images, where known."""

    def shipped_driver(self) -> str | None:
        """The driver that Talos ships here; None where the table does not say."""
        row = drivers().get(self.talos)
        return row[self.channel] or None if row else None

    def driver_branch(self) -> int | None:
        """Its branch; that of the newest release known of the same Talos line otherwise."""
        driver = self.shipped_driver()
        if driver is None:
            line = [one for one in drivers() if one.line == self.talos.line]
            driver = drivers()[max(line)][self.channel] if line else None
        return versions.branch(driver) if driver else None


@dataclass(frozen=True)
class Conflict:
    """Why a combination cannot work: the pins that clash, and whose card or app is concerned."""

    pins: tuple[Pin, ...]
    message: str
    why: str
    architecture: str | None = None
    app: str | None = None


@cache
def drivers() -> dict[Version, dict[str, str]]:
    """Driver and toolkit of each Talos release: columns lts, production, container_toolkit."""
    return {versions.parse(row["talos"]): row for row in tables.rows("talos_drivers")}


@cache
def operators() -> dict[Version, dict[str, str]]:
    """What is known of the operator's releases: columns gfd, cdi, tested_with."""
    return {versions.parse(row["chart"]): row for row in tables.rows("operators")}


@cache
def kubernetes_ranges() -> dict[tuple[int, int], tuple[Version, Version]]:
    """Lowest and highest Kubernetes of each Talos line."""
    return {
        versions.parse(row["talos"]).line: (
            versions.parse(row["lowest"]),
            versions.parse(row["highest"]),
        )
        for row in tables.rows("talos_kubernetes")
    }


def _line(version: Version) -> str:
    return f"{version.major}.{version.minor}"


def known_talos(it: Combination) -> Iterable[Conflict]:
    """The extensions of the Talos line are known (siderolabs/extensions)."""
    lines = sorted({one.line for one in drivers()})
    if not it.architectures or it.talos.line in lines:
        return
    if it.talos.line < FIRST_SUFFIXED:
        why = "Its NVIDIA extensions have other names, without lts or production."
    else:
        why = "What its NVIDIA extensions carry is not known here, so nothing could be checked."
    first, last = (f"{major}.{minor}" for major, minor in (lines[0], lines[-1]))
    yield Conflict(
        ("talos",),
        f"Talos {it.talos} is outside of the lines that are known, {first} to {last}.",
        why,
    )


def kubernetes_range(it: Combination) -> Iterable[Conflict]:
    """Talos supports a range of Kubernetes versions (its support matrix)."""
    found = kubernetes_ranges().get(it.talos.line)
    if found and not found[0].line <= it.kubernetes.line <= found[1].line:
        yield Conflict(
            ("kubernetes", "talos"),
            f"Kubernetes {it.kubernetes} is outside of what Talos {it.talos} supports:"
            f" {_line(found[0])} to {_line(found[1])}.",
            "Talos refuses the machine configuration, or the control plane does not come up.",
        )


def validator_finds_driver(it: Combination) -> Iterable[Conflict]:
    """The validator finds driver and nvidia-smi (NVIDIA/gpu-operator#1687)."""
    if it.architectures and it.talos < HOST_DRIVER:
        yield Conflict(
            ("operator", "talos"),
            f"GPU Operator {it.operator} cannot validate the driver of Talos {it.talos}.",
            "Before Talos 1.13 the driver's libraries and nvidia-smi lie under two roots, and the"
            " validator looks under one: it loops for ever, and device plugin, GFD and DCGM"
            " exporter wait for it.",
        )


def operator_reads_version(it: Combination) -> Iterable[Conflict]:
    """v26.3.0 cannot read Talos' VERSION_ID (NVIDIA/gpu-operator#2239, fixed in v26.3.1)."""
    if it.architectures and it.operator == UNSUPPORTED_OPERATOR:
        yield Conflict(
            ("operator", "talos"),
            f"GPU Operator {it.operator} fails on every Talos, so on {it.talos} as well.",
            "It stops at the version in Talos' os-release as soon as a node has a GPU; v26.3.1 is"
            " the first that reads it.",
        )


def modules_drive_card(it: Combination) -> Iterable[Conflict]:
    """Open modules begin at Turing, Blackwell knows no others (open-gpu-kernel-modules)."""
    for name in it.architectures:
        allowed = cards.architectures()[name].kernel_modules
        if it.kernel_modules not in allowed:
            yield Conflict(
                ("kernel_modules",),
                f"The {it.kernel_modules} kernel modules do not drive {name} cards; these need"
                f" the {' or '.join(sorted(allowed))} ones.",
                "The modules load without an error, and nvidia-smi says: No devices were found.",
                architecture=name,
            )


def driver_knows_card(it: Combination) -> Iterable[Conflict]:
    """A driver branch knows the architecture (R580 is the last one for Maxwell to Volta)."""
    found = it.driver_branch()
    if found is None:
        return
    for name in it.architectures:
        card = cards.architectures()[name]
        text = f"Talos {it.talos} ships driver branch {found} in channel {it.channel};"
        pins: tuple[Pin, ...] = ("channel", "talos")
        why = "The driver would not find the card."
        if card.driver_max and found > card.driver_max:
            message = f"{text} {card.driver_max} is the last one that knows {name} cards."
            yield Conflict(pins, message, why, architecture=name)
        elif card.driver_min and found < card.driver_min:
            message = f"{text} {card.driver_min} is the first one that knows {name} cards."
            yield Conflict(pins, message, why, architecture=name)


def driver_as_expected(it: Combination) -> Iterable[Conflict]:
    """Talos ships the driver that the stack expects (siderolabs/extensions)."""
    shipped = it.shipped_driver()
    if it.driver and it.architectures and shipped and shipped != it.driver:
        yield Conflict(
            ("talos", "channel", "driver"),
            f"Talos {it.talos} ships driver {shipped} in channel {it.channel}, not {it.driver}.",
            "The driver is part of the image; it cannot be chosen apart from the Talos release.",
        )


def driver_runs_cuda(it: Combination) -> Iterable[Conflict]:
    """A CUDA major version needs a driver branch (CUDA release notes)."""
    found = it.driver_branch()
    needed = {row["cuda"]: int(row["driver_min"]) for row in tables.rows("cuda_drivers")}
    if found is None or not it.architectures:
        return
    for app, cuda in it.cuda:
        minimum = needed.get(cuda.split(".")[0])
        if minimum and found < minimum:
            yield Conflict(
                ("channel", "talos"),
                f"CUDA {cuda} of app {app} needs driver branch {minimum} or later; Talos"
                f" {it.talos} ships {found} in channel {it.channel}.",
                "The app would stop with CUDA failure 35, driver version insufficient.",
                app=app,
            )


Rule = Callable[[Combination], Iterable[Conflict]]

RULES: dict[str, Rule] = {
    "talos-known": known_talos,
    "talos-kubernetes": kubernetes_range,
    "talos-operator": validator_finds_driver,
    "operator-talos": operator_reads_version,
    "card-modules": modules_drive_card,
    "card-driver": driver_knows_card,
    "talos-driver": driver_as_expected,
    "app-cuda-driver": driver_runs_cuda,
}


def works(it: Combination) -> bool:
    """Whether no rule has anything against a combination."""
    return not any(True for rule in RULES.values() for _ in rule(it))
