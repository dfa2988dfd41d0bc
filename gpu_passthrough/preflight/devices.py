"""Cards on their hosts: there, behind an IOMMU, alone in their group, free, and mapped right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gpu_passthrough.config import Gpu, Node
from gpu_passthrough.preflight.findings import Check

Device = Mapping[str, Any]
NO_IOMMU: Final = -1
HOSTPCI: Final = re.compile(r"hostpci\d+")
"""Options of a VM's configuration that give it a device."""
HARMLESS: Final = {"0x0604": "bridge", "0x0600": "root complex"}
"""Classes of functions that stay with the host, whatever is passed through beside them."""
TAKEN: Final = {
    "0x0200": "a network card",
    "0x0106": "a SATA controller",
    "0x0107": "a SAS controller",
    "0x0104": "a RAID controller",
    "0x0108": "an NVMe disk",
    "0x0c03": "a USB controller",
    "0x0300": "another graphics card",
    "0x0302": "another 3D controller",
}
"""Classes whose loss a host or another VM would feel."""


def devices(check: Check, host: str) -> list[Device]:
    """Every PCI function of a host."""
    found: list[Device] = check.ask(f"nodes/{host}/hardware/pci?pci-class-blacklist=")
    return found


def iommu(check: Check) -> Iterator[None]:
    """The host has its IOMMU on."""
    for host in check.hosts_with_gpus:
        with check.about(f"host {host}"):
            path = f"nodes/{host}/hardware/pci?pci-class-blacklist="
            groups = {one.get("iommugroup", NO_IOMMU) for one in devices(check, host)}
            if groups == {NO_IOMMU}:
                check.fail(
                    path,
                    "no PCI function of the host is in an IOMMU group: the IOMMU is off",
                    "Proxmox VE refuses to start a VM with hostpci.",
                    "Switch it on: VT-d or AMD-Vi in the firmware, and on Intel with an older"
                    " kernel intel_iommu=on on the kernel's command line; then restart the host.",
                )
            else:
                check.passed(f"{len(groups - {NO_IOMMU})} IOMMU groups")
        yield


def present(check: Check) -> Iterator[None]:
    """Each card is where the configuration says, and is the one that it says."""
    for name, node, gpu in check.cards:
        with check.about(f"{name}: {gpu.card} at {gpu.path} on {node.host}"):
            path = f"nodes/{node.host}/hardware/pci?pci-class-blacklist="
            function = _main_function(devices(check, node.host), gpu.path)
            if function is None:
                check.fail(path, *_absent(devices(check, node.host), gpu))
            elif problem := _differs(function, gpu):
                check.fail(path, *problem, answer=function)
            else:
                check.passed(
                    f"{function.get('device_name', gpu.id)}, IOMMU group {gpu.iommu_group}"
                )
        yield


def _main_function(found: Sequence[Device], slot: str) -> Device | None:
    return next((one for one in found if str(one["id"]).startswith(f"{slot}.")), None)


def _absent(found: Sequence[Device], gpu: Gpu) -> tuple[str, str, str]:
    elsewhere = [str(one["id"]) for one in found if identity(one) == gpu.id.lower()]
    where = f"; a card with the id {gpu.id} is at {', '.join(elsewhere)}" if elsewhere else ""
    return (
        f"there is no PCI device at {gpu.path}{where}",
        "The mapping would point at nothing, and the VM would not start.",
        "Correct path, id, subsystemId and iommuGroup: `python -m gpu_passthrough devices` prints"
        " those of each card. A card can get another address when others are added.",
    )


def _differs(function: Device, gpu: Gpu) -> tuple[str, str, str] | None:
    seen = {
        "id": identity(function),
        "subsystemId": _subsystem(function),
        "iommuGroup": str(function.get("iommugroup", NO_IOMMU)),
    }
    said = {
        "id": gpu.id.lower(),
        "subsystemId": gpu.subsystem_id.lower(),
        "iommuGroup": str(gpu.iommu_group),
    }
    if seen["iommuGroup"] == str(NO_IOMMU):
        said["iommuGroup"] = seen["iommuGroup"]  # the check `iommu` says it once
    wrong = [
        f"{key} is {seen[key] or 'absent'}, not {said[key]}"
        for key in said
        if seen[key] != said[key]
    ]
    if not wrong:
        return None
    return (
        "; ".join(wrong),
        "Proxmox VE compares a mapping with the live device and refuses the start of the VM.",
        "If it is the card that you mean, write what is there into the stack file:\n"
        + "\n".join(f"{key}: {text}" for key, text in entry(function).items()),
    )


