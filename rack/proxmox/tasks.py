"""Tasks of a host: their state and their logs."""

from __future__ import annotations

from typing import Any, Final

from rack.proxmox.endpoints import BOOLEAN, Call, endpoint
from rack.world.errors import Refused, invalid
from rack.world.propertystring import Key
from rack.world.tasks import Task, check_upid

_COUNT: Final = Key("integer", minimum=0)
LISTED: Final = 50
PROXY_ERROR: Final = 599
"""What the API's own proxy answers where the host behind it does not."""


def _task(call: Call) -> Task:
    upid = call.text("upid")
    check_upid(upid)
    task = call.world.task(upid)
    if task is None:
        raise invalid(upid="no such task")
    if task.user != call.who and task.user.partition("!")[0] != call.who:
        call.require(f"/nodes/{call.text('node')}", "Sys.Audit")
    return task


@endpoint(
    "GET",
    "/nodes/{node}/tasks",
    parameters={
        "start": _COUNT,
        "limit": _COUNT,
        "vmid": Key("integer"),
        "typefilter": Key(),
        "errors": BOOLEAN,
        "source": Key(choices=("archive", "active", "all")),
    },
)
def index(call: Call) -> Any:
    """The newest tasks of a host, newest first."""
    may_see_all = call.has(f"/nodes/{call.text('node')}", "Sys.Audit")
    found = [
        task
        for task in reversed(call.world.tasks)
        if task.node == call.host.name
        and (may_see_all or task.user == call.who)
        and call.text("vmid") in ("", task.id)
        and call.text("typefilter") in ("", task.kind)
        and (not call.flag("errors") or task.failed)
    ]
    first = int(call.text("start", "0"))
    return [_listed(task) for task in found[first : first + int(call.text("limit", str(LISTED)))]]


def _listed(task: Task) -> dict[str, Any]:
    status = task.status()
    listed = {key: value for key, value in status.items() if key not in ("status", "exitstatus")}
    if not task.exit_status:
        return {**listed, "status": "RUNNING"}  # PVE/API2/Tasks.pm
    return {**listed, "status": task.exit_status, "endtime": int(task.finish)}


@endpoint("GET", "/nodes/{node}/tasks/{upid}/status")
def status(call: Call) -> Any:
    """Whether a task runs, and how it ended."""
    faults = call.world.faults
    if faults.status_599 > 0:
        faults.status_599 -= 1
        raise Refused("Too many redirections", status=PROXY_ERROR)
    return _task(call).status()


@endpoint("GET", "/nodes/{node}/tasks/{upid}/log", parameters={"start": _COUNT, "limit": _COUNT})
def log(call: Call) -> Any:
    """Lines of a task's log, with their numbers."""
    lines = _task(call).log or ["no content"]
    first = int(call.text("start", "0"))
    last = first + int(call.text("limit", str(LISTED)))
    return [{"n": n, "t": text} for n, text in list(enumerate(lines, start=1))[first:last]]
