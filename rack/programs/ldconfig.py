"""`ldconfig`: lists the loader's cache."""

from __future__ import annotations

from typing import Final

from rack.programs.process import Main, Process


def ldconfig(process: Process) -> int:
    """With -p, list every library that the loader knows; else do nothing, as it is up to date."""
    if "-p" not in process.args and "--print-cache" not in process.args:
        return 0
    cache = process.container.ld_cache
    process.say(f"{len(cache)} libs found in cache `/etc/ld.so.cache'")
    for name in sorted(cache, reverse=True):
        process.say(f"\t{name} (libc6,x86-64) => {cache[name]}")
    return 0


PROGRAMS: Final[dict[str, Main]] = {"ldconfig": ldconfig}
