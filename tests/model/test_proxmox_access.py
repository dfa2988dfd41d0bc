"""Privileges: what propagates, what replaces, and what a token has of its user's."""

from __future__ import annotations

import pytest

from rack.world.access import ROOT, Access, AclEntry, Token
from rack.world.errors import Refused

USER = "ann@pve"


@pytest.fixture
def access() -> Access:
    found = Access()
    found.add_token(f"{USER}!ci", "secret", "PVEAuditor")
    return found


def give(access: Access, who: str, path: str, role: str, *, propagate: bool = True) -> None:
    access.acl.append(AclEntry(path=path, who=who, role=role, propagate=propagate))


def test_a_role_on_the_root_holds_everywhere(access: Access) -> None:
    assert access.has(USER, "/vms/100", "VM.Audit")
    assert not access.has(USER, "/vms/100", "VM.Allocate")


def test_a_more_specific_entry_replaces_what_was_inherited(access: Access) -> None:
    give(access, USER, "/vms", "PVEVMAdmin")
    assert access.has(USER, "/vms/100", "VM.Allocate")
    assert not access.has(USER, "/vms/100", "Sys.Audit")
    assert access.has(USER, "/nodes/pve", "Sys.Audit")


def test_an_entry_that_does_not_propagate_holds_on_its_path_alone(access: Access) -> None:
    give(access, USER, "/vms", "PVEVMAdmin", propagate=False)
    assert access.permissions(USER, "/vms")["VM.Allocate"] == 0
    assert not access.has(USER, "/vms/100", "VM.Allocate")


def test_no_access_takes_everything(access: Access) -> None:
    give(access, USER, "/vms/100", "NoAccess")
    assert access.permissions(USER, "/vms/100") == {}
    assert access.permissions(USER, "/vms/101") != {}


def test_a_token_without_separation_has_what_its_user_has(access: Access) -> None:
    assert access.permissions(f"{USER}!ci", "/vms") == access.permissions(USER, "/vms")


def test_a_separated_token_has_what_both_have(access: Access) -> None:
    access.users[USER].tokens["own"] = Token(secret="s")
    token = f"{USER}!own"
    assert access.permissions(token, "/") == {}
    give(access, token, "/", "Administrator")
    assert access.has(token, "/vms/1", "VM.Audit")
    assert not access.has(token, "/vms/1", "VM.Allocate")


def test_root_may_do_everything_and_its_token_is_not_root(access: Access) -> None:
    assert access.has(ROOT, "/anything", "Sys.Modify")
    access.add_token(f"{ROOT}!t1", "s", "Administrator")
    assert access.has(f"{ROOT}!t1", "/anything", "Sys.Modify")


def test_a_refusal_names_the_path_and_what_is_missing(access: Access) -> None:
    with pytest.raises(Refused) as one:
        access.check(USER, "/vms/100", "VM.Audit", "VM.Allocate")
    assert one.value.message == "Permission check failed (/vms/100, VM.Allocate)\n"
    assert one.value.status == 403
    with pytest.raises(Refused) as several:
        access.check_any(USER, "/mapping/pci/x", ("Mapping.Use", "Mapping.Modify"))
    assert "(/mapping/pci/x, Mapping.Use|Mapping.Modify)" in several.value.message


@pytest.mark.parametrize(
    ("token", "secret"),
    [(f"{USER}!ci", "other"), (f"{USER}!none", "secret"), ("bob@pve!ci", "secret"), (USER, "")],
)
def test_only_a_token_with_its_own_secret_is_let_in(
    access: Access, token: str, secret: str
) -> None:
    assert access.authenticate(f"{USER}!ci", "secret") == f"{USER}!ci"
    assert access.authenticate(token, secret) is None


def test_a_disabled_user_takes_the_tokens_along(access: Access) -> None:
    access.users[USER].enabled = False
    assert access.authenticate(f"{USER}!ci", "secret") is None
