"""What only the live chain shows is refused in words, before it does harm."""

from __future__ import annotations

import pytest

from components.readiness import other_handler
from components.talos_nvidia_node import downgrade_problem, installed_version
from gpu_passthrough.config import Cluster, RuntimeClass

IMAGE = '{"machine": {"install": {"image": "factory.talos.dev/nocloud-installer/af8e:v1.13.9"}}}'


def cluster(version: str, **change: str) -> Cluster:
    values = {
        "name": "c",
        "endpoint": "https://10.0.0.1:6443",
        "talosVersion": version,
        "kubernetesVersion": "v1.34.4",
        **change,
    }
    return Cluster.model_validate(values, by_alias=True, by_name=False)


def test_the_installed_version_is_that_of_the_installer() -> None:
    assert installed_version({"configPatches": [IMAGE, "{}"]}) == "v1.13.9"
    assert installed_version({"configPatches": ["{}"]}) is None


@pytest.mark.parametrize(
    ("installed", "wanted", "named", "refused"),
    [
        ("v1.13.9", "v1.12.4", None, True),
        ("v1.13.9", "v1.13.8", None, True),
        ("v1.13.9", "v1.12.4", "v1.12.4", False),
        ("v1.13.9", "v1.12.4", "v1.12.3", True),
        ("v1.13.9", "v1.13.9", None, False),
        ("v1.13.9", "v1.13.10", None, False),
        (None, "v1.12.4", None, False),
    ],
)
def test_an_older_talos_has_to_be_named(
    installed: str | None, wanted: str, named: str | None, refused: bool
) -> None:
    change = {"downgradeTo": named} if named else {}
    problem = downgrade_problem("worker", installed, cluster(wanted, **change))
    assert bool(problem) is refused
    if refused:
        assert f"downgradeTo: {wanted}" in problem
        assert str(installed) in problem


@pytest.mark.parametrize(
    ("found", "refused"), [("nvidia", False), (None, False), ("nvidia-legacy", True)]
)
def test_another_handler_is_named_beside_ours(found: str | None, refused: bool) -> None:
    problem = other_handler(RuntimeClass(name="nvidia", handler="nvidia"), found)
    assert bool(problem) is refused
    if refused:
        assert "exists with the handler nvidia-legacy; the stack says nvidia" in problem
