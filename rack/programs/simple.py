"""Small programs that do one thing."""

from __future__ import annotations

import re
import time
from typing import Final

from rack.programs.process import Main, Process
from rack.world.filetree import File

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "0": "\0", "a": "\a"}


def unescape(text: str) -> str:
    """Backslash sequences of echo -e and printf."""
    return re.sub(r"\\([ntr\\0a])", lambda found: _ESCAPES[found.group(1)], text)


def true(process: Process) -> int:
    """Succeed."""
    return 0


def false(process: Process) -> int:
    """Fail."""
    return 1


def echo(process: Process) -> int:
    """Write the arguments."""
    args, end, escapes = process.args, "\n", False
    while args and re.fullmatch(r"-[neE]+", args[0]):
        end = "" if "n" in args[0] else end
        escapes = escapes or "e" in args[0]
        args = args[1:]
    text = " ".join(args)
    process.out.write((unescape(text) if escapes else text) + end)
    return 0


def printf(process: Process) -> int:
    """Write arguments by a format of %s, %d and %%."""
    if not process.args:
        process.complain("missing operand")
        return 1
    form, args = unescape(process.args[0]), process.args[1:]
    count = len(re.findall(r"%[sd]", form))
    while True:
        process.out.write(_formatted(form, args[:count]))
        args = args[count:]
        if not args or not count:
            return 0


def _formatted(form: str, args: list[str]) -> str:
    """The format with its slots filled; those without an argument are empty."""
    values = iter(args)
    return re.sub(r"%[sd%]", lambda f: "%" if f[0] == "%%" else next(values, ""), form)


def env(process: Process) -> int:
    """Write every variable, or run a program with more of them."""
    args = process.args
    variables = dict(process.env)
    while args and "=" in args[0]:
        key, _, value = args[0].partition("=")
        variables[key] = value
        args = args[1:]
    if args:
        from rack.programs.launch import run

        return run(process.child(args, env=variables))
    for key, value in variables.items():
        process.say(f"{key}={value}")
    return 0


def printenv(process: Process) -> int:
    """Write the values of variables."""
    if not process.args:
        return env(process)
    found = [process.env[name] for name in process.args if name in process.env]
    for value in found:
        process.say(value)
    return 0 if len(found) == len(process.args) else 1


def hostname(process: Process) -> int:
    """Write the pod's name."""
    process.say(process.container.view["hostname"])
    return 0


def identity(process: Process) -> int:
    """Write who runs here: root, as in most images."""
    short = {"-u": "0", "-g": "0", "-un": "root", "-gn": "root"}
    known = short.get("".join(process.args))
    process.say(known if known is not None else "uid=0(root) gid=0(root) groups=0(root)")
    return 0


def whoami(process: Process) -> int:
    """Write the user's name."""
    process.say("root")
    return 0


def uname(process: Process) -> int:
    """Write what kernel runs: the node's."""
    release = process.container.pod["kernel_version"]
    parts = {
        "s": "Linux",
        "n": process.container.view["hostname"],
        "r": release,
        "v": "#1 SMP",
        "m": "x86_64",
        "o": "GNU/Linux",
    }
    letters = "".join(arg.lstrip("-") for arg in process.args) or "s"
    wanted = parts if "a" in letters else {k: v for k, v in parts.items() if k in letters}
    process.say(" ".join(wanted.values()))
    return 0


def sleep(process: Process) -> int:
    """Wait."""
    try:
        time.sleep(sum(_seconds(arg) for arg in process.args))
    except ValueError:
        process.complain(f"invalid time interval '{' '.join(process.args)}'")
        return 1
    return 0


def _seconds(text: str) -> float:
    if text in ("inf", "infinity"):
        return 10.0**8
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:])
    return float(text[:-1]) * unit if unit else float(text)


def pwd(process: Process) -> int:
    """Write the folder."""
    process.say(process.cwd)
    return 0


def nproc(process: Process) -> int:
    """Write the number of processors: the node's."""
    process.say(str(process.container.pod["cpus"]))
    return 0


def which(process: Process) -> int:
    """Write where programs are."""
    tree = process.container.tree
    found = [tree.program(name, process.env.get("PATH", "")) for name in process.args]
    for path in filter(None, found):
        process.say(path)
    return 0 if all(found) else 1


def touch(process: Process) -> int:
    """Make empty files, which last as long as this command."""
    for name in process.args:
        if process.find(name) is None:
            process.container.tree.put(process.path(name), File("file"))
    return 0


PROGRAMS: Final[dict[str, Main]] = {
    "echo": echo,
    "env": env,
    "false": false,
    "hostname": hostname,
    "id": identity,
    "nproc": nproc,
    "printenv": printenv,
    "printf": printf,
    "pwd": pwd,
    "sleep": sleep,
    "touch": touch,
    "true": true,
    "uname": uname,
    "which": which,
    "whoami": whoami,
}
