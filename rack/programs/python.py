"""`python3`: the real interpreter, in which the pod's libraries and files are simulated.

It runs isolated and without any package but the simulated ones (`pyhost.py` prepares it), as a
process of its own, because the program may do anything.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from rack.programs.process import Main, Process

_HOST: Final = Path(__file__).with_name("pyhost.py")


def python(process: Process) -> int:
    """Run Python with the given arguments."""
    if process.args in (["-V"], ["--version"]):
        process.say(f"Python {process.container.image['python']}.0")
        return 0
    what = {"container": process.container.view, "env": process.env, "argv": process.argv}
    command = [sys.executable, "-I", "-S", str(_HOST)]
    given = None if process.stdin is sys.stdin else process.stdin.read()
    plain = process.out is sys.stdout and process.err is sys.stderr
    process.out.flush()
    process.err.flush()
    done = subprocess.run(
        command,
        input=given,
        capture_output=not plain,
        text=True,
        env={"RACK_PYTHON_RUN": json.dumps(what)},
        check=False,
    )
    if not plain:
        process.out.write(done.stdout)
        process.err.write(done.stderr)
    return done.returncode


PROGRAMS: Final[dict[str, Main]] = {"python": python, "python3": python}
