"""Keeps one comment per stack on a pull request, written anew by each run.

The plans come from a job that ran the pull request's code, so they may be anybody's: they are
read as data of the expected shape, and rendered here.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pullrequest.github import Api
from pullrequest.markdown import prose
from pullrequest.model import Plan
from pullrequest.render import MARKER, markdown, marker

LARGEST = 2_000_000
"""Bytes of a plan."""
MOST = 50
"""Plans of one run."""
OURS = re.compile(re.escape(MARKER).replace(r"\{\}", r"(\S+)"))


def plans(folder: Path) -> list[Plan]:
    """The plans in a folder; one that is none is left out, and said to be."""
    found = []
    for path in sorted(folder.rglob("plan-*.json"))[:MOST]:
        if path.is_symlink() or path.stat().st_size > LARGEST:
            print(f"{path.name} is no plan: too large, or a link.", file=sys.stderr)
            continue
        try:
            found.append(Plan.model_validate_json(path.read_bytes()))
        except ValidationError as error:
            count = error.error_count()
            print(f"{path.name} is no plan: {count} fields are wrong.", file=sys.stderr)
    return found


def outdated(stack: str, run: dict[str, Any]) -> str:
    """What a comment says for whose stack the last run made no plan."""
    commit = prose(str(run["head_sha"])[:12])
    text = f"The plan for {prose(stack)} is out of date: {commit} does not touch it, or no plan"
    return f"{marker(stack)}\n{text} could be made. The checks of the pull request say which.\n"


def post(api: Api, run: dict[str, Any], folder: Path) -> int:
    """Write, renew or outdate the comments of the run's pull request."""
    number = api.pull_request(run)
    if number is None:
        print("No open pull request is at this commit: nothing to comment on.")
        return 0
    ours: dict[str, int] = {}
    for one in api.comments(number):
        if match := OURS.match(one["body"] or ""):
            ours.setdefault(match[1], one["id"])
    wanted = {plan.stack: markdown(plan) for plan in plans(folder)}
    for stack in ours.keys() - wanted.keys():
        wanted[stack] = outdated(stack, run)
    for stack, text in sorted(wanted.items()):
        if stack in ours:
            api.call("PATCH", f"/issues/comments/{ours[stack]}", {"body": text})
        else:
            api.call("POST", f"/issues/{number}/comments", {"body": text})
    return 0
