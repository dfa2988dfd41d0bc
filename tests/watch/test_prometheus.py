"""The parser of Prometheus' text format."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_passthrough.watch.prometheus import MetricsError, parse


def test_comments_labels_values_and_times() -> None:
    text = (
        "# HELP a help {not a label}\n# TYPE a gauge\n\n"
        'a{x="1",y="two words",} 3.5\na 4 1700000000000\n  b{} +Inf\nc { x = "1" } 1e3\n'
    )
    assert [tuple(one) for one in parse(text)] == [
        ("a", {"x": "1", "y": "two words"}, 3.5),
        ("a", {}, 4.0),
        ("b", {}, math.inf),
        ("c", {"x": "1"}, 1000.0),
    ]


def test_not_a_number_is_a_value() -> None:
    assert math.isnan(next(parse("a NaN")).value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [(r"a\"b", 'a"b'), (r"a\\n", r"a\n"), (r"a\nb", "a\nb"), ("}{,=", "}{,="), ("", "")],
)
def test_escapes_and_marks_inside_of_values(written: str, meant: str) -> None:
    assert next(parse(f'm{{x="{written}",y="1"}} 1')).labels == {"x": meant, "y": "1"}


@pytest.mark.parametrize(
    "line",
    ["<html>", "a", "a one", "1a 1", 'a{x=1} 1', 'a{x="1} 1', 'a{x="1" y="2"} 1', "a 1 soon",
     'a{="1"} 1'],
)  # fmt: skip
def test_what_is_no_metric_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(MetricsError, match="line 2"):
        list(parse(f"fine 1\n{line}\n"))


@given(st.dictionaries(st.from_regex("[a-z_]+", fullmatch=True), st.text(), max_size=4))
def test_every_label_value_survives(labels: dict[str, str]) -> None:
    escaped = {
        name: text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        for name, text in labels.items()
    }
    line = ",".join(f'{name}="{text}"' for name, text in escaped.items())
    assert [tuple(one) for one in parse(f"m{{{line}}} 7\n")] == [("m", labels, 7.0)]
