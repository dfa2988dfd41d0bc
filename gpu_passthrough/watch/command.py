"""`watch`: the GPUs of a cluster, again and again."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TextIO

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from gpu_passthrough.verify.cluster import Cluster, ForbiddenError, UnreachableError
from gpu_passthrough.watch import view
from gpu_passthrough.watch.metrics import Reading, look

DONE: Final = 0
UNREAD: Final = 1
"""With --once: a GPU could not be read, or there is none."""
UNREACHABLE: Final = 3


@dataclass(frozen=True)
class Options:
    """How to watch."""

    interval_s: float = 2.0
    """From the end of one look to the next."""
    once: bool = False
    as_json: bool = False


Show = Callable[[Reading | str], None]
"""Shows a moment, or why there is nothing to show."""
Look = Callable[[], Reading]


def run_watch(kubeconfig: str, options: Options) -> int:
    """Watch until Ctrl-C, and return the exit code."""
    try:
        cluster = Cluster(kubeconfig)
        with ExitStack() as stack:
            show = _shower(options, sys.stdout, stack)
            return loop(lambda: look(cluster), show, options)
    except (UnreachableError, ForbiddenError) as error:
        typer.echo(str(error), err=True)
        return UNREACHABLE
    except KeyboardInterrupt:
        return DONE
    except BrokenPipeError:
        # Whoever read has seen enough; Python would complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def loop(
    look: Look, show: Show, options: Options, wait: Callable[[float], None] = time.sleep
) -> int:
    """Look and show; the first look has to succeed, later ones may fail and are tried again.

    Raises:
        UnreachableError: the first look found no cluster.
        ForbiddenError: the first look was not allowed.
    """
    reading = look()
    show(reading)
    if options.once:
        return UNREAD if reading.unread or not reading.samples else DONE
    while True:
        wait(options.interval_s)
        try:
            show(look())
        except (UnreachableError, ForbiddenError) as error:
            show(str(error))


def _shower(options: Options, out: TextIO, stack: ExitStack) -> Show:
    """Live in a terminal; otherwise each moment after the other."""
    if not options.as_json and not options.once and out.isatty():
        live = stack.enter_context(Live(console=Console(file=out), auto_refresh=False))

        def draw(found: Reading | str) -> None:
            now = datetime.now().astimezone()
            shown = _missed(found) if isinstance(found, str) else view.table(found, now)
            live.update(shown, refresh=True)

        return draw

    def write(found: Reading | str) -> None:
        out.write(_written(found, options))
        out.flush()

    return write


def _missed(message: str) -> Text:
    return Text(f"{view.harmless(message)}; trying again", style="yellow")


def _written(found: Reading | str, options: Options) -> str:
    if options.as_json:
        now = datetime.now(UTC)
        return (
            view.error_as_json(found, now) if isinstance(found, str) else view.as_json(found, now)
        )
    if isinstance(found, str):
        return f"{view.harmless(found)}; trying again\n"
    end = "" if options.once else "\n"
    return view.plain(found, datetime.now().astimezone()) + end
