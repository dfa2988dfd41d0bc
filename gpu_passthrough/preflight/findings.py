"""One check at work: what it may ask, and how it says what it found."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_passthrough.checks.finding import Finding, Layer, Status
from gpu_passthrough.config import Gpu, Node, Proxmox, Stack
from gpu_passthrough.preflight.client import Client, DeniedError

NOT_UNDERSTOOD = (AttributeError, LookupError, TypeError, ValueError)
"""What an answer of another shape than Proxmox VE's leads to."""


@dataclass
class Check:
    """A running check. Everything it says is about the subject that `about` names."""

    id: str
    title: str
    layer: Layer
    client: Client
    stack: Stack
    site: Proxmox
    findings: list[Finding] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    """Hosts that are not there."""
    _subject: str = ""
    _part: str = ""
    _best_effort: bool = False
    _since: float = 0.0

    def ask(self, path: str) -> Any:
        """What the API answers; refusals end the subject as `could not tell`."""
        return self.client.get(path)

    @contextmanager
    def about(self, subject: str, *, part: str = "", best_effort: bool = False) -> Iterator[None]:
        """Check one subject; `part` is what tells it apart for who ignores it."""
        self._subject, self._part, self._best_effort = subject, part, best_effort
        self._since = time.monotonic()
        try:
            yield
        except DeniedError as refusal:
            self._add(
                "could-not-tell",
                f"the API refuses: {refusal}",
                fix="Give the token what it lacks; the check `permissions` names it.",
                path=refusal.path,
            )
        except NOT_UNDERSTOOD as error:
            self._add("could-not-tell", f"the API's answer is not understood: {error!r}")

    def passed(self, found: str) -> None:
        """It is as it has to be."""
        self._add("passed", found)

    def unknown(self, why: str) -> None:
        """It cannot be told."""
        self._add("could-not-tell", why)

    def passed_for_all(self, found: str) -> None:
        """It is so for every VM of the host, if the token may see every VM."""
        if self.sees_every_vm:
            self.passed(found)
        else:
            self.follows(f"{found}, of those that the token may see: it has no VM.Audit on /vms")

    def follows(self, why: str) -> None:
        """It cannot be told because of what another check has found."""
        self._best_effort = True
        self._add("could-not-tell", why)

    def fail(
        self, path: str, cause: str, consequence: str, fix: str, *, answer: object = None
    ) -> None:
        """It is not as it has to be."""
        self._add("failed", cause, consequence, fix, path, answer)

    def lose(self, host: str, path: str, cause: str, consequence: str, fix: str) -> None:
        """A host is not there: what else is wrong with it cannot be told, and is not asked."""
        self.lost.add(host)
        self._add("failed", cause, consequence, fix, path)
        self.findings[-1] = replace(self.findings[-1], ignorable=False)

    def warn(self, path: str, cause: str, consequence: str, fix: str) -> None:
        """It works, perhaps."""
        self._add("warning", cause, consequence, fix, path)

    def _add(
        self,
        status: Status,
        cause: str,
        consequence: str = "",
        fix: str = "",
        path: str = "",
        answer: object = None,
    ) -> None:
        self.findings.append(
            Finding(
                id=self.id,
                part=self._part,
                title=self.title,
                status=status,
                layer=self.layer,
                subject=self._subject,
                evidence=(self.client.evidence(path, answer),) if path else (),
                cause=cause,
                consequence=consequence,
                fix=fix,
                best_effort=self._best_effort,
                seconds=time.monotonic() - self._since,
            )
        )

    @property
    def hosts(self) -> list[str]:
        """The hosts of the stack that are there."""
        return sorted({node.host for node in self.machines.values()})

    @property
    def hosts_with_gpus(self) -> list[str]:
        """The hosts whose cards are used."""
        return sorted({node.host for node in self.machines.values() if node.gpus})

    @property
    def machines(self) -> dict[str, Node]:
        """The machines of the hosts that are there."""
        return {n: node for n, node in self.stack.nodes.items() if node.host not in self.lost}

    @property
    def cards(self) -> list[tuple[str, Node, Gpu]]:
        """Each card with its machine."""
        return [(n, node, gpu) for n, node in self.machines.items() for gpu in node.gpus]

    def nodes_of(self, host: str) -> dict[str, Node]:
        """The machines of a host."""
        return {name: node for name, node in self.stack.nodes.items() if node.host == host}

    @property
    def sees_every_vm(self) -> bool:
        """Whether VMs that are not the stack's show at all: Proxmox VE leaves the others out."""
        held: dict[str, Any] = self.ask("access/permissions?path=/vms")
        return "VM.Audit" in (held.get("/vms") or {})

    def vms(self, host: str) -> list[dict[str, Any]]:
        """The VMs of a host that the token may see."""
        found: list[dict[str, Any]] = self.ask(f"nodes/{host}/qemu")
        return found

    def is_ours(self, vm: dict[str, Any]) -> bool:
        """A VM is one of the stack's: it has the id and the name."""
        return any(
            int(vm["vmid"]) == node.vm_id and vm.get("name") == name
            for name, node in self.stack.nodes.items()
        )

    def exists(self, node: Node) -> bool:
        """The machine is there already."""
        return any(int(vm["vmid"]) == node.vm_id for vm in self.vms(node.host))
