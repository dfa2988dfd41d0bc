"""What a chart's jobs do with CustomResourceDefinitions: they come from files in their image.

Helm installs the CRDs of a chart, and never touches them again. The operator's chart brings a job
for that, which runs before an upgrade, and another one that removes them. The image of these jobs
has the files of its chart, so the rack takes them from the package that it serves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rack.charts.repository import CHART, ChartError, build, documents
from rack.cluster.api import Api, ApiError, Object
from rack.cluster.operator_snapshot import POLICIES
from rack.world.images import repository_and_tag
from rack.world.podtypes import ContainerOutcome

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
IMAGE: Final = "/gpu-operator"
"""How the name of the image ends, wherever it was mirrored to."""
FILES: Final = "files"
_FOLDER: Final = "/opt/gpu-operator/"
_PATHS: Final = rf"(?:\s+--filepath={_FOLDER}\S+)+"
_COMMANDS: Final = (
    (re.compile(rf"kubectl (apply) -f {_FOLDER}([^\s;]+)"), FILES),
    (re.compile(rf"manage-crds (apply|delete)({_PATHS})"), FILES),
    (re.compile(r"kubectl (delete) crd ([^\s;]+)"), CRDS),
    (re.compile(r"kubectl (delete) clusterpolicy ([^\s;]+)"), POLICIES),
)
"""What the jobs of the releases say, and what of: files of the image, or a collection."""


class CrdJobs:
    """Does what such jobs do, on one API server."""

    def __init__(self, api: Api, packages_dir: Path | None) -> None:
        self._api = api
        self._packages_dir = packages_dir

    def outcome(self, spec: Mapping[str, Any]) -> ContainerOutcome | None:
        """Run a container of the operator's image that changes CRDs; None for any other."""
        repository, tag = repository_and_tag(spec["image"])
        text = " ".join([*(spec.get("command") or ()), *(spec.get("args") or ())])
        steps = [(*step, what) for pattern, what in _COMMANDS for step in pattern.findall(text)]
        if not repository.endswith(IMAGE) or not steps:
            return None
        try:
            for verb, names, what in steps:
                self._do(verb, names.split(), what, tag)
        except (ApiError, ChartError) as error:
            return ContainerOutcome(
                state="exited", exit_code=1, reason="Error", log_lines=(str(error),)
            )
        return ContainerOutcome(state="exited", reason="Completed")

    def _do(self, verb: str, names: Sequence[str], what: str, tag: str) -> None:
        if what == FILES:
            for crd in self._of(tag, names):
                self._change(verb, crd)
        else:
            for name in names:
                self._api.delete(f"{what}/{name}")

    def _of(self, tag: str, files: Sequence[str]) -> Iterator[Object]:
        """CRDs in files of the image of a release; none where its package is not served."""
        name = f"{CHART}-{tag}.tgz"
        package = build(self._packages_dir).get(name)
        for file in files if package else ():
            base = file.rpartition("/")[2]
            for folder in ("crds", "charts/*/crds"):
                yield from documents(name, package or b"", f"{folder}/{base}")

    def _change(self, verb: str, crd: Object) -> None:
        path = f"{CRDS}/{crd['metadata']['name']}"
        if verb == "delete":
            self._api.delete(path)
            return
        found = self._api.get(path)
        if found is None:
            self._api.create(CRDS, crd)
        else:
            self._api.replace(path, _over(found, crd))


def _over(found: Object, crd: Mapping[str, Any]) -> Object:
    """The new definition in the place of the old one."""
    version = found["metadata"]["resourceVersion"]
    return {**crd, "metadata": {**crd["metadata"], "resourceVersion": version}}
