"""Commands that containers run by themselves, each in a thread, once per run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from rack.programs.launch import run_command
from rack.world.podtypes import ContainerOutcome
from rack.world.podview import PodView

LOG: Final = logging.getLogger(__name__)
_UNDER_WAY: Final = ContainerOutcome(state="running")


class Commands:
    """Commands under way and their results, by the identity of the container's run."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._results: dict[str, ContainerOutcome] = {}

    def outcome(
        self, run: str, pod: PodView, container: str, asked: ContainerOutcome
    ) -> ContainerOutcome:
        """What a run has come to; its command is started when it is asked for first.

        Args:
            run: identity of the run.
            pod: the pod's view.
            container: name of the container.
            asked: outcome of the model, with the command.
        """
        if not asked.argv:
            return asked
        if run not in self._results:
            self._results[run] = _UNDER_WAY
            work = (run, pod.model_dump(mode="json"), container, asked.argv)
            threading.Thread(target=self._work, args=work, name=container, daemon=True).start()
        return self._results[run]

    def keep_only(self, runs: Collection[str]) -> None:
        """Forget runs of containers that are gone."""
        for run in self._results.keys() - set(runs):
            del self._results[run]

    def _work(
        self, run: str, pod: Mapping[str, Any], container: str, argv: tuple[str, ...]
    ) -> None:
        try:
            code, text = run_command(pod, container, argv)
        except Exception:
            LOG.exception("the command of container %s broke", container)
            code, text = 255, "simulated rack: the command broke; see the rack's log"
        self._results[run] = ContainerOutcome(
            state="exited",
            exit_code=code,
            reason="Error" if code else "Completed",
            log_lines=tuple(text.splitlines()),
        )
        self._changed()
