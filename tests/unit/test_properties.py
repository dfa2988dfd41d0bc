"""Whatever somebody writes, it is accepted or refused in words: never a traceback."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_passthrough import compatibility, placement
from gpu_passthrough.cards import catalogue
from gpu_passthrough.config import Stack
from gpu_passthrough.judging import judge
from gpu_passthrough.load import load_stack_file
from gpu_passthrough.problems import ConfigurationError

from .stacks import changed, node

FAST = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from(["v1.13.9", "192.168.20.21", "0000:01:00", "10de:2204", "RTX 3090", "pve"])
)  # fmt: skip
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    found = [path] if path else []
    for key, one in steps:
        nested = isinstance(one, (dict, list))
        found += paths(one, (*path, key)) if nested else [(*path, key)]
    return found


PATHS = paths(changed())
SECTIONS = [str(field.alias) for field in Stack.model_fields.values()]


def put(values: Any, path: tuple[Any, ...], value: Any) -> None:
    for step in path[:-1]:
        if not isinstance(values, (dict, list)):
            return
        try:
            values = values[step]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(values, dict) or (isinstance(values, list) and values and path[-1] == 0):
        values[path[-1]] = value


def attempt(load: Callable[[], Stack]) -> tuple[Stack | None, str]:
    """A stack, or what its refusal says, which names at least one problem."""
    try:
        return load(), ""
    except ConfigurationError as error:
        said = [problem.message and problem.render() for problem in error.problems]
        return None, str(error) if said and all(said) else ""


def accepts_or_refuses(content: bytes) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "Pulumi.any.yaml"
        file.write_bytes(content)
        stack, refusal = attempt(lambda: load_stack_file(file))
    return stack is not None or bool(refusal)


def is_accepted(values: Any) -> bool:
    """Whether a stack is accepted; everything else has to be a refusal that can be read."""
    stack, refusal = attempt(lambda: judge(values))
    if stack is None:
        assert refusal
        return False
    compatibility.verdict(stack)
    placement.plan(stack)
    return True


@FAST
@given(st.dictionaries(st.sampled_from(SECTIONS) | st.text(max_size=8), anything, max_size=6))
def test_anything_in_the_sections(values: dict[str, Any]) -> None:
    is_accepted(values)


@FAST
@given(st.lists(st.tuples(st.sampled_from(PATHS), anything), min_size=1, max_size=4))
def test_anything_anywhere_in_a_stack_that_works(changes: list[tuple[Any, Any]]) -> None:
    values = changed()
    for path, value in changes:
        put(values, path, value)
    is_accepted(values)


@FAST
@given(st.sampled_from(PATHS), st.text(max_size=10))
def test_any_key_misspelt(path: tuple[Any, ...], key: str) -> None:
    values = changed()
    put(values, (*path[:-1], key), "x")
    is_accepted(values)


@settings(FAST, max_examples=60)
@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_file(content: str | bytes) -> None:
    assert accepts_or_refuses(
        content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    )


@settings(FAST, max_examples=60)
@given(st.dictionaries(st.sampled_from(SECTIONS), anything, max_size=4))
def test_any_yaml_in_a_file(values: dict[str, Any]) -> None:
    config = {f"gpu-passthrough:{key}": value for key, value in values.items()}
    text = yaml.safe_dump({"config": config}, allow_unicode=True)
    assert accepts_or_refuses(text.encode("utf-8", "replace"))


versions = st.builds("v{}.{}.{}".format, st.just(1), st.integers(6, 16), st.integers(0, 12))
charts = st.sampled_from(["v24.9.2", "v25.3.2", "v25.10.0", "v26.3.0", "v26.3.1", "v26.7.0"])
stacks = st.fixed_dictionaries(
    {
        "card": st.sampled_from([card for card in catalogue() if card.pci_ids]),
        "talos": versions,
        "kubernetes": st.builds("v1.{}.{}".format, st.integers(24, 40), st.integers(0, 9)),
        "operator": charts,
        "channel": st.sampled_from(["lts", "production"]),
        "modules": st.sampled_from(["nonfree", "open"]),
        "vram": st.none() | st.integers(1, 300_000),
        "cuda": st.none() | st.sampled_from(["11.8", "12.4", "12.8", "13.0", "14.0"]),
        "sharing": st.none() | st.integers(2, 8),
    }
)


def stack_of(drawn: dict[str, Any]) -> dict[str, Any]:
    card = {
        "card": drawn["card"].name,
        "path": "0000:01:00",
        "id": f"10de:{drawn['card'].pci_ids[0]}",
        "subsystemId": "10de:1467",
        "iommuGroup": 14,
    }
    values = changed(
        {
            "cluster": {
                "talosVersion": drawn["talos"],
                "kubernetesVersion": drawn["kubernetes"],
                "extensions": {"channel": drawn["channel"], "kernelModules": drawn["modules"]},
            },
            "gpuOperator": {"version": drawn["operator"]},
            "apps": {
                "immich-machine-learning": {"vramMib": drawn["vram"], "cuda": drawn["cuda"]},
            },
        }
    )
    values["nodes"] = {
        "k8s-cp-1": node(20, "controlplane"),
        "k8s-worker-1": node(21, "worker", card),
    }
    if drawn["sharing"]:
        values["gpuOperator"]["sharing"] = {"replicas": drawn["sharing"]}
    return values


@settings(max_examples=300, deadline=None)
@given(stacks)
def test_what_is_accepted_keeps_the_known_limits(drawn: dict[str, Any]) -> None:
    if not is_accepted(stack_of(drawn)):
        return
    minor = int(drawn["talos"].split(".")[1])
    card = drawn["card"]
    blackwell = card.architecture.name == "Blackwell"
    old = card.architecture.name in {"Maxwell", "Pascal", "Volta"}
    assert minor in {13, 14}
    assert drawn["operator"] != "v26.3.0"
    assert not (blackwell and drawn["modules"] == "nonfree")
    assert not (old and (drawn["modules"] == "open" or drawn["channel"] == "production"))
    assert not (blackwell and drawn["cuda"] in {"11.8", "12.4"})
    assert not (old and drawn["cuda"] in {"13.0", "14.0"})
    assert drawn["vram"] is None or drawn["vram"] <= card.vram_gib * 1024
    low, high = {13: (31, 36), 14: (33, 37)}[minor]
    assert low <= int(drawn["kubernetes"].split(".")[1]) <= high
