"""Generated configurations: refused in words, or accepted and then able to compute on the rack.

`--hypothesis-profile=deep` looks at many more of them.
"""

from __future__ import annotations

from typing import Any

from hypothesis import event, given, settings

from gpu_passthrough import compatibility, placement
from gpu_passthrough.config import Stack
from gpu_passthrough.judging import judge
from gpu_passthrough.problems import ConfigurationError

from .configurations import spoilt_stacks, stacks
from .drive import failure


def attempt(values: dict[str, Any]) -> Stack | None:
    """The stack where it is accepted."""
    try:
        stack = judge(values)
    except ConfigurationError as refusal:
        check_words(refusal)
        return None
    compatibility.verdict(stack)
    placement.plan(stack)
    return stack


def check_words(refusal: ConfigurationError) -> None:
    """A refusal says of each problem where it is and what is wrong."""
    assert refusal.problems
    for problem in refusal.problems:
        assert problem.path
        assert problem.message
        assert problem.render() in str(refusal)


@given(spoilt_stacks())
def test_whatever_is_written_is_accepted_or_refused_in_words(values: dict[str, Any]) -> None:
    event("accepted" if attempt(values) else "refused")


@settings(max_examples=max(1, settings().max_examples // 2))
@given(stacks())
def test_what_is_accepted_works_on_the_rack(values: dict[str, Any]) -> None:
    stack = attempt(values)
    event("refused" if stack is None else f"accepted, starts at {stack.starts_at}")
    if stack is not None:
        assert failure(stack) is None
