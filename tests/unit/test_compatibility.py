"""Versions, the tables, the nearest combinations that work, and the verdict."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from gpu_passthrough import compatibility, tables, versions
from gpu_passthrough.combination import drivers, operators, works
from gpu_passthrough.config import Stack

from .stacks import changed, gpu, node


def stack(operator: str = "v24.9.2", talos: str = "v1.13.9", **extensions: str) -> Stack:
    cluster = {"talosVersion": talos, "extensions": extensions}
    return Stack.model_validate(changed({"gpuOperator": {"version": operator}, "cluster": cluster}))


def test_versions_are_ordered_as_people_mean_them() -> None:
    texts = ["v1.9.0", "v1.10.0", "v1.13.0-alpha.1", "v1.13.0-beta.1", "v1.13.0-rc.0",
             "v1.13.0-rc.10", "v1.13.0", "v1.13.9", "v1.13.10", "v1.14.0-rc.1"]  # fmt: skip
    found = [versions.parse(text) for text in texts]
    for one, other in itertools.combinations(found, 2):
        assert one < other
        assert other > one
        assert one <= other
        assert not other <= one
    assert [str(one) for one in found] == texts
    assert versions.parse("1.13") == versions.parse("v1.13.0")


@pytest.mark.parametrize("text", ["", "v1", "1.x.0", "v1.2.3.4", "latest", "v1.2.3-rc", " v1.2.3"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(ValueError, match="not a version"):
        versions.parse(text)


@pytest.mark.parametrize("name", ["talos_drivers", "talos_kubernetes", "operators",
                                  "architectures", "cuda_drivers", "cards"])  # fmt: skip
def test_tables_have_no_crooked_rows(name: str) -> None:
    found = tables.rows(name)
    assert found
    for row in found:
        assert None not in row
        assert None not in row.values()


def test_the_documents_pins_work_and_are_not_vendor_tested() -> None:
    verdict = compatibility.verdict(stack())
    assert verdict.level == "works, not vendor-tested"
    assert verdict.alternatives == ("GPU Operator v26.3.1 with the same Talos",)
    for part in ("v1.13.9", "v24.9.2", "580.178.04", "not vendor-tested", "v26.3.1"):
        assert part in verdict.text
    assert "\n" not in verdict.text


@pytest.mark.parametrize(
    ("operator", "talos", "level"),
    [
        ("v26.3.1", "v1.13.9", "vendor-tested"),
        ("v26.3.3", "v1.14.0-rc.1", "vendor-tested"),
        ("v26.3.1", "v1.13.8", "works, not vendor-tested"),
        ("v26.3.0", "v1.13.9", "refused"),
        ("v26.3.1", "v1.11.0", "refused"),
        ("v26.3.1", "v1.13.99", "works, not vendor-tested"),
    ],
)
def test_verdicts(operator: str, talos: str, level: str) -> None:
    verdict = compatibility.verdict(stack(operator, talos))
    assert verdict.level == level
    assert bool(verdict.alternatives) == (level != "vendor-tested")


def test_nothing_is_near_to_what_works() -> None:
    assert compatibility.nearest(stack()) == ()


@pytest.mark.parametrize("operator", [str(one) for one in operators()])
@pytest.mark.parametrize("talos", [str(one) for one in drivers()][::4])
@pytest.mark.parametrize("modules", ["nonfree", "open"])
def test_what_is_proposed_works_and_nothing_smaller_does(
    operator: str, talos: str, modules: str
) -> None:
    it = compatibility.combination(stack(operator, talos, kernelModules=modules))
    assert it is not None
    if works(it):
        return
    found = compatibility.nearest_to(it)
    assert found
    assert len({len(one.changes) for one in found}) == 1
    for alternative in found:
        change = {
            pin: versions.parse(value) if pin in {"talos", "kubernetes", "operator"} else value
            for pin, value in alternative.changes
        }
        assert works(replace(it, **change))
        for pin in change:
            smaller = {key: value for key, value in change.items() if key != pin}
            assert not works(replace(it, **smaller))


def test_the_nearest_version_is_proposed() -> None:
    (only,) = compatibility.nearest(stack("v26.3.0"))
    assert str(only) == "GPU Operator v26.3.1"


def test_a_mixed_cluster_that_no_combination_serves() -> None:
    values = changed(
        {
            "nodes": {
                "k8s-worker-1": node(21, "worker", gpu("Tesla P4")),
                "k8s-worker-2": node(22, "worker", gpu("RTX 5090", path="0000:09:00")),
            }
        }
    )
    assert compatibility.nearest(Stack.model_validate(values)) == ()


def test_a_driver_pin_is_dropped_only_where_nothing_else_helps() -> None:
    found = compatibility.nearest(stack(driver="999.99.99"))
    assert [str(one) for one in found] == ["no expected driver"]


def test_gfd_of_an_operator() -> None:
    assert compatibility.gfd_version("v24.9.2") == "v0.17.0"
    assert compatibility.gfd_version("v99.0.0") is None
