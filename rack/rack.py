"""The running rack: the world behind a lock, kept on disk, with a clock.

Every change of the world happens inside `lock()`. What was changed is on disk when the block ends,
and everyone who waits is told.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from ruamel.yaml import YAML

from rack.files import DamagedFileError, private_folder, write_private
from rack.settings import Settings
from rack.token import read_token
from rack.world.datacenter import Datacenter, from_inventory
from rack.world.storage import Fetch

T = TypeVar("T")

TOKEN_ROLE: Final = "GpuPassthrough"  # noqa: S105 - a role's name
LOG: Final = logging.getLogger(__name__)


class Rack:
    """One rack, for all threads of the daemon."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self._clock = clock
        self._mutex = threading.RLock()
        self.changed = threading.Condition(self._mutex)
        """Notified after every change of the world."""
        self._closed = threading.Event()
        self._depth = 0
        private_folder(settings.home)
        self._world, self._saved = self._load()

    def _load(self) -> tuple[Datacenter, str]:
        """The world on disk; a new one from the inventory where there is none."""
        file = self.settings.world_file
        saved = file.read_text(encoding="utf-8") if file.exists() else ""
        world = _read_world(file, saved) if saved else _new_world(self.now())
        world.set_latency(self.settings.latency)
        name, _, secret = read_token(self.settings).partition("=")
        world.access.add_token(name, secret, TOKEN_ROLE)
        return world, saved

    def now(self) -> float:
        """Unix time."""
        return self._clock()

    @property
    def world(self) -> Datacenter:
        """The world; read it inside `lock()` only."""
        return self._world

    def fetch_through(self, fetch: Fetch) -> None:
        """Say how hosts of this rack reach URLs."""
        self._world.fetch_through(fetch)

    @contextmanager
    def lock(self) -> Iterator[Datacenter]:
        """Hold the world: what is due by now happens first, what changes is kept.

        Blocks may be nested; the outermost one keeps the changes.
        """
        with self._mutex:
            self._depth += 1
            try:
                self._world.advance(self.now())
                yield self._world
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._keep()

    def _keep(self) -> None:
        text = self._world.model_dump_json()
        if text == self._saved:
            return
        try:
            write_private(self.settings.world_file, text)
        except OSError as error:
            # The world goes on in memory; the next change tries again.
            LOG.error("cannot keep the world in %s: %s", self.settings.world_file, error.strerror)
        else:
            self._saved = text
        self.changed.notify_all()

    def wait_for(
        self, read: Callable[[Datacenter], T | None], timeout: float | None = None
    ) -> T | None:
        """Wait until `read` finds something other than None or False, and return it.

        None when `timeout`, in seconds, is over or the rack closes. Not to be called inside
        `lock()`: the world is free for others while this waits.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._mutex:
            while not self._closed.is_set():
                with self.lock() as world:
                    found = read(world)
                if found is not None and found is not False:
                    return found
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self.changed.wait(left)
        return None

    def run_clock(self) -> None:
        """Let happen what is due, when it is due, until the rack closes."""
        with self._mutex:
            while not self._closed.is_set():
                with self.lock() as world:
                    due = world.next_event
                self.changed.wait(None if due is None else max(due - self.now(), 0.0))

    def close(self) -> None:
        """Let everyone who waits go on; the world is on disk."""
        self._closed.set()
        with self.changed:
            self.changed.notify_all()

    @property
    def is_closed(self) -> bool:
        """The rack stops: threads should end."""
        return self._closed.is_set()


def _read_world(file: Path, saved: str) -> Datacenter:
    try:
        return Datacenter.model_validate_json(saved)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise DamagedFileError(
            f"the world in {file} cannot be read: {f'{where}: ' if where else ''}{first['msg']}. It"
            " is damaged, or another version of the simulated rack wrote it. Remove the file to"
            " begin with an empty rack; what was built on it is lost"
        ) from None


def _new_world(now: float) -> Datacenter:
    text = resources.files("rack").joinpath("inventory.yaml").read_text(encoding="utf-8")
    inventory: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return from_inventory(inventory, now)
