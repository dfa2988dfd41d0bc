"""Ten configurations, as different as the rack's hardware allows, each built for real and removed.

The rack's model has said already that they work; here engine, API server and operator say it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from components.readiness import expected_gpus
from gpu_passthrough.config import Stack
from gpu_passthrough.judging import judge
from tests.e2e.site import Site
from tests.property.samples import COUNT, configuration, on_rack, samples, title

pytestmark = [pytest.mark.e2e, pytest.mark.endurance, pytest.mark.xdist_group("ten-ups")]

CUDA_WORKS = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"


def stack_file(values: dict[str, Any]) -> str:
    """A stack file that says all of it, defaults taken away."""
    values = {**values, "apps": {"immich-machine-learning": None, **values["apps"]}}
    extensions = {"driver": None, **values["cluster"]["extensions"]}
    values["cluster"] = {**values["cluster"], "extensions": extensions}
    config: dict[str, Any] = {"pulumi:disable-default-providers": ["*"]}
    config |= {f"gpu-passthrough:{key}": value for key, value in values.items()}
    return yaml.safe_dump({"config": config}, sort_keys=False)


@pytest.mark.parametrize("number", range(COUNT))
def test_it_comes_up_computes_and_leaves_nothing(site: Site, number: int) -> None:
    chosen = samples()[number]
    values = on_rack(configuration(chosen), site.shift)
    stack = judge(values)
    site.write_stack(stack_file(values))
    try:
        done = site.pulumi("up --yes --skip-preview")
        assert done.code == 0, f"{title(chosen)}\n{done.text}"
        _cards_are_offered(site, stack)
        _apps_compute(site, stack)
        _nothing_changes(site)
    finally:
        gone = site.pulumi("destroy --yes --skip-preview")
        site.write_stack(site.document())
    assert gone.code == 0, f"{title(chosen)}\n{gone.text}"
    assert site.resources() == []
    assert site.proxmox("/nodes/pve/qemu") == []
    assert site.proxmox("/cluster/mapping/pci") == []


def _cards_are_offered(site: Site, stack: Stack) -> None:
    nodes = {one["metadata"]["name"]: one for one in site.get("nodes")["items"]}
    assert nodes.keys() == stack.members.keys()
    for name, count in (expected_gpus(stack) or {}).items():
        assert nodes[name]["status"]["allocatable"][stack.gpu_resource] == str(count)


def _apps_compute(site: Site, stack: Stack) -> None:
    for name, app in stack.apps.items():
        deployment = site.get(f"-n {app.namespace} deployment {name}")
        assert deployment["status"].get("availableReplicas", 0) == app.replicas, name
        if "immich" in name:
            done = site.kubectl(
                f'-n {app.namespace} exec deploy/{name} -- python3 -c "{CUDA_WORKS}"'
            )
            assert done.out.strip() == "0", done.text


def _nothing_changes(site: Site) -> None:
    done = site.pulumi("preview --json")
    assert done.code == 0, done.text
    changes = json.loads(done.out)["changeSummary"]
    assert {kind for kind, count in changes.items() if count} == {"same"}
