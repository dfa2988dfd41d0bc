"""The rules that a configuration has to keep, as one table.

A rule is a pure function from a stack to the problems it finds. It names the sections that it
reads, so that a mistake in one section does not silence the rules about the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from gpu_passthrough import compatibility
from gpu_passthrough.config import Stack
from gpu_passthrough.problems import Problem
from gpu_passthrough.rules import (
    access,
    apps,
    container,
    hardware,
    names,
    network,
    operator,
    start,
    values,
)

Check = Callable[[Stack], Iterable[Problem]]


@dataclass(frozen=True)
class Soundness:
    """Which sections could not be read at all, and which without some of their items."""

    broken: frozenset[str] = frozenset()
    partial: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Rule:
    """One rule: its stable id, what it reads, and whether it needs every item of that."""

    id: str
    check: Check
    reads: frozenset[str]
    whole: bool = False

    def may_judge(self, soundness: Soundness) -> bool:
        """Whether enough of the configuration is sound for this rule to be right."""
        unusable = soundness.broken | (soundness.partial if self.whole else frozenset())
        return not self.reads & unusable


def _rule(name: str, check: Check, reads: str, *, whole: bool = False) -> Rule:
    return Rule(name, check, frozenset(reads.split()), whole)


MEMBERS = "nodes machines"
STARTS = "proxmox cluster nodes machines talos kubernetes"

RULES = (
    _rule("start", start.sections, STARTS, whole=True),
    _rule("start-address", start.addresses, "machines talos kubernetes"),
    _rule("control-plane", network.control_plane, STARTS, whole=True),
    _rule("address-duplicate", network.duplicate_addresses, f"{MEMBERS} cluster proxmox"),
    _rule("address-network", network.inside_network, f"{MEMBERS} cluster proxmox"),
    _rule("endpoint", network.endpoint, f"{MEMBERS} cluster kubernetes", whole=True),
    _rule("proxmox-endpoint", access.proxmox_url, "proxmox"),
    _rule("proxmox-token", access.proxmox_token, "proxmox"),
    _rule("kubernetes-endpoint", access.kubernetes_url, f"{MEMBERS} cluster kubernetes"),
    _rule("node-name", hardware.mapping_names, "nodes"),
    _rule("card-unscheduled", hardware.unscheduled_cards, f"{MEMBERS} cluster"),
    _rule("vm-id-duplicate", hardware.duplicate_vm_ids, "nodes"),
    _rule("device-duplicate", hardware.duplicate_devices, "nodes"),
    _rule("iommu-group", hardware.shared_groups, "nodes"),
    _rule("card-unknown", hardware.unknown_cards, MEMBERS),
    _rule("card-id", hardware.mismatched_ids, "nodes"),
    _rule("", compatibility.problems, f"{MEMBERS} cluster gpuOperator apps"),
    _rule("operator-on-talos", operator.switched_on, "cluster gpuOperator"),
    _rule("operator-off", operator.switched_off, "gpuOperator"),
    _rule("operator-values", operator.contradicting_values, "gpuOperator"),
    _rule("operator-cdi", operator.cdi, "cluster gpuOperator"),
    _rule("runtime-class", operator.runtime_class, "cluster gpuOperator runtimeClass"),
    _rule("values-unknown", values.unknown, "gpuOperator"),
    _rule("values-discovery", values.discovery, f"gpuOperator {STARTS}"),
    _rule("values-workloads", values.workloads, "gpuOperator"),
    _rule("values-mig", values.mig, "gpuOperator"),
    _rule("values-sharing", values.sharing, f"gpuOperator {STARTS}"),
    _rule("values-tolerations", values.tolerations, "gpuOperator gpuTaint"),
    _rule("values-driver-root", values.driver_root, "gpuOperator cluster"),
    _rule("values-monitoring", values.monitoring, f"gpuOperator {STARTS}"),
    _rule("app-name", names.services, "apps"),
    _rule("app-claim", names.claims, "apps"),
    _rule("app-name-taken", names.taken, "apps gpuOperator"),
    _rule("app-image-name", container.image_name, "apps"),
    _rule("app-variable", container.variable_names, "apps"),
    _rule("app-visible-devices", container.visible_devices, "apps"),
    _rule("app-capabilities", container.capabilities, "apps"),
    _rule("app-cuda-devices", container.cuda_devices, "apps"),
    _rule("app-runtime-class", apps.runtime_class, "apps runtimeClass"),
    _rule("app-volumes", apps.volumes, "apps"),
    _rule("app-strategy", apps.strategy, "apps"),
    _rule("app-writers", apps.writers, f"apps {MEMBERS}", whole=True),
    _rule("app-image", apps.image, "apps"),
    _rule("app-env", apps.env, "apps"),
    _rule("app-labels", apps.labels, "apps gpuOperator"),
    _rule("app-sharing", apps.sharing, "apps gpuOperator"),
    _rule("app-product", apps.unknown_product, f"apps gpuOperator cluster {MEMBERS}", whole=True),
    _rule("app-placement", apps.placement, f"apps gpuOperator {STARTS}", whole=True),
)


SOUND = Soundness()


def judge(stack: Stack, soundness: Soundness = SOUND) -> list[Problem]:
    """Everything that the rules find, each problem with its rule's id."""
    return [
        replace(problem, rule=problem.rule or rule.id)
        for rule in RULES
        if rule.may_judge(soundness)
        for problem in rule.check(stack)
    ]
