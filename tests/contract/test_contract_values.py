"""Every value that the program sends to the operator's chart is one that the real chart has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gpu_passthrough import tables
from tests.contract import schema
from tests.contract.stacks import OPTIONS, recorded

FREE = ("devicePlugin.config.data",)
"""Maps whose keys are the user's."""


def leaves(values: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """Keys of nested maps, with dots."""
    for key, value in values.items():
        path = f"{at}{key}"
        if isinstance(value, Mapping) and value and path not in FREE:
            yield from leaves(value, f"{path}.")
        else:
            yield path


def unknown(version: str, values: Mapping[str, Any]) -> list[str]:
    """Keys that the packages next to a version do not have."""
    known = [schema.operator_values(one) for one in schema.neighbours(version)]
    return [key for key in leaves(values) if not all(key in one for one in known)]


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option(option: str) -> None:
    release = recorded(option).inputs("Release")
    assert unknown(release["version"], release["values"]) == []


@pytest.mark.parametrize("version", ["v24.9.2", "v26.3.3", "v26.7.0"])
def test_the_rules_know_every_value_of_the_chart(version: str) -> None:
    known = {row["value"] for row in tables.rows("operator_values")}
    assert {key.partition(".")[0] for key in schema.operator_values(version)} <= known


def test_the_neighbours_of_a_version_are_what_was_read() -> None:
    assert schema.neighbours("v24.9.2") == ["v24.9.2"]
    assert schema.neighbours("v25.10.0") == ["v24.9.2", "v26.3.3"]
    assert schema.neighbours("v26.7.0") == ["v26.7.0"]


@pytest.mark.parametrize(
    "values",
    [
        {"validator": {"enabled": True}},
        {"devicePlugn": {"enabled": True}},
        {"gfd": {"enable": True}},
    ],
)
def test_a_wrong_value_is_found(values: dict[str, Any]) -> None:
    assert unknown("v24.9.2", values)
