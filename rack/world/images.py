"""Container images that the rack knows, and what is in them (data/images.yaml)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Any, Final

from ruamel.yaml import YAML

from rack.world.nodefacts import Frozen
from rack.world.podview import ImageView

_HOST: Final = re.compile(r"^(?:[^/]*[.:][^/]*|localhost)/")
"""A registry's host in front of a repository: it has a dot or a port."""
_TAG_VERSION: Final = re.compile(r"^(\d+\.\d+)")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Image(Frozen):
    """An image and what it does when the pod names no command."""

    view: ImageView
    application: str
    """Name of the behaviour in applications.py; empty for an image that the rack does not know."""
    is_missing: bool = False
    """No registry has it."""


def repository_and_tag(reference: str) -> tuple[str, str]:
    """Repository without the registry's host, and tag, of an image reference.

    As container runtimes read it: no tag means latest, no folder means library/.
    """
    plain = _HOST.sub("", reference.partition("@")[0])
    repository, colon, tag = plain.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = plain, "latest"
    return (repository if "/" in repository else f"library/{repository}"), tag


@cache
def image(reference: str) -> Image:
    """The image behind a reference."""
    repository, tag = repository_and_tag(reference)
    name = f"{repository}:{tag}"
    row = next(row for row in _table() if fnmatchcase(name, row["match"]))
    version = found.group(1) if (found := _TAG_VERSION.match(tag)) else ""
    cuda = version if row.get("cuda") == "tag" else row.get("cuda", "")
    with_compat = row.get("has_compat") and not tag.partition("-")[2].startswith("base")
    env = dict(row.get("env", {}))
    if row.get("cuda") == "tag" and cuda:
        env["NVIDIA_REQUIRE_CUDA"] = f"cuda>={cuda}"
    view = ImageView(
        reference=reference,
        libc=row.get("libc", "glibc"),
        debian=row.get("debian", True) and "ubi" not in tag,
        programs=tuple(sorted(_flat(row["programs"]))),
        python=version if row.get("python") == "tag" else row.get("python", ""),
        cuda=cuda,
        has_ptx=row.get("has_ptx", False),
        compat=_COMPAT.get(cuda, "") if with_compat else "",
        onnxruntime=row.get("onnxruntime", ""),
        providers=tuple(row.get("providers", ())),
        env={"PATH": _PATH, **env},
    )
    return Image(
        view=view, application=row.get("application", ""), is_missing=row.get("missing", False)
    )


_COMPAT: Final = {
    "12.2": "535.104",
    "12.4": "550.54",
    "12.5": "555.42",
    "12.6": "560.35",
    "12.8": "570.86",
    "12.9": "575.57",
    "13.0": "580.65",
}
"""Driver whose libraries the cuda-compat package of a CUDA version brings."""


@cache
def _table() -> list[dict[str, Any]]:
    text = resources.files("rack.world").joinpath("data/images.yaml").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = YAML(typ="safe", pure=True).load(text)["images"]
    return rows


def _flat(names: Iterable[str | list[str]]) -> set[str]:
    """Names of programs, those of a shared list among them."""
    found: set[str] = set()
    for name in names:
        found |= set(name) if isinstance(name, list) else {name}
    return found
