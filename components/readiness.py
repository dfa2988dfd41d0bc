"""Gates between the layers: `pulumi up` waits at one until what is below it works.

A gate is a resource hook, so that it holds back exactly what depends on it, is asked again after
an interrupted run, and never runs in a preview. It wants two good reads in a row, because a
control plane that comes up answers once and falls silent again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from gpu_passthrough.config import RuntimeClass, Stack
from gpu_passthrough.kubeapi import (
    ForbiddenError,
    KubernetesApi,
    Object,
    UnreachableError,
    parse,
)

INTERVAL_S = 1.0
"""Pause between two reads."""
REMINDER_S = 30.0
"""A wait that changes nothing says so this often."""
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
GOOD_READS = 2

Read = Callable[[], Sequence[str]]
"""Names what is missing; nothing is missing where the layer is ready."""


class NotReady(Exception):  # noqa: N818 (the engine shows the text, never the name)
    """A gate gave up."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """How a gate reaches the cluster."""

    kubeconfig: pulumi.Output[str]
    context: str | None = None
    """The kubeconfig's current context where left out."""


@dataclass(frozen=True, kw_only=True)
class Wait:
    """How long to wait for what, and what to say when it does not come."""

    subject: str
    timeout_s: float
    why: str
    fix: str
    setting: str
    """Key of the time-out in the stack file."""

    async def until_ready(
        self,
        read: Read,
        say: Callable[[str], None] = pulumi.log.info,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read until nothing is missing twice in a row; NotReady when the time is over."""
        started = spoken = clock()
        good = 0
        last: tuple[str, ...] = ()
        while good < GOOD_READS:
            missing = tuple(await asyncio.to_thread(read))
            good = 0 if missing else good + 1
            waited = clock() - started
            if missing and waited >= self.timeout_s:
                raise NotReady(self._gave_up(missing))
            if missing and (missing != last or clock() - spoken >= REMINDER_S):
                say(f"waiting for {self.subject} ({waited:.0f} s): {'; '.join(missing)}")
                last, spoken = missing, clock()
            if good < GOOD_READS:
                await sleep(INTERVAL_S)

    def _gave_up(self, missing: Iterable[str]) -> str:
        found = "\n".join(f"  - {one}" for one in missing)
        return (
            f"{self.subject} not ready after {self.timeout_s:.0f} s:\n{found}\n"
            f"  Why: {self.why}\n"
            f"  Fix: {self.fix} Then run `pulumi up` again; it goes on from here. The time is"
            f" {self.setting} in the stack file."
        )


def kubernetes_gate(access: Access, timeout_s: int) -> pulumi.ResourceHookBinding:
    """Hold back what uses the Kubernetes API until it answers: before its provider is made."""
    wait = Wait(
        subject="the Kubernetes API",
        timeout_s=timeout_s,
        why="The cluster is bootstrapped, and without its API nothing above Talos can be built.",
        fix="Look at the control plane machine: `talosctl health`, `talosctl logs kubelet`.",
        setting="timeouts.kubernetesReady",
    )
    hook = Gate("kubernetes-ready", access, wait, missing_api)
    return pulumi.ResourceHookBinding(before_create=[hook], before_update=[hook])


def gpu_gate(access: Access, stack: Stack) -> Gate:
    """Wait for the operator, and for the GPUs that each node of the stack has to offer.

    The operator alone is no proof: it is ready without a GPU node too.
    """
    namespace = stack.gpu_operator.namespace
    wait = Wait(
        subject="the GPUs",
        timeout_s=stack.timeouts.operator_ready,
        why="A pod that claims a GPU stays Pending until a node offers one.",
        fix="Look at the operands in their order, driver validation first:"
        f" `kubectl -n {namespace} get pods -o wide`.",
        setting="timeouts.operatorReady",
    )

    def read(api: KubernetesApi) -> list[str]:
        policies, nodes = _policies_and_nodes(api)
        return missing_gpus(
            policies, nodes, expected=expected_gpus(stack), resource=stack.gpu_resource
        )

    return Gate("gpus-ready", access, wait, read)


def class_gate(access: Access, wanted: RuntimeClass) -> pulumi.ResourceHook:
    """Refuse to claim a RuntimeClass that exists with another handler: that cannot be changed."""

    async def gate(_: pulumi.ResourceHookArgs) -> None:
        text = await access.kubeconfig.future()
        try:
            handler = await asyncio.to_thread(_handler, text or "", access.context, wanted.name)
        except (UnreachableError, ForbiddenError) as error:
            raise NotReady(f"RuntimeClass {wanted.name} cannot be looked at: {error}") from None
        if problem := other_handler(wanted, handler):
            raise NotReady(problem)

    return pulumi.ResourceHook("runtime-class-unclaimed", gate)


def namespace_gate(access: Access) -> pulumi.ResourceHook:
    """Refuse to take over a namespace that somebody else made: `destroy` would remove all in it."""

    async def gate(args: pulumi.ResourceHookArgs) -> None:
        name = str((args.new_inputs or {})["metadata"]["name"])
        text = await access.kubeconfig.future()
        try:
            found = await asyncio.to_thread(_namespace, text or "", access.context, name)
        except (UnreachableError, ForbiddenError) as error:
            raise NotReady(f"namespace {name} cannot be looked at: {error}") from None
        if found is not None and not _is_pulumis(found):
            raise NotReady(
                f"namespace {name} exists, and not by Pulumi.\n"
                "  Why: the stack would take it over, and `pulumi destroy` would remove it with"
                " everything in it.\n"
                "  Fix: say createNamespace: false of its apps, and it stays somebody else's; or"
                " name another namespace."
            )

    return pulumi.ResourceHook("namespace-unclaimed", gate)


def _namespace(kubeconfig: str, context: str | None, name: str) -> Object | None:
    found: Object | None = KubernetesApi(parse(kubeconfig), context).get(
        f"/api/v1/namespaces/{name}"
    )
    return found


def _is_pulumis(found: Object) -> bool:
    """Made by a run that was interrupted before it could tell."""
    fields = found["metadata"].get("managedFields") or ()
    return any(str(one.get("manager", "")).startswith("pulumi-kubernetes") for one in fields)


def other_handler(wanted: RuntimeClass, found: str | None) -> str:
    """What is wrong with the RuntimeClass that exists; empty where nothing is."""
    if found in (None, wanted.handler):
        return ""
    return (
        f"RuntimeClass {wanted.name} exists with the handler {found}; the stack says"
        f" {wanted.handler}.\n"
        "  Why: a handler cannot be changed in place, and pods of the class would start without the"
        " driver.\n"
        f"  Fix: `kubectl delete runtimeclass {wanted.name}` if nothing needs the old one, or give"
        " runtimeClass another name in the stack file."
    )


def _handler(kubeconfig: str, context: str | None, name: str) -> str | None:
    """Handler of a RuntimeClass; None where there is no such class."""
    found = KubernetesApi(parse(kubeconfig), context).get(f"{CLASSES}/{name}")
    return None if found is None else str(found["handler"])


def expected_gpus(stack: Stack) -> dict[str, int] | None:
    """How many GPUs each node has to offer; None where the stack does not know its nodes."""
    if not stack.members:
        return None
    slots = stack.slots_per_card
    return {name: len(machine.gpus) * slots for name, machine in stack.gpu_nodes.items()}


def missing_gpus(
    policies: Sequence[Object],
    nodes: Sequence[Object],
    *,
    expected: Mapping[str, int] | None,
    resource: str,
) -> list[str]:
    """What keeps GPU pods from starting, the operator first.

    expected: GPUs by node; None where the nodes are not known, and then one anywhere is enough.
    """
    offers = {
        node["metadata"]["name"]: int(node["status"].get("allocatable", {}).get(resource, 0))
        for node in nodes
    }
    found = _policy_problems(policies)
    if expected is None:
        return found if any(offers.values()) else [*found, f"no node offers {resource}"]
    for name, wanted in sorted(expected.items()):
        if name not in offers:
            found.append(f"node {name} has not joined the cluster")
        elif offers[name] < wanted:
            found.append(f"node {name} offers {offers[name]} of {wanted} {resource}")
    return found


def _policy_problems(policies: Sequence[Object]) -> list[str]:
    """What each ClusterPolicy says about itself."""
    if not policies:
        return ["the ClusterPolicy does not exist"]
    return [
        f"ClusterPolicy {policy['metadata']['name']} is {state}{_reason(policy)}"
        for policy in policies
        if (state := policy.get("status", {}).get("state", "without a state")) != "ready"
    ]


def _reason(policy: Object) -> str:
    conditions = policy.get("status", {}).get("conditions", [])
    messages = [
        one["message"]
        for one in conditions
        if one.get("type") == "Error" and one.get("status") == "True" and one.get("message")
    ]
    return f" ({'; '.join(messages)})" if messages else ""


class Gate(pulumi.ResourceHook):
    """A hook that waits, and remembers that it gave up.

    The engine only reports what fails after a create or an update. What has to end the run asks
    for it with `holds`.
    """

    def __init__(
        self,
        name: str,
        access: Access,
        wait: Wait,
        missing: Callable[[KubernetesApi], Sequence[str]],
    ) -> None:
        self._access, self._wait, self._missing = access, wait, missing
        self._passed = False
        self._failure = ""
        super().__init__(name, self._gate)

    async def _gate(self, _: pulumi.ResourceHookArgs) -> None:
        """Wait; once passed, it stays passed for this run."""
        if self._passed:
            return
        text = await self._access.kubeconfig.future()
        try:
            api = KubernetesApi(parse(text or ""), self._access.context)
            await self._wait.until_ready(lambda: _read(api, self._missing))
        except (UnreachableError, NotReady) as error:
            self._failure = str(error)
            raise NotReady(self._failure) from None
        self._passed = True

    def holds(self, done: pulumi.Output[Any]) -> None:
        """End the run where the gate gave up, as soon as its resource is done."""

        def check(_: object) -> bool:
            if self._failure:
                raise pulumi.RunError(self._failure)
            return True

        _: pulumi.Output[bool] = done.apply(check)


def _read(api: KubernetesApi, missing: Callable[[KubernetesApi], Sequence[str]]) -> Sequence[str]:
    """Take an unanswered question for a missing layer, not for a failure."""
    try:
        return missing(api)
    except (UnreachableError, ForbiddenError) as error:
        return [str(error)]


def missing_api(api: KubernetesApi) -> list[str]:
    """Read what exists as soon as API server and etcd work together and the client is known."""
    return [] if api.get("/api/v1/namespaces/default") else ["namespace default does not exist"]


def _policies_and_nodes(api: KubernetesApi) -> tuple[list[Object], list[Object]]:
    """No policies where the chart's definitions are not there yet."""
    return api.items("/apis/nvidia.com/v1/clusterpolicies"), api.items("/api/v1/nodes")
