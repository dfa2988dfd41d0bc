"""Answering a request: who asks, which endpoint, what came of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs

from rack.proxmox import cluster, mappings, nodes, storages, tasks, vms
from rack.proxmox.endpoints import Call, find
from rack.rack import Rack
from rack.world.errors import Refused, invalid

PREFIX: Final = "/api2/json"
FAMILIES: Final = (cluster, mappings, nodes, storages, tasks, vms)
"""Imported for the endpoints that they enter into the table."""

_TOKEN: Final = re.compile(r"PVEAPIToken(?:=| )(?P<id>[^=;]+)=(?P<secret>[^;]+)")
AUTHENTICATION_DELAY: Final = 3.0
"""Seconds that a wrong token waits for its answer in the realistic profile."""


@dataclass(frozen=True)
class Request:
    """One HTTP request."""

    method: str
    path: str
    """Without the query, still encoded."""
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    """One HTTP answer. PVE's clients read the reason phrase: it says what went wrong."""

    status: int
    reason: str
    body: bytes = b""
    media_type: str = "application/json;charset=UTF-8"
    delay: float = 0.0
    """Seconds to wait before it is sent."""


class UnreachableError(Exception):
    """The host cannot answer: it lost its network card or its disks to a VM."""


def answer(rack: Rack, request: Request) -> Answer:
    """Answer one request to a rack's Proxmox VE API.

    Raises:
        UnreachableError: no answer comes from this host any more.
    """
    with rack.lock() as world:
        for host in world.hosts.values():
            if host.losses:
                raise UnreachableError(f"{host.name} lost its {', '.join(host.losses)} to a VM")
        who = _authenticate(rack, request)
        if isinstance(who, Answer):
            return who
        call = Call(world, who, rack.now())
        try:
            return _success(_dispatch(call, request))
        except Refused as refusal:
            return _failure(refusal)


def _authenticate(rack: Rack, request: Request) -> str | Answer:
    header = request.headers.get("Authorization", "")
    if not header.startswith("PVEAPIToken"):
        return Answer(401, "No ticket", media_type="")
    found = _TOKEN.match(header)
    if found is None:
        return Answer(401, "invalid token value!", media_type="")
    who = rack.world.access.authenticate(found["id"].strip(), found["secret"].strip())
    if who is None:
        delay = AUTHENTICATION_DELAY if rack.world.latency == "realistic" else 0.0
        return Answer(401, "Authentication failed!", media_type="", delay=delay)
    return who


def _dispatch(call: Call, request: Request) -> Any:
    path = request.path.removeprefix(PREFIX).rstrip("/") or "/"
    entry, in_path = find(request.method, path)
    given = _parameters(request)
    for name, text in in_path.items():
        if given.get(name, [text]) != [text]:
            raise invalid(**{name: "duplicate parameter (already defined in URI)"})
    call.values = given | {name: [text] for name, text in in_path.items()}
    entry.allow(call)
    entry.check(call)
    return entry.handler(call)


def _parameters(request: Request) -> dict[str, list[str]]:
    """Parameters of the query and of a form-encoded or JSON body."""
    values = parse_qs(request.query, keep_blank_values=True)
    if request.method not in ("POST", "PUT") or not request.body:
        return values
    if "application/json" not in request.headers.get("Content-Type", ""):
        return values | parse_qs(request.body.decode(), keep_blank_values=True)
    try:
        document = json.loads(request.body)
    except ValueError as error:
        raise Refused(f"unable to parse JSON body: {error}\n", status=400) from None
    if not isinstance(document, dict):
        raise Refused("unable to parse JSON body: not an object\n", status=400)
    return values | {name: _texts(value) for name, value in document.items() if value is not None}


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, bool):
        return [str(int(value))]
    return [str(value)]


def _success(data: Any) -> Answer:
    return Answer(200, "OK", json.dumps({"data": data}).encode())


def _failure(refusal: Refused) -> Answer:
    message = refusal.message if refusal.message.endswith("\n") else f"{refusal.message}\n"
    body: dict[str, Any] = {"data": None, "message": message}
    if refusal.errors:
        body["errors"] = refusal.errors
    reason = message.strip().splitlines()[0] if message.strip() else "error"
    return Answer(refusal.status, reason, json.dumps(body).encode())
