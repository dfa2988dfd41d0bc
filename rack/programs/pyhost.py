"""Prepares an interpreter to be the pod's, then runs the code in it."""

from __future__ import annotations

import ast
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rack.programs import pod_files, pod_loader, pod_onnxruntime
from rack.programs.container import Container, of_pod


def main() -> int:
    """Run what the variable RACK_PYTHON_RUN describes."""
    what = json.loads(os.environ.pop("RACK_PYTHON_RUN"))
    view = what["container"]
    container = of_pod({"containers": {view["name"]: view}}, view["name"])
    os.environ.clear()
    os.environ.update(what["env"])
    pod_loader.install(container)
    if container.image["onnxruntime"]:
        sys.modules["onnxruntime"] = pod_onnxruntime.module(container)
    code, name, argv = _program(container, what["argv"][1:])
    pod_files.install(container)
    if isinstance(code, int):
        return code
    _forget()
    sys.argv = argv
    namespace: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    try:
        exec(compile(code, name, "exec"), namespace)  # noqa: S102 - that is what Python does
    except Exception as error:
        # Begins where the pod's own code begins.
        trace = error.__traceback__ and error.__traceback__.tb_next
        traceback.print_exception(error.with_traceback(trace))
        return 1
    return 0


def _program(container: Container, args: list[str]) -> tuple[str | int, str, list[str]]:
    """Code, its name, and sys.argv; an exit status instead of code where there is none."""
    while args and args[0] in ("-u", "-B", "-s", "-E", "-I", "-q", "-W", "-X"):
        args = args[2:] if args[0] in ("-W", "-X") else args[1:]
    if not args or args[0] == "-":
        return sys.stdin.read(), "<stdin>", ["-", *args[1:]]
    if args[0] == "-c":
        if len(args) < 2:
            return _complain("Argument expected for the -c option"), "", []
        return args[1], "<string>", ["-c", *args[2:]]
    if args[0] == "-m":
        return _module(args[1:])
    if args[0].startswith("-"):
        return _complain(f"simulated rack: the option {args[0]} is not supported here"), "", []
    entry = container.tree.get(args[0])
    if entry is None:
        text = f"can't open file '{args[0]}': [Errno 2] No such file or directory"
        return _complain(f"python3: {text}"), "", []
    return entry.text, args[0], args


def _module(args: list[str]) -> tuple[str | int, str, list[str]]:
    """Run a module of the standard library."""
    if not args:
        return _complain("Argument expected for the -m option"), "", []
    name = args[0]
    if name.partition(".")[0] not in sys.stdlib_module_names:
        return _complain(f"/usr/local/bin/python3: No module named {name}", 1), "", []
    code = ast.unparse(ast.parse(f"import runpy; runpy.run_module({name!r}, run_name='__main__')"))
    return code, name, args


def _complain(text: str, status: int = 2) -> int:
    sys.stderr.write(f"{text}\n")
    return status


def _forget() -> None:
    """Let nothing of the rack be found from the pod's code."""
    sys.path.pop(0)
    for name in [one for one in sys.modules if one.partition(".")[0] == "rack"]:
        del sys.modules[name]


if __name__ == "__main__":
    sys.exit(main())
