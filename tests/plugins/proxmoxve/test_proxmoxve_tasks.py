"""Tasks of the host: lost requests, failures, time-outs, cancellation."""

from __future__ import annotations

import threading

import pytest

from rack.plugins.contract import PartialCreationError, PluginError
from rack.plugins.proxmoxve.client import CancelledError, Client, TaskError
from tests.plugins.proxmoxve.driver import Engine, run
from tests.plugins.proxmoxve.fakepve import FakePve
from tests.plugins.proxmoxve.inputs import FILE, GPU_VM, IMAGE, TOKEN, VM


def test_lost_requests_for_a_task_are_repeated(engine: Engine, fake: FakePve) -> None:
    fake.lost_requests = 2
    assert engine.create(FILE, IMAGE)[0]


def test_a_host_that_loses_everything_is_an_error(engine: Engine, fake: FakePve) -> None:
    fake.lost_requests = 100
    with pytest.raises(PluginError, match="HTTP 599 response - Reason: Too many redirections"):
        engine.create(FILE, IMAGE)


def test_a_task_that_never_ends_runs_into_its_time_out(engine: Engine, fake: FakePve) -> None:
    fake.tasks_never_end = True
    with pytest.raises(PluginError, match="still running after 1 s"):
        engine.create(FILE, {**IMAGE, "uploadTimeout": 1})


@pytest.mark.parametrize(("outcome", "ok"), [("OK", True), ("WARNINGS: 2", True), ("died", False)])
def test_the_exit_status_of_a_task_decides(fake: FakePve, outcome: str, ok: bool) -> None:
    client = Client(fake.endpoint, TOKEN)
    upid = fake.task("qmstart", outcome)
    if ok:
        client.wait(upid, "VM start", 5)
    else:
        with pytest.raises(TaskError, match="VM start failed: died"):
            client.wait(upid, "VM start", 5)


def test_cancelling_ends_a_wait_and_keeps_the_vm_in_the_state(
    engine: Engine, fake: FakePve
) -> None:
    fake.tasks_never_end = True
    timer = threading.Timer(0.3, lambda: run(engine.provider.cancel()))
    timer.start()
    with pytest.raises(PartialCreationError, match="cancelled") as caught:
        engine.create(VM, GPU_VM)
    assert caught.value.resource_id == "111"


def test_cancelling_ends_other_waits_plainly(engine: Engine, fake: FakePve) -> None:
    fake.tasks_never_end = True
    run(engine.provider.cancel())
    with pytest.raises(CancelledError):
        engine.create(FILE, IMAGE)


def test_cancelling_the_wait_for_an_agent_keeps_the_vm(engine: Engine, fake: FakePve) -> None:
    timer = threading.Timer(0.3, lambda: run(engine.provider.cancel()))
    timer.start()
    with pytest.raises(PartialCreationError, match="cancelled") as caught:
        engine.create(VM, {**GPU_VM, "agent": {"enabled": True}})
    assert caught.value.outputs["started"] is True
