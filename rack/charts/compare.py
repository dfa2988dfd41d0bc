"""The comparison of a vendor's chart package with the rack's stand-in of that version.

Both are rendered with every value that the program can send. What counts is each field of the
ClusterPolicy that the rack's model reads, as the API server keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from rack.charts import readings, repository
from rack.charts.helm import Helm, Refused, helm, the_one
from rack.charts.readings import CONFIG, Readings
from rack.charts.repository import CHART, ChartError
from rack.charts.sent import Case, Values, merged, sets, singles
from rack.charts.stored import Schema, blank, part_of, stored

POLICY: Final = "ClusterPolicy"
CRD: Final = "clusterpolicies.nvidia.com"
MANIFEST: Final = ("objects",)
"""Path of what both charts make at all: a policy, nothing, or a refusal."""
REFUSED: Final = "refused"


@dataclass(frozen=True)
class Difference:
    """A field that the two charts write differently."""

    path: readings.Path
    case: str
    """What is special about the values."""
    stand_in: Any
    package: Any


@dataclass
class Comparison:
    """What came out."""

    version: str
    sets: int
    """How many sets of values the program's options make."""
    singles: int
    """How many values of the chart were changed, one at a time."""
    refused: list[str] = field(default_factory=list)
    """What is special about the values with which both charts refuse to render."""
    fields: set[readings.Path] = field(default_factory=set)
    """What the rack's model reads."""
    differences: list[Difference] = field(default_factory=list)


@dataclass(frozen=True)
class _Rendered:
    """What the rack would see of a release."""

    outcome: str
    """In a word: a policy, none, or refused."""
    document: Mapping[str, Any]
    """The policy's specification, and what the device plugin's ConfigMap says."""
    reason: str = ""


class _Chart:
    """A chart package that can be rendered."""

    def __init__(self, file: Path, name: str) -> None:
        self._file = file
        package = file.read_bytes()
        self.about = repository.chart_of(name, package)
        self.values: Values = reduce(merged, repository.documents(name, package, "values.yaml"), {})
        self.schema = schema_of(repository.documents(name, package, "crds/*"))

    def render(self, helm: Helm, values: Values) -> _Rendered:
        """What comes of values."""
        objects = helm.render(self._file, values)
        if isinstance(objects, Refused):
            return _Rendered(REFUSED, {}, objects.text)
        policy = the_one(objects, POLICY)
        if policy is None:
            return _Rendered("no policy", {})
        spec = stored(policy.get("spec") or {}, self.schema)
        named = ((spec.get("devicePlugin") or {}).get("config") or {}).get("name")
        config = the_one(objects, "ConfigMap", named) if named else None
        return _Rendered("a policy", {**spec, CONFIG[0]: config or {}})


def compare(package: Path, tell: Callable[[int, int], None] | None = None) -> Comparison:
    """Compare a chart package with the stand-in of its version.

    Args:
        package: a .tgz file.
        tell: is told how many renderings are done, of how many.

    Raises:
        ChartError: it is no package of the operator's chart, or of a version without a stand-in.
        RenderError: Helm cannot be asked.
        OSError: the file cannot be read.

    """
    with TemporaryDirectory(prefix="rack-chart-") as folder:
        theirs = Path(folder) / "package.tgz"
        theirs.write_bytes(package.read_bytes())
        vendor = _Chart(theirs, package.name)
        ours = Path(folder) / "stand-in.tgz"
        ours.write_bytes(_stand_in(package.name, vendor.about))
        with helm() as renderer:
            return _compared(_Chart(ours, ours.name), vendor, renderer, tell)


def _stand_in(name: str, about: Mapping[str, Any]) -> bytes:
    """The stand-in of a package's version."""
    if about["name"] != CHART:
        raise ChartError(f"{name} is chart {about['name']}, not {CHART}. Name a package of {CHART}")
    made = repository.build()
    found = made.get(f"{CHART}-{about['version']}.tgz")
    if found is None:
        there = ", ".join(repository.versions())
        raise ChartError(
            f"{name} is {CHART} {about['version']}, and the rack has no stand-in of that version."
            f" It has {there}; rack/charts/releases.yaml takes another"
        )
    return found


def _compared(
    stand_in: _Chart, vendor: _Chart, helm: Helm, tell: Callable[[int, int], None] | None
) -> Comparison:
    release = str(vendor.about["version"])
    options = sets(release)
    both = [stand_in, vendor]
    first = _side_by_side(both, helm, options[0].values)
    values = singles(release, _declared(both, _read([first])))
    found = Comparison(release, len(options), len(values))
    cases = [*options, *values]
    rendered: list[list[_Rendered]] = []
    for case in cases:
        rendered.append(_side_by_side(both, helm, case.values))
        if tell:
            tell(len(rendered), len(cases))
    found.fields = _read(rendered)
    for case, sides in zip(cases, rendered, strict=True):
        if all(one.outcome == REFUSED for one in sides):
            found.refused.append(case.name)
        found.differences += _differences(case, sides, found.fields)
    return found


def _side_by_side(charts: list[_Chart], helm: Helm, values: Values) -> list[_Rendered]:
    """Render each chart with the same values, at the same time."""
    with ThreadPoolExecutor(len(charts)) as pool:
        return list(pool.map(lambda one: one.render(helm, values), charts))


def _declared(charts: list[_Chart], fields: set[readings.Path]) -> Values:
    """Every value that a release of the chart has, or that a field that is read might have.

    Values of other releases count: the program lets a stack send them.
    """
    found = reduce(merged, [*repository.defaults().values(), *(one.values for one in charts)])
    for path in fields:
        schema = part_of(charts[1].schema, path)
        if schema is not None and readings.value(found, path) is None:
            beside = blank(schema)
            for key in reversed(path):
                beside = {key: beside}
            found = merged(beside, found)
    return found


def _read(rendered: list[list[_Rendered]]) -> set[readings.Path]:
    """Fields that the model reads of what the charts made."""
    watched = Readings()
    for one in chain.from_iterable(rendered):
        config = readings.value(one.document, CONFIG) or {}
        readings.read(watched, {"spec": one.document}, config)
    return watched.fields


def _differences(
    case: Case, sides: list[_Rendered], fields: set[readings.Path]
) -> list[Difference]:
    ours, theirs = sides
    if ours.outcome != theirs.outcome:
        told = [f"{one.outcome}{one.reason and ': '}{one.reason}" for one in sides]
        return [Difference(MANIFEST, case.name, *told)]
    return [
        Difference(path, case.name, a, b)
        for path in sorted(fields)
        if _plain(a := readings.value(ours.document, path))
        != _plain(b := readings.value(theirs.document, path))
    ]


def _plain(value: Any) -> Any:
    """A value in which nothing, an empty text, list and map are one: the model takes them so."""
    return None if value in ("", [], {}) else value


def schema_of(resources: list[Any]) -> Schema:
    """Schema of a ClusterPolicy's specification among a chart's CustomResourceDefinitions."""
    for one in resources:
        if one["metadata"]["name"] == CRD:
            version = next(of for of in one["spec"]["versions"] if of["storage"])
            schema: Schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
            return schema
    raise ChartError(f"the package has no CustomResourceDefinition {CRD} in crds/")
