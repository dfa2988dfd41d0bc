"""Users, API tokens, roles and access control lists of Proxmox VE (pve-access-control).

A role given on a path holds below it when it propagates; a more specific entry replaces what was
inherited. A token with privilege separation has what both it and its user have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pydantic import BaseModel

from rack.world.errors import Refused, forbidden

ROOT: Final = "root@pam"
TOKEN_ID: Final = re.compile(r"([^\s:/]+@[A-Za-z][A-Za-z0-9.\-_]+)!([A-Za-z][A-Za-z0-9.\-_]+)")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


PRIVILEGES: Final = _names(
    """
    Permissions.Modify Realm.Allocate Realm.AllocateUser User.Modify Group.Allocate
    Pool.Allocate Pool.Audit Mapping.Modify Mapping.Use Mapping.Audit SDN.Allocate SDN.Audit SDN.Use
    Datastore.Allocate Datastore.AllocateTemplate Datastore.AllocateSpace Datastore.Audit
    Sys.PowerMgmt Sys.Modify Sys.Incoming Sys.AccessNetwork Sys.Console Sys.Syslog Sys.Audit
    VM.Config.Disk VM.Config.CPU VM.Config.Memory VM.Config.Network VM.Config.HWType
    VM.Config.Options VM.Config.CDROM VM.Config.Cloudinit VM.Allocate VM.Clone VM.Migrate
    VM.Replicate VM.Snapshot VM.Snapshot.Rollback VM.Console VM.Backup VM.PowerMgmt VM.Audit
    VM.GuestAgent.Unrestricted VM.GuestAgent.FileRead VM.GuestAgent.FileSystemMgmt
    VM.GuestAgent.FileWrite VM.GuestAgent.Audit
    """
)

_PASSTHROUGH: Final = _names(
    """
    Datastore.Allocate Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Audit
    Mapping.Audit Mapping.Modify Mapping.Use SDN.Use Sys.AccessNetwork Sys.Audit
    VM.Allocate VM.Audit VM.Config.CDROM VM.Config.CPU VM.Config.Cloudinit VM.Config.Disk
    VM.Config.HWType VM.Config.Memory VM.Config.Network VM.Config.Options VM.PowerMgmt
    """
)
_AUDIT: Final = _names(
    """
    VM.Audit VM.GuestAgent.Audit Sys.Audit Datastore.Audit SDN.Audit Pool.Audit Mapping.Audit
    """
)
ROLES: Final = {
    "Administrator": PRIVILEGES,
    "NoAccess": frozenset[str](),
    "PVEAuditor": _AUDIT,
    "PVEVMUser": _names(
        """
        VM.Config.CDROM VM.Config.Cloudinit VM.Console VM.Backup VM.PowerMgmt VM.Audit
        VM.GuestAgent.FileRead VM.GuestAgent.FileSystemMgmt VM.GuestAgent.FileWrite
        VM.GuestAgent.Audit
        """
    ),
    "PVEVMAdmin": frozenset(p for p in PRIVILEGES if p.startswith("VM.")),
    "PVEMappingUser": frozenset(("Mapping.Use", "Mapping.Audit")),
    "PVEMappingAdmin": frozenset(("Mapping.Modify", "Mapping.Use", "Mapping.Audit")),
    "PVEDatastoreUser": frozenset(("Datastore.AllocateSpace", "Datastore.Audit")),
    "PVEDatastoreAdmin": frozenset(p for p in PRIVILEGES if p.startswith("Datastore.")),
    "GpuPassthrough": _PASSTHROUGH,
}
"""PVE's own roles as far as they matter here, and the one that building the chain takes."""

_SHOWN_PATHS: Final = (
    "/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms"
)  # fmt: skip


class Token(BaseModel):
    """An API token."""

    secret: str
    """A UUID."""
    privilege_separated: bool = True


class User(BaseModel):
    """A user, with the tokens by their names."""

    enabled: bool = True
    tokens: dict[str, Token] = {}


