"""The GPU Operator beside Talos: who brings the driver, who makes the RuntimeClass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_passthrough import versions
from gpu_passthrough.config import Stack
from gpu_passthrough.problems import Path, Problem

VALUES: Path = ("gpuOperator", "values")
HANDLER = "nvidia"
"""The only handler that Talos' toolkit extension gives containerd."""
CDI_DEFAULT = versions.parse("v25.10.0")
OPERANDS = ("driver", "toolkit", "devicePlugin", "gfd", "dcgmExporter", "validator")
TALOS_BRINGS = {"driver": "the driver", "toolkit": "the container toolkit"}
NEEDED = {
    "devicePlugin": "Without it the scheduler does not know that there are GPUs.",
    "validator": "The operator deploys it always: the chart has no value that turns it off, and"
    " the other operands wait for it.",
}


def _switch(stack: Stack, operand: str) -> bool:
    operator = stack.gpu_operator
    switches = {
        "driver": operator.driver,
        "toolkit": operator.toolkit,
        "devicePlugin": operator.device_plugin,
        "gfd": operator.gfd,
        "dcgmExporter": operator.dcgm_exporter,
        "validator": operator.validator,
    }
    return switches[operand].enabled


def _value(stack: Stack, *keys: str) -> Any:
    """A value of gpuOperator.values; None where it is not given."""
    found: Any = stack.gpu_operator.values
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def switched_on(stack: Stack) -> Iterator[Problem]:
    """Driver and toolkit come from Talos' extensions, never from the operator."""
    if stack.cluster is None:
        return
    for operand, what in TALOS_BRINGS.items():
        value = _value(stack, operand, "enabled")
        by_value = value is not None and value is not False
        if not (_switch(stack, operand) or by_value):
            continue
        path = (*VALUES, operand, "enabled") if by_value else ("gpuOperator", operand, "enabled")
        yield Problem(
            path,
            f"The GPU Operator's {operand} is on, and Talos {stack.cluster.talos_version} brings"
            f" {what} as an extension.",
            why="Talos is immutable: the operator's container has no image for it and cannot"
            " install anything; every operand waits for it.",
            fix=f"Set {operand}.enabled to false.",
            also=(("cluster", "extensions"),),
        )


def switched_off(stack: Stack) -> Iterator[Problem]:
    """What the chain cannot do without is on."""
    for operand, why in NEEDED.items():
        if not _switch(stack, operand):
            path = ("gpuOperator", operand, "enabled")
            yield Problem(path, f"{operand} is off.", why=why, fix="Set it to true.")


def contradicting_values(stack: Stack) -> Iterator[Problem]:
    """Values do not take back what the stack says elsewhere."""
    for key in stack.gpu_operator.values:
        if "." in key:
            nested = key.replace(".", ": {", 1)
            text = f"{key!r} is one key with a dot in it; Helm does not read it as a path."
            yield Problem((*VALUES, key), text, fix=f"Nest it: {nested}: …}}.")
    for operand in OPERANDS:
        value = _value(stack, operand, "enabled")
        if operand in TALOS_BRINGS or value is None or value is _switch(stack, operand):
            continue
        yield Problem(
            (*VALUES, operand, "enabled"),
            f"values say {operand}.enabled: {value}, gpuOperator.{operand} says"
            f" {str(_switch(stack, operand)).lower()}.",
            why="The values would win without anybody noticing.",
            fix=f"Say it once, as gpuOperator.{operand}.enabled.",
            also=(("gpuOperator", operand, "enabled"),),
        )
    if stack.gpu_operator.sharing and _value(stack, "devicePlugin", "config"):
        yield Problem(
            (*VALUES, "devicePlugin", "config"),
            "values give the device plugin a configuration, and so does sharing.",
            why="One would replace the other.",
            fix="Remove one of the two.",
            also=(("gpuOperator", "sharing"),),
        )


def cdi(stack: Stack) -> Iterator[Problem]:
    """CDI is used only where Talos has what it needs."""
    if stack.cluster is None:
        return
    version = stack.gpu_operator.version
    if _value(stack, "cdi", "enabled") is True and versions.parse(version) < CDI_DEFAULT:
        yield Problem(
            (*VALUES, "cdi", "enabled"),
            f"CDI is on in GPU Operator {version}.",
            why="Before v25.10 it uses the handlers nvidia-cdi and nvidia-legacy, which Talos does"
            " not have.",
            fix=f"Leave it out, or use GPU Operator {CDI_DEFAULT} or later.",
            also=(("gpuOperator", "version"),),
        )
    if _value(stack, "cdi", "nriPluginEnabled") is True:
        yield Problem(
            (*VALUES, "cdi", "nriPluginEnabled"),
            "The NRI plugin is on, and the toolkit that contains it is off on Talos.",
            why="Nothing injects the driver any more, and the operator deletes the RuntimeClass.",
            fix="Leave it out.",
            also=(("gpuOperator", "toolkit", "enabled"),),
        )


def runtime_class(stack: Stack) -> Iterator[Problem]:
    """Name and handler are one word: the operator makes the class with both alike."""
    wanted = stack.runtime_class
    renamed = _value(stack, "operator", "runtimeClass")
    if wanted.name != wanted.handler:
        yield Problem(
            ("runtimeClass", "name"),
            f"The RuntimeClass is named {wanted.name} and its handler is {wanted.handler}.",
            why="The operator writes name and handler alike, and a handler cannot be changed.",
            fix="Use one word for both.",
            also=(("runtimeClass", "handler"),),
        )
    if stack.cluster is not None and wanted.handler != HANDLER:
        yield Problem(
            ("runtimeClass", "handler"),
            f"The handler is {wanted.handler}; Talos gives containerd only {HANDLER}.",
            why="Pods of that class stay in ContainerCreating: no runtime for the handler.",
            fix=f"Use {HANDLER}.",
        )
    if renamed is not None and renamed != wanted.name:
        yield Problem(
            (*VALUES, "operator", "runtimeClass"),
            f"The operator makes RuntimeClass {renamed}, and the apps use {wanted.name}.",
            why="The value renames the handler as well.",
            fix=f"Leave the value out; the class is then {HANDLER}.",
            also=(("runtimeClass", "name"),),
        )
