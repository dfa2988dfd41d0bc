"""One site per run: its rack is started once and stopped at the end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.site import Site, free_shift

PROGRAMS = (
    "pulumi",
    "pulumi-language-python",
    "pulumi-resource-kubernetes",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "etcd",
    "kubectl",
)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose rack runs; a missing program fails the tests, never skips them."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    assert not missing, f"not on PATH: {', '.join(missing)}; `make test` brings them"
    made = Site(Path(tmp_path_factory.mktemp("site")), shift=free_shift())
    started = made.rack("up")
    assert started.code == 0, started.text
    created = made.pulumi("stack init")
    assert created.code == 0, created.text
    yield made
    made.rack("stop")