class AclEntry(BaseModel):
    """A role given to a user or token on a path."""

    path: str
    who: str
    """User, `name@realm`, or token, `name@realm!token`."""
    role: str
    propagate: bool = True


class Access(BaseModel):
    """Who there is and what each may do."""

    users: dict[str, User] = {ROOT: User()}
    acl: list[AclEntry] = []

    def authenticate(self, token_id: str, secret: str) -> str | None:
        """Return the token's full name when its secret is right and its user is enabled."""
        found = TOKEN_ID.fullmatch(token_id)
        user = self.users.get(found[1]) if found else None
        token = user.tokens.get(found[2]) if user and found else None
        if user is None or token is None or not user.enabled or token.secret != secret:
            return None
        return token_id

    def permissions(self, who: str, path: str) -> dict[str, int]:
        """Privileges of a user or token on a path; the value is 1 where they propagate."""
        if who == ROOT:
            return dict.fromkeys(sorted(PRIVILEGES), 1)
        owner, separator, name = who.partition("!")
        user = self.users.get(owner)
        if user is None:
            return {}
        if not separator:
            return self._granted(who, path)
        token = user.tokens.get(name)
        if token is None:
            return {}
        of_user = self.permissions(owner, path)
        if not token.privilege_separated:
            return of_user
        own = self._granted(who, path)
        return {p: of_user[p] and flag for p, flag in own.items() if p in of_user}

    def _granted(self, who: str, path: str) -> dict[str, int]:
        roles: dict[str, int] = {}
        for step in _steps(path):
            here = {
                entry.role: int(entry.propagate)
                for entry in self.acl
                if entry.who == who and entry.path == step and (entry.propagate or step == path)
            }
            roles = here or roles
        if "NoAccess" in roles:
            return {}
        granted: dict[str, int] = {}
        for role, flag in roles.items():
            for privilege in ROLES.get(role, ()):
                granted[privilege] = granted.get(privilege, 0) or flag
        return dict(sorted(granted.items()))

    def effective(self, who: str) -> dict[str, dict[str, int]]:
        """Privileges on every path that PVE lists without being asked for one."""
        paths = sorted({*_SHOWN_PATHS, *(entry.path for entry in self.acl)})
        found = {path: self.permissions(who, path) for path in paths}
        return {path: privileges for path, privileges in found.items() if privileges}

    def has(self, who: str, path: str, privilege: str) -> bool:
        """Whether a user or token has a privilege on a path."""
        return privilege in self.permissions(who, path)

    def check(self, who: str, path: str, *privileges: str) -> None:
        """Demand every one of the privileges.

        Raises:
            Refused: PVE's 403, naming the path and the first privilege that is missing.
        """
        granted = self.permissions(who, path)
        for privilege in privileges:
            if privilege not in granted:
                raise forbidden(path, privilege)

    def check_any(self, who: str, path: str, privileges: Iterable[str]) -> None:
        """Demand one of the privileges.

        Raises:
            Refused: PVE's 403, naming the path and all of them.
        """
        wanted = tuple(privileges)
        if not set(wanted) & set(self.permissions(who, path)):
            raise forbidden(path, *wanted)

    def add_token(self, who: str, secret: str, role: str) -> None:
        """Make a user with one token that has all of the user's privileges, and give it a role.

        Raises:
            Refused: the name is no token's, or there is no such role.
        """
        found = TOKEN_ID.fullmatch(who)
        if not found or role not in ROLES:
            raise Refused(f"cannot make the token {who!r} with role {role!r}", "rack")
        user = self.users.setdefault(found[1], User())
        user.tokens[found[2]] = Token(secret=secret, privilege_separated=False)
        if not any(entry.who == found[1] for entry in self.acl):
            self.acl.append(AclEntry(path="/", who=found[1], role=role))


def _steps(path: str) -> list[str]:
    """`/vms/100` by way of `/` and `/vms`."""
    parts = [part for part in path.split("/") if part]
    return ["/", *("/" + "/".join(parts[: n + 1]) for n in range(len(parts)))]
