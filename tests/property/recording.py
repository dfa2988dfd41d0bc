"""Runs the program against a recorder that answers with what plugins would: ids and secrets."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any

from pulumi.runtime import mocks

from gpu_passthrough.config import Stack
from rack.plugins.talos import machine_secrets
from rack.plugins.talos.functions import FUNCTIONS
from rack.world.factory import accept
from tests.program.recorder import GENERATE, Recorder, Registered, run_program

__all__ = ["Plugins", "Registered", "recorded"]

START = datetime.fromtimestamp(1_800_000_000, UTC)


@cache
def identity() -> dict[str, Any]:
    """A cluster's secrets; all worlds share them, because making keys takes long."""
    made = machine_secrets.generate(START)
    client = machine_secrets.client_configuration(made, START)
    return {"machineSecrets": made, "clientConfiguration": client}


class Plugins(Recorder):
    """Answers as the plugins do where a later resource is made from the answer."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        made_id, made = super().new_resource(args)
        match args.typ:
            case "talos:imageFactory/schematic:Schematic":
                made_id = accept(args.inputs["schematic"]).id
            case "proxmoxve:download/file:File":
                made_id = f"{args.inputs['datastoreId']}:import/{args.inputs['fileName']}"
            case "talos:machine/secrets:Secrets":
                made |= identity()
        return made_id, made

    def call(self, args: mocks.MockCallArgs) -> dict[str, Any]:  # type: ignore[override]
        answer = super().call(args)
        if args.token == GENERATE:
            answer |= FUNCTIONS[GENERATE](None, dict(args.args))  # type: ignore[arg-type]
        return answer


def recorded(stack: Stack) -> Plugins:
    """What the program asks for with a configuration."""
    plugins = Plugins()
    run_program(lambda: stack, plugins)
    return plugins
