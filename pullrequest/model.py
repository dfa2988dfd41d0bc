"""A plan as data.

It travels as JSON from the job that ran a pull request's code to the job that may comment. The
second trusts nothing in it: every field is bounded here and neutralised when it is rendered.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Op = Literal["create", "import", "update", "replace", "delete"]
Outcome = Literal["planned", "refused", "failed"]
"""planned: `up` would do this; refused: the configuration or a policy forbids it; failed: the
preview broke off."""

LONGEST_TEXT = 2000
LONGEST_LIST = 2000
STACK_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"

Text = Annotated[str, Field(max_length=LONGEST_TEXT)]


def clip(text: str, longest: int = LONGEST_TEXT) -> str:
    """A text that fits into a field."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


class Part(BaseModel):
    """Base of everything in a plan."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Property(Part):
    """A property that differs."""

    path: Text
    forces: bool = False
    """It is why the resource cannot be changed in place."""
    before: Text | None = None
    after: Text | None = None


class Change(Part):
    """A resource that would not stay as it is."""

    op: Op
    kind: Text
    name: Text
    properties: Annotated[tuple[Property, ...], Field(max_length=LONGEST_LIST)] = ()
    loses: Text | None = None
    """What is gone for good with it."""


class Outage(Part):
    """Cards that nobody can compute on for a while, or for good."""

    cards: Text
    where: Text
    until: Text
    why: Text
    apps: Annotated[tuple[Text, ...], Field(max_length=LONGEST_LIST)] = ()


class Violation(Part):
    """A policy that a resource breaks."""

    level: Literal["mandatory", "advisory"]
    policy: Text
    resource: Text
    message: Text


class Verdict(Part):
    """What the stack's combination of versions and cards is worth."""

    before: Text | None = None
    """None where the stack is new."""
    after: Text
    text: Text


class Plan(Part):
    """Everything that a pull request says about one stack."""

    stack: Annotated[str, Field(pattern=STACK_NAME)]
    outcome: Outcome
    refusal: Text | None = None
    """Why it was refused, in a few words."""
    changes: Annotated[tuple[Change, ...], Field(max_length=LONGEST_LIST)] = ()
    left_out: int = 0
    """Changes beyond the longest list."""
    unchanged: int = 0
    outages: Annotated[tuple[Outage, ...], Field(max_length=LONGEST_LIST)] = ()
    verdict: Verdict | None = None
    violations: Annotated[tuple[Violation, ...], Field(max_length=LONGEST_LIST)] = ()
    problems: Annotated[tuple[Text, ...], Field(max_length=LONGEST_LIST)] = ()
    """What is wrong with the configuration, or what broke off."""
    unseen: Annotated[tuple[Text, ...], Field(max_length=LONGEST_LIST)] = ()
    """What the preview could not look at, and what that means."""
