"""One site per run: its rack is started once and stopped at the end."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.site import Site, running_site

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
def programs() -> None:
    """A missing program fails the tests, never skips them."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    assert not missing, f"not on PATH: {', '.join(missing)}; `make test` brings them"


@pytest.fixture(scope="session")
def site(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose rack runs."""
    with running_site(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture
def fault(site: Site) -> Iterator[Callable[..., None]]:
    """Breaks the site's rack as `fault("storage-full", "pve", "local")`; mended at the end."""
    yield site.fault
    site.mend()
