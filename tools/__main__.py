"""`python3 -m tools`: make the programs available, or print the environment that uses them."""

from __future__ import annotations

import argparse
import sys

from tools import clean, environment, resolve
from tools.progress import say
from tools.sources import ToolError


def _programs(verbose: bool) -> None:
    for one in resolve.missing_on_machine():
        say(f"warning: {resolve.how_to_get(one)}")
    for found in resolve.resolve():
        if verbose:
            print(f"{found.source.title} {found.source.version}: {found.origin}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m tools", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    programs = commands.add_parser(
        "programs", help="find, download or build what is missing, and link it in .tools/bin"
    )
    programs.add_argument("--quiet", action="store_true", help="say nothing where all is there")
    commands.add_parser("env", help="print the shell's environment; eval it")
    commands.add_parser("clean", help="remove local state and links, if no stack needs them")
    return parser


def main() -> int:
    """Run a command; 0 is success, 1 a program that cannot be had, 130 an interruption."""
    arguments = _parser().parse_args()
    try:
        if arguments.command == "env":
            print(environment.shell_text())
        elif arguments.command == "clean":
            clean.clean()
        else:
            _programs(verbose=not arguments.quiet)
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The next run goes on from here.", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"error: {error.strerror}: {error.filename}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
