"""The ten configurations that are built for real: accepted, different, and able to compute."""

from __future__ import annotations

from itertools import combinations

import pytest

from gpu_passthrough.judging import judge

from .drive import failure
from .samples import CHOICES, COUNT, configuration, on_rack, samples, title


def test_they_are_ten_that_differ_in_several_things() -> None:
    assert len(samples()) == COUNT
    for one, other in combinations(samples(), 2):
        assert sum(one[key] != other[key] for key in CHOICES) >= 3


def test_together_they_have_every_value() -> None:
    for key, values in CHOICES.items():
        assert [one for one in values if all(one != chosen[key] for chosen in samples())] == []


@pytest.mark.parametrize("number", range(COUNT))
def test_each_works_in_the_model(number: int) -> None:
    chosen = samples()[number]
    assert failure(judge(on_rack(configuration(chosen)))) is None, title(chosen)
