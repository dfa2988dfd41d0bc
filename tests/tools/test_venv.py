"""One environment per set of requirements, whoever asks for it."""

from __future__ import annotations

import subprocess
import sys
import venv as standard
from pathlib import Path

import pytest

from tools import venv

CHECKOUT = Path(__file__).parents[2]


def key_of(interpreter: str) -> str:
    return subprocess.run(
        [interpreter, "-c", "from tools import venv; print(venv._key())"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_an_environment_on_path_does_not_make_another_one(tmp_path: Path) -> None:
    standard.create(tmp_path / "env", with_pip=False)
    inside = tmp_path / "env" / "bin" / "python"
    assert key_of(str(inside)) == key_of(venv.BASE) == key_of(sys.executable)


def test_other_requirements_are_another_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = venv._key()
    for name in venv.REQUIREMENTS:
        (tmp_path / name).write_text((CHECKOUT / name).read_text())
    monkeypatch.setattr(venv, "CHECKOUT", tmp_path)
    assert venv._key() == before
    (tmp_path / "requirements.txt").write_text("pulumi==3.0.0\n")
    assert venv._key() != before
