"""Programs that read text and write some of it."""

from __future__ import annotations

import itertools
import re
from typing import Final

from rack.programs.process import Main, Process


def cat(process: Process) -> int:
    """Write files one after the other."""
    names = [arg for arg in process.args if arg == "-" or not arg.startswith("-")]
    found = process.inputs(names)
    for _, text in found:
        process.out.write(text)
    return 0 if len(found) == max(len(names), 1) else 1


def grep(process: Process) -> int:
    """Write the lines that fit a pattern: 0 where there are any, 1 without, 2 for trouble."""
    options, rest = _split(process.args, takes_value="e")
    if unknown := set(options) - set("ivcqnoEFwhHe"):
        return process.refuse(f"-{min(unknown)}")
    pattern = options.get("e") or (rest.pop(0) if rest else None)
    if pattern is None:
        process.complain("no pattern given")
        return 2
    expression = _expression(pattern, options)
    files = process.inputs(rest)
    count = 0
    for name, text in files:
        for number, line in enumerate(text.splitlines(), start=1):
            found = expression.search(line)
            if (found is None) != ("v" in options):
                continue
            count += 1
            if "q" in options or "c" in options:
                continue
            shown = found.group(0) if found and "o" in options else line
            shown = f"{number}:{shown}" if "n" in options else shown
            process.say(f"{name}:{shown}" if len(files) > 1 and "h" not in options else shown)
    if "c" in options:
        process.say(str(count))
    return 0 if count else (2 if len(files) < len(rest) else 1)


def _expression(pattern: str, options: dict[str, str]) -> re.Pattern[str]:
    if "F" in options:
        pattern = re.escape(pattern)
    elif "E" not in options:
        # In a basic expression these are plain characters, and special with a backslash.
        pattern = re.sub(r"(\\?)([+?|(){}])", lambda f: f[2] if f[1] else "\\" + f[2], pattern)
    if "w" in options:
        pattern = rf"\b(?:{pattern})\b"
    return re.compile(pattern, re.IGNORECASE if "i" in options else 0)


def head(process: Process) -> int:
    """Write the first lines."""
    count, names = _count(process.args)
    for _, text in process.inputs(names):
        process.out.writelines(itertools.islice(text.splitlines(keepends=True), count))
    return 0


def tail(process: Process) -> int:
    """Write the last lines."""
    if "-f" in process.args:
        return process.refuse("-f")
    count, names = _count(process.args)
    for _, text in process.inputs(names):
        process.out.writelines(text.splitlines(keepends=True)[-count:])
    return 0


def _count(args: list[str]) -> tuple[int, list[str]]:
    """Number of lines, and names, of head's and tail's arguments."""
    short = [arg for arg in args if not re.fullmatch(r"-\d+", arg)]
    counts = [int(arg[1:]) for arg in args if re.fullmatch(r"-\d+", arg)]
    options, names = _split(short, takes_value="nc")
    return (counts[0] if counts else int(options.get("n", 10))), names


def wc(process: Process) -> int:
    """Count lines, words and bytes."""
    options, names = _split(process.args)
    found = process.inputs(names)
    for name, text in found:
        counts = {"l": text.count("\n"), "w": len(text.split()), "c": len(text.encode())}
        wanted = [str(n) for key, n in counts.items() if not options or key in options]
        label = "" if name == "-" else f" {name}"
        process.say(
            (wanted[0] if len(wanted) == 1 else " ".join(f"{n:>7}" for n in wanted)) + label
        )
    return 0 if len(found) == max(len(names), 1) else 1


def sort(process: Process) -> int:
    """Write lines in order."""
    options, names = _split(process.args)
    lines = [line for _, text in process.inputs(names) for line in text.splitlines()]
    key = (lambda line: (_number(line), line)) if "n" in options else None
    lines = sorted(lines, key=key, reverse="r" in options)
    for line in dict.fromkeys(lines) if "u" in options else lines:
        process.say(line)
    return 0


def _number(line: str) -> float:
    found = re.match(r"\s*(-?\d+(?:\.\d+)?)", line)
    return float(found.group(1)) if found else 0.0


def uniq(process: Process) -> int:
    """Write each of equal neighbours once."""
    options, names = _split(process.args)
    lines = [line for _, text in process.inputs(names) for line in text.splitlines()]
    for line, same in itertools.groupby(lines):
        count = len(list(same))
        process.say(f"{count:>7} {line}" if "c" in options else line)
    return 0


def cut(process: Process) -> int:
    """Write fields of lines."""
    options, names = _split(process.args, takes_value="dfc")
    if "f" not in options:
        return process.refuse("anything but -f")
    fields = [int(one) for one in options["f"].split(",") if one.isdigit()]
    delimiter = options.get("d", "\t")
    for _, text in process.inputs(names):
        for line in text.splitlines():
            parts = line.split(delimiter)
            picked = [parts[n - 1] for n in fields if n <= len(parts)]
            process.say(delimiter.join(picked) if delimiter in line else line)
    return 0


def tr(process: Process) -> int:
    """Replace or delete characters."""
    options, sets = _split(process.args)
    text = process.stdin.read()
    first = _characters(sets[0])
    if "d" in options:
        process.out.write("".join(one for one in text if one not in first))
        return 0
    second = _characters(sets[1])
    table = {a: second[min(i, len(second) - 1)] for i, a in enumerate(first)}
    process.out.write("".join(table.get(one, one) for one in text))
    return 0


def _characters(text: str) -> str:
    plain = text.replace("\\n", "\n").replace("\\t", "\t")
    names = {"[:upper:]": "A-Z", "[:lower:]": "a-z", "[:space:]": " \t\n"}
    for name, meaning in names.items():
        plain = plain.replace(name, meaning)
    span = re.compile(r"(.)-(.)", re.DOTALL)
    return span.sub(lambda f: "".join(map(chr, range(ord(f[1]), ord(f[2]) + 1))), plain)


def _split(args: list[str], takes_value: str = "") -> tuple[dict[str, str], list[str]]:
    """Short options with their values, and the other arguments."""
    options: dict[str, str] = {}
    rest: list[str] = []
    waiting = list(args)
    while waiting:
        arg = waiting.pop(0)
        if not arg.startswith("-") or arg == "-":
            rest.append(arg)
            continue
        letters = arg.lstrip("-")
        for index, letter in enumerate(letters):
            if letter in takes_value:
                options[letter] = letters[index + 1 :] or (waiting.pop(0) if waiting else "")
                break
            options[letter] = ""
    return options, rest


PROGRAMS: Final[dict[str, Main]] = {
    "cat": cat,
    "cut": cut,
    "grep": grep,
    "head": head,
    "sort": sort,
    "tail": tail,
    "tr": tr,
    "uniq": uniq,
    "wc": wc,
}
