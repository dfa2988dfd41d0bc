"""The proof at the end of `pulumi up`: it fails where a GPU cannot be used afterwards.

It runs in every `up` of a stack that asks for it, also where nothing changed, and never in a
preview. What was built stays: the next `up` proves it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pulumi

from components.readiness import Access
from gpu_passthrough.config import Stack


def prove(stack: Stack, access: Access, after: Sequence[pulumi.Resource]) -> None:
    """Compute on every GPU as soon as the given resources are there.

    Raises (in the run, once it gets there):
        pulumi.RunError: a GPU cannot be used, with the lowest broken layer.
    """
    if not stack.proof or pulumi.runtime.is_dry_run():
        return

    async def compute(values: list[Any]) -> bool:
        await asyncio.to_thread(_compute, stack, values[0], access.context)
        return True

    built: pulumi.Output[list[Any]] = pulumi.Output.all(
        access.kubeconfig, *(one.urn for one in after)
    )
    _: pulumi.Output[bool] = built.apply(compute)


def _compute(stack: Stack, kubeconfig: str, context: str | None) -> None:
    """Imported here, because the client takes half a second to load, and a preview needs none."""
    from gpu_passthrough.checks.diagnose import diagnose
    from gpu_passthrough.kubeapi import UnreachableError, parse
    from gpu_passthrough.verify.cluster import Cluster
    from gpu_passthrough.verify.run import Choice, verify

    pulumi.log.info("proof: computing on every GPU")
    choice = Choice(seconds=stack.timeouts.app_ready, asks_host=False)
    try:
        cluster = Cluster(parse(kubeconfig), context)
    except UnreachableError as error:
        raise pulumi.RunError(f"The proof has no cluster: {error}") from None
    report = verify(pulumi.get_stack(), stack, cluster, choice, pulumi.log.debug)
    if report.failures:
        raise pulumi.RunError(
            "The proof failed: what was built cannot be used.\n"
            f"{diagnose(report.failures).text}\n"
            "  Everything that was built stays. `make verify` shows every check; after the fix"
            " `pulumi up` proves it again."
        )
    pulumi.log.info(f"proof: {report.counts['passed']} checks passed")
