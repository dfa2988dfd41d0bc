"""Layer 4: the RuntimeClass that makes containerd put the driver into a container."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_kubernetes.node.v1 import RuntimeClass, RuntimeClassPatch

from gpu_passthrough import config


@dataclass(frozen=True, kw_only=True)
class NvidiaRuntimeClassArgs:
    """The class, and who makes it."""

    runtime_class: config.RuntimeClass
    """Name of the class, and handler in containerd's configuration."""
    made_by_operator: bool = True
    """The GPU Operator makes the object and writes over it; without one, this component does."""
    ready: pulumi.ResourceHook | None = None
    """Gate that has to be passed before: the operator has made its object then."""
    unclaimed: pulumi.ResourceHook | None = None
    """Gate that refuses a class which exists with another handler."""


class NvidiaRuntimeClass(pulumi.ComponentResource):
    """Claims name and handler of the RuntimeClass, and nothing else of it.

    The operator takes labels and annotations away at each of its rounds; had they come from
    here, every preview would want to put them back.
    """

    runtime_class_name: pulumi.Output[str]

    def __init__(
        self, name: str, args: NvidiaRuntimeClassArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-passthrough:index:NvidiaRuntimeClass", name, None, opts)
        gates = [one for one in (args.ready, args.unclaimed) if one is not None]
        gate = pulumi.ResourceHookBinding(before_create=[*gates]) if gates else None
        kind = RuntimeClassPatch if args.made_by_operator else RuntimeClass
        made = kind(
            f"{name}-runtime-class",
            metadata={"name": args.runtime_class.name},
            handler=args.runtime_class.handler,
            opts=pulumi.ResourceOptions(
                parent=self,
                # The operator's object is not this stack's to delete, and goes with the operator.
                retain_on_delete=args.made_by_operator,
                hooks=gate,
            ),
        )
        self.runtime_class_name = made.metadata.name
        self.register_outputs({"runtimeClassName": self.runtime_class_name})
