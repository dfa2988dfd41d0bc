"""The tool cache: an entry is there whole or not at all, and damage is noticed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools import cache
from tools.sources import Source, load

PROGRAM = "etcd"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setenv("GPU_PASSTHROUGH_CACHE", str(tmp_path))
    return next(one for one in load()[0] if one.key == PROGRAM)


def fill(entry: cache.Entry, content: str = "program") -> None:
    def make(folder: Path) -> str:
        (folder / PROGRAM).write_text(content)
        return "made by a test"

    entry.fill(make)


def test_a_filled_entry_is_usable_and_its_program_can_be_run(source: Source) -> None:
    entry = cache.Entry.of(source)
    assert entry.problem(source.programs) == "absent"
    fill(entry)
    assert entry.problem(source.programs) == ""
    assert os.access(entry.program(PROGRAM), os.X_OK)
    assert entry.origin() == "made by a test"


def test_an_interrupted_fill_leaves_nothing_and_keeps_what_was_there(source: Source) -> None:
    entry = cache.Entry.of(source)
    fill(entry)

    def interrupted(folder: Path) -> str:
        (folder / PROGRAM).write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        entry.fill(interrupted)
    assert entry.program(PROGRAM).read_text() == "program"
    assert [path.name for path in entry.folder.parent.iterdir()] == [entry.folder.name]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_text("prog"), "etcd was cut short or changed"),
        (lambda path: path.write_text("PROGRAM"), "etcd was cut short or changed"),
        (lambda path: path.unlink(), "etcd is missing"),
        (lambda path: (path.parent / "manifest.json").write_text("{"), "its manifest cannot be"),
    ],
)
def test_damage_is_noticed(source: Source, damage: object, said: str) -> None:
    entry = cache.Entry.of(source)
    fill(entry)
    assert callable(damage)
    damage(entry.program(PROGRAM))
    assert entry.problem(source.programs).startswith(said)


def test_a_touched_but_whole_file_is_no_damage(source: Source) -> None:
    entry = cache.Entry.of(source)
    fill(entry)
    os.utime(entry.program(PROGRAM), (1, 1))
    assert entry.problem(source.programs) == ""


def test_an_entry_that_lacks_a_program_is_refused(source: Source) -> None:
    entry = cache.Entry.of(source)
    fill(entry)
    assert entry.problem((PROGRAM, "etcdctl")) == "it lacks etcdctl"


def test_one_process_at_a_time_fills_the_cache(source: Source) -> None:
    with cache.lock() as waited:
        assert waited is False