def entry(function: Device) -> dict[str, str]:
    """What a stack file says of the device whose first function this is, as YAML's scalars."""
    return {
        "path": f'"{str(function["id"]).rpartition(".")[0]}"',
        "id": f'"{identity(function)}"',
        "subsystemId": f'"{_subsystem(function)}"',
        "iommuGroup": str(function.get("iommugroup", NO_IOMMU)),
    }


def identity(function: Device) -> str:
    """vendor:device, as lspci writes it."""
    return f"{_hex(function.get('vendor'))}:{_hex(function.get('device'))}"


def _subsystem(function: Device) -> str:
    if not function.get("subsystem_vendor"):
        return ""
    return f"{_hex(function['subsystem_vendor'])}:{_hex(function.get('subsystem_device'))}"


def _hex(text: object) -> str:
    return str(text or "").removeprefix("0x").lower()


def groups(check: Check) -> Iterator[None]:
    """Nothing that host or others need is in a card's IOMMU group."""
    for name, node, gpu in check.cards:
        subject = f"{name}: IOMMU group of {gpu.path} on {node.host}"
        with check.about(subject, part=f"{node.host}/{gpu.iommu_group}"):
            path = f"nodes/{node.host}/hardware/pci?pci-class-blacklist="
            found = devices(check, node.host)
            function = _main_function(found, gpu.path)
            if function is None:
                check.follows("the card is not there")
            elif function.get("iommugroup", NO_IOMMU) == NO_IOMMU:
                check.follows("the host's IOMMU is off")
            else:
                members = _group(found, function)
                _judge_group(check, path, node, gpu, members)
        yield


def _group(found: Sequence[Device], function: Device) -> list[Device]:
    """Every function of a function's group, whatever its class."""
    group = function.get("iommugroup", NO_IOMMU)
    return [one for one in found if one.get("iommugroup") == group]


def _judge_group(check: Check, path: str, node: Node, gpu: Gpu, members: Sequence[Device]) -> None:
    own = {one.path for one in node.gpus}
    foreign = [
        one
        for one in members
        if str(one["id"]).rpartition(".")[0] not in own
        and str(one.get("class", ""))[:6] not in HARMLESS
    ]
    if not foreign:
        names = ", ".join(str(one["id"]) for one in members)
        check.passed(f"group {gpu.iommu_group}: {names}")
        return
    named = ", ".join(
        f"{one['id']} ({TAKEN.get(str(one.get('class', ''))[:6], one.get('device_name', '?'))})"
        for one in foreign
    )
    check.fail(
        path,
        f"the group {gpu.iommu_group} also holds {named}",
        "A group goes to a VM as a whole: the host and other VMs lose these when this VM starts.",
        "Put the card into another slot, or accept the loss of this group by its name:"
        f" --ignore iommu-group:{node.host}/{gpu.iommu_group}. The ACS override patch splits the"
        " group on paper only.",
        answer=foreign,
    )


def free(check: Check) -> Iterator[None]:
    """No other VM has the card in its configuration."""
    for name, node, gpu in check.cards:
        with check.about(f"{name}: {gpu.path} on {node.host}"):
            claimed = list(_claims(check, node, gpu))
            if claimed:
                vmid, other, text = claimed[0]
                check.fail(
                    f"nodes/{node.host}/qemu/{vmid}/config",
                    f"VM {vmid} ({other}) has it: {text}",
                    "A card serves one running VM at a time; the second one does not start.",
                    f"Take it from that VM: qm set {vmid} --delete {text.partition(':')[0]}.",
                    answer=text,
                )
            else:
                check.passed_for_all("no other VM has it")
        yield


