"""The chart repository of the rack: packages made from the sources beside this file, or a folder's.

The same sources give the same bytes, so a digest in the index changes only with a chart.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

CHART: Final = "gpu-operator"
_NFD: Final = "node-feature-discovery"
_KUBERNETES: Final = ">= 1.16.0-0"
_TIME: Final = "2026-01-01T00:00:00Z"


class ChartError(ValueError):
    """A chart package cannot be read."""


def build(packages_dir: Path | None = None) -> dict[str, bytes]:
    """The repository's files, by name: index.yaml and the packages.

    `packages_dir` is a folder with real packages, which are served instead of the stand-ins.

    Raises:
        ChartError: the folder has no package, or one that is none.

    """
    packages = dict(_given(packages_dir) if packages_dir else _made())
    index = {
        "apiVersion": "v1",
        "entries": _entries(packages),
        "generated": _TIME,
    }
    return {"index.yaml": _text(index), **packages}


def _entries(packages: Mapping[str, bytes]) -> dict[str, list[dict[str, Any]]]:
    """What the index says of each package, newest first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, package in packages.items():
        chart = _chart_of(name, package)
        digest = hashlib.sha256(package).hexdigest()
        entry = {**chart, "urls": [name], "digest": digest, "created": _TIME}
        found.setdefault(chart["name"], []).insert(0, entry)
    return found


def _chart_of(name: str, package: bytes) -> dict[str, Any]:
    """The Chart.yaml in a package of the repository."""
    try:
        return chart_of(name, package)
    except ChartError as error:
        raise ChartError(
            f"{error}. The simulated rack serves every .tgz file of the folder that"
            " RACK_CHART_PACKAGES names; take it out of there"
        ) from None


def chart_of(name: str, package: bytes) -> dict[str, Any]:
    """The Chart.yaml in a package.

    Raises:
        ChartError: it has none.

    """
    (chart,) = documents(name, package, "Chart.yaml") or [None]
    if not isinstance(chart, dict) or not {"name", "version"} <= chart.keys():
        raise ChartError(f"{name} is not a chart package (its Chart.yaml has no name and version)")
    return chart


def documents(name: str, package: bytes, pattern: str) -> list[Any]:
    """Every YAML document in those files of a package that a shell pattern names.

    Raises:
        ChartError: the package cannot be read.

    """
    yaml = YAML(typ="safe", pure=True)
    try:
        with tarfile.open(fileobj=io.BytesIO(package)) as archive:
            top = archive.getnames()[0].split("/")[0]
            files = [
                file
                for entry in archive
                if fnmatchcase(entry.name, f"{top}/{pattern}")
                and (file := archive.extractfile(entry))
            ]
            return [one for file in files for one in yaml.load_all(file.read()) if one is not None]
    except (tarfile.TarError, EOFError, OSError, IndexError, YAMLError) as error:
        reason = str(error).partition(":\n")[0]
        raise ChartError(f"{name} is not a chart package ({reason})") from None


def _given(folder: Path) -> Iterator[tuple[str, bytes]]:
    files = sorted(folder.glob("*.tgz"))
    if not files:
        raise ChartError(
            f"no .tgz file in {folder}. RACK_CHART_PACKAGES names a folder with chart packages for"
            " the simulated rack to serve; put them there, or unset it for the stand-ins"
        )
    for file in files:
        yield file.name, file.read_bytes()


def versions() -> list[str]:
    """Versions of the chart of which there is a stand-in, oldest first."""
    return [release["version"] for release in _releases()]


def _releases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _load(resources.files("rack.charts") / "releases.yaml")[
        "releases"
    ]
    return found


def defaults() -> dict[str, dict[str, Any]]:
    """Default values of the stand-in of every release, oldest first."""
    source = resources.files("rack.charts")
    values = _load(source / CHART / "values.yaml")
    found = {}
    for release in _releases():
        values = _patched(values, release.get("changes", {}))
        found[release["version"]] = values
    return found


def _made() -> Iterator[tuple[str, bytes]]:
    """The stand-in of every release, oldest first."""
    source = resources.files("rack.charts")
    parts = {release["version"]: release["nfd"] for release in _releases()}
    for version, values in defaults().items():
        nfd = parts[version]
        files = {
            "Chart.yaml": _text(_chart(CHART, version, version, nfd)),
            "values.yaml": _text(values),
            **_files(source / CHART, ("templates", "crds")),
            f"charts/{_NFD}/Chart.yaml": _text(_chart(_NFD, nfd, f"v{nfd}")),
            f"charts/{_NFD}/values.yaml": _text(_load(source / _NFD / "values.yaml")),
            **_files(source / _NFD, ("templates",), f"charts/{_NFD}/"),
        }
        yield f"{CHART}-{version}.tgz", _package(files)


def _chart(name: str, version: str, app_version: str, nfd: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {
        "apiVersion": "v2",
        "name": name,
        "version": version,
        "appVersion": app_version,
        "kubeVersion": _KUBERNETES,
        "description": f"Stand-in of {name} for the simulated rack",
        "type": "application",
    }
    if nfd:
        dependency = {"name": _NFD, "version": nfd, "condition": "nfd.enabled", "repository": ""}
        found["dependencies"] = [dependency]
    return found


def _patched(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a merge patch (RFC 7396)."""
    found = dict(values)
    for key, change in changes.items():
        if change is None:
            found.pop(key, None)
        elif isinstance(change, Mapping) and isinstance(found.get(key), Mapping):
            found[key] = _patched(found[key], change)
        else:
            found[key] = change
    return found


def _files(folder: Traversable, parts: tuple[str, ...], below: str = "") -> dict[str, bytes]:
    return {
        f"{below}{part}/{file.name}": file.read_bytes()
        for part in parts
        for file in (folder / part).iterdir()
    }


def _package(files: Mapping[str, bytes]) -> bytes:
    """A chart package whose bytes depend on the files alone. Chart.yaml comes first."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files, key=lambda one: (one != "Chart.yaml", one)):
            entry = tarfile.TarInfo(f"{CHART}/{name}")
            entry.size = len(files[name])
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(files[name]))
    return gzip.compress(buffer.getvalue(), mtime=0)


def _load(file: Traversable) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
    return found


def _text(document: Mapping[str, Any]) -> bytes:
    """A document as JSON, which is YAML in which `off` stays a text."""
    return (json.dumps(document, indent=2) + "\n").encode()
