"""The role in docs/real-hardware.md is enough to build the document's chain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_passthrough.judging import judge
from rack.world import access
from tests.unit.stacks import document

from .drive import below
from .hardware import Failure
from .recording import recorded

DOCUMENT = Path(__file__).parents[2] / "docs" / "real-hardware.md"
ROLE = "GpuPassthrough"
NEEDED = (
    *("Datastore.AllocateSpace", "Mapping.Use", "SDN.Use", "VM.Allocate", "VM.Config.CPU"),
    *("VM.Config.HWType", "VM.Config.Memory", "VM.Config.Options", "VM.PowerMgmt"),
)
"""Those that building alone needs, apart from reading, and from what another one stands in for."""


def documented() -> frozenset[str]:
    found = re.search(rf'pveum role add {ROLE} --privs "([^"]+)"', DOCUMENT.read_text())
    assert found
    return frozenset(found[1].split())


def build(monkeypatch: pytest.MonkeyPatch, privileges: frozenset[str]) -> None:
    """Build the VMs with a token that has these privileges and no others."""
    monkeypatch.setitem(access.ROLES, "Administrator", privileges)
    stack = judge(document())
    below(stack, recorded(stack))


def test_every_privilege_is_one_of_proxmox() -> None:
    assert documented() <= access.PRIVILEGES


def test_the_role_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    build(monkeypatch, documented())


@pytest.mark.parametrize("privilege", NEEDED)
def test_without_one_of_them_it_is_not(monkeypatch: pytest.MonkeyPatch, privilege: str) -> None:
    with pytest.raises(Failure, match="Permission check failed"):
        build(monkeypatch, documented() - {privilege})