def _claims(check: Check, node: Node, gpu: Gpu) -> Iterator[tuple[int, str, str]]:
    mapped = {
        str(mapping["id"])
        for mapping in check.ask(f"cluster/mapping/pci?check-node={node.host}")
        if any(f"path={gpu.path}" in re.split(r"[,;]", line) for line in mapping.get("map") or ())
    }
    for vm in check.vms(node.host):
        if check.is_ours(vm):
            continue
        config = check.ask(f"nodes/{node.host}/qemu/{vm['vmid']}/config")
        for key, value in sorted(config.items()):
            if HOSTPCI.fullmatch(key) and _names(str(value), gpu, mapped):
                yield int(vm["vmid"]), str(vm.get("name", "")), f"{key}: {value}"


def _names(value: str, gpu: Gpu, mapped: set[str]) -> bool:
    """Whether a hostpci option is about this card, by mapping or raw address."""
    short = gpu.path.removeprefix("0000:")
    for part in re.split(r"[,;]", value):
        key, _, text = part.rpartition("=")
        if key == "mapping" and text in mapped:
            return True
        if key in ("", "host") and text.removeprefix("0000:").partition(".")[0] == short:
            return True
    return False


def mappings(check: Check) -> Iterator[None]:
    """A mapping that exists under the name that is needed agrees with the live device."""
    for name, node in check.machines.items():
        for number, gpu in enumerate(sorted(node.gpus, key=lambda one: one.path)):
            mapping = f"{name}-gpu{number}"
            with check.about(f"mapping {mapping}"):
                path = f"cluster/mapping/pci?check-node={node.host}"
                found = next((one for one in check.ask(path) if one["id"] == mapping), None)
                if found is None:
                    _no_mapping(check, path, mapping, node, gpu)
                elif problem := _mapping_problem(found, node.host, gpu):
                    check.fail(
                        path,
                        problem,
                        "The VM that uses it would not start, or start with another card.",
                        f"Is the card where the stack says (check `device`)? Then:"
                        f" pvesh set /cluster/mapping/pci/{mapping} --map {_entry(node.host, gpu)}",
                        answer=found,
                    )
                else:
                    check.passed("is valid on its host")
            yield


def _no_mapping(check: Check, path: str, mapping: str, node: Node, gpu: Gpu) -> None:
    """A mapping that is not there is still to be made, or was removed under a VM's feet."""
    if not _uses(check, node, mapping):
        check.passed("does not exist yet")
        return
    check.fail(
        path,
        f"it is gone, and VM {node.vm_id} names it",
        "The VM runs on until it is stopped, and then does not start again.",
        f"`pulumi up --refresh` makes it again; by hand: pvesh create /cluster/mapping/pci"
        f" --id {mapping} --map {_entry(node.host, gpu)}",
    )


def _uses(check: Check, node: Node, mapping: str) -> bool:
    if not check.exists(node):
        return False
    config = check.ask(f"nodes/{node.host}/qemu/{node.vm_id}/config")
    return any(
        f"mapping={mapping}" in str(text).split(",")
        for key, text in config.items()
        if HOSTPCI.fullmatch(key)
    )


def _entry(host: str, gpu: Gpu) -> str:
    """The mapping's entry as it should be."""
    return (
        f"node={host},path={gpu.path},id={gpu.id},subsystem-id={gpu.subsystem_id}"
        f",iommugroup={gpu.iommu_group}"
    )


def _mapping_problem(found: Mapping[str, Any], host: str, gpu: Gpu) -> str:
    lines = [dict(part.partition("=")[::2] for part in line.split(",")) for line in found["map"]]
    here = [line for line in lines if line.get("node") == host]
    if not here:
        return f"it has no entry for host {host}, only for {', '.join(x['node'] for x in lines)}"
    errors = [one for one in found.get("checks") or () if one.get("severity") == "error"]
    if errors:
        return str(errors[0].get("message", "it does not agree with the device"))
    others = sorted({str(line.get("path")) for line in here} - {gpu.path})
    if others and len(here) == len(others):
        return f"it points at {', '.join(others)}, not at {gpu.path}"
    if others:
        return (
            f"besides {gpu.path} it also stands for {', '.join(others)}: Proxmox VE takes whichever"
            " of them is free"
        )
    return ""
