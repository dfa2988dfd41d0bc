"""`python -m pullrequest`: which stacks are touched, the plan of one, the comment on all.

Exit codes: 0 fine, 2 the plan is refused, 1 it could not be made.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from pullrequest import touched

CHECKOUT = Path(__file__).parent.parent
EXIT = {"planned": 0, "refused": 2, "failed": 1}


def _stacks(arguments: argparse.Namespace) -> int:
    """Print the touched stacks as JSON, as a job matrix takes them."""
    files = touched.changed_files(CHECKOUT, arguments.base)
    print(json.dumps(touched.touched(files, touched.stacks_of(CHECKOUT))))
    return 0


def _base(wanted: str | None) -> str | None:
    """The commit where this branch left its base; None where there is no base."""
    for name in [wanted] if wanted else ["origin/main", "main"]:
        try:
            return touched.git(CHECKOUT, "merge-base", name, "HEAD").strip()
        except touched.GitError:
            if wanted:
                raise
    return None


def _plan(arguments: argparse.Namespace) -> int:
    """Make one stack's plan; print it, and keep it for the summary and for the comment."""
    from pullrequest import plan, render

    found = plan.make(CHECKOUT, arguments.stack, _base(arguments.base), arguments.stand_ins)
    text = render.markdown(found)
    print(text)
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / f"plan-{found.stack}.json").write_text(found.model_dump_json())
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a") as file:
            file.write(text)
    return EXIT[found.outcome]


def _comment(arguments: argparse.Namespace) -> int:
    """Write the plans of a finished run into the comments of its pull request."""
    from pullrequest import comment, github

    api = github.Api.from_environment()
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text())
    return comment.post(api, event["workflow_run"], arguments.plans)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pullrequest", description=__doc__)
    commands = parser.add_subparsers(required=True)
    stacks = commands.add_parser("stacks", help="print the touched stacks as JSON")
    stacks.add_argument("--base", default="origin/main", help="the branch to compare with")
    stacks.set_defaults(run=_stacks)
    plan = commands.add_parser("plan", help="print what would happen to a stack")
    plan.add_argument("stack")
    plan.add_argument("--base", help="the branch to compare with; origin/main or main if it exists")
    plan.add_argument("--output", type=Path, help="folder for the plan as JSON")
    plan.add_argument("--stand-ins", type=Path, help="folder of plugins for want of the vendors'")
    plan.set_defaults(run=_plan)
    comment = commands.add_parser("comment", help="put plans into a pull request's comments")
    comment.add_argument("plans", type=Path, help="folder with the plans of a finished run")
    comment.set_defaults(run=_comment)
    return parser


def main() -> int:
    """Run a command; what is wrong is one line, not a traceback."""
    arguments = _parser().parse_args()
    try:
        return int(arguments.run(arguments))
    except (touched.GitError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
