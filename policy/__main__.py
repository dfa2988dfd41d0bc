#!/usr/bin/env python3
"""The policy pack: the rules of rules.py, brought to Pulumi.

    pulumi preview --policy-pack policy

A file given instead of the folder (policy/__main__.py) is started directly.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import rules
from pulumi_policy import (
    EnforcementLevel,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)

LEVELS = {
    "mandatory": EnforcementLevel.MANDATORY,
    "advisory": EnforcementLevel.ADVISORY,
}


def policy_of(rule: rules.Rule) -> ResourceValidationPolicy:
    """A rule over one resource as Pulumi's policy."""

    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        for message in rule.check(args.resource_type, args.props):
            report(message, None)

    return ResourceValidationPolicy(
        name=rule.name,
        description=rule.description,
        enforcement_level=LEVELS[rule.level],
        validate=validate,
    )


def check_protection(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a stateful resource without protection."""
    for message in rules.unprotected(args.resource_type, args.opts.protect):
        report(message, None)


def check_rollouts(args: StackValidationArgs, report: ReportViolation) -> None:
    """Report Deployments that would wait for their own volume."""
    urns = {
        one.urn: rules.Resource(one.resource_type, one.name, one.props) for one in args.resources
    }
    for resource, message in rules.deadlocked_rollouts(urns.values()):
        report(message, next(urn for urn, other in urns.items() if other is resource))


PolicyPack(
    name="gpu-passthrough",
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[
        *map(policy_of, rules.RULES),
        ResourceValidationPolicy(
            name="protected-state",
            description=(rules.unprotected.__doc__ or "").strip(),
            enforcement_level=EnforcementLevel.ADVISORY,
            validate=check_protection,
        ),
        StackValidationPolicy(
            name="recreate-with-one-node-volume",
            description=(rules.deadlocked_rollouts.__doc__ or "").strip(),
            validate=check_rollouts,
        ),
    ],
)
