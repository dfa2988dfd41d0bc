"""Gates of the real engine: what ends a run, and what of others stays theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ruamel.yaml import YAML

from tests.e2e.site import Site, running_site

pytestmark = [pytest.mark.e2e]

UP = "up --yes --skip-preview"
OTHER = {
    "namespace": "taken",
    "image": "ghcr.io/immich-app/immich-machine-learning:v3.0.0-cuda",
    "port": 3003,
}


@pytest.fixture(scope="module")
def own(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site with the document's stack."""
    with running_site(tmp_path_factory.mktemp("gates")) as site:
        done = site.pulumi(UP)
        assert done.code == 0, done.text
        yield site


def say(site: Site, **sections: object) -> None:
    """The document's stack with more in its sections."""
    yaml = YAML()
    document = yaml.load(site.document())
    for name, more in sections.items():
        section = document["config"].setdefault(f"gpu-passthrough:{name}", {})
        section.update(more)
    with site.stack_file.open("w") as file:
        yaml.dump(document, file)


def test_a_namespace_of_somebody_else_is_not_taken_over(own: Site) -> None:
    assert own.kubectl("create namespace taken").code == 0
    say(own, apps={"other": OTHER})
    refused = own.pulumi(UP)
    assert refused.code != 0
    assert "namespace taken exists, and not by Pulumi" in refused.text
    assert "createNamespace: false" in refused.text

    say(own, apps={"other": {**OTHER, "createNamespace": False}})
    done = own.pulumi(UP)
    assert done.code == 0, done.text
    assert own.get("pods -n taken")["items"]

    own.write_stack(own.document())
    done = own.pulumi(UP)
    assert done.code == 0, done.text
    assert own.get("namespace taken")["status"]["phase"] == "Active"


def test_an_operator_that_does_not_get_ready_ends_an_upgrade(own: Site) -> None:
    say(
        own,
        gpuOperator={"values": {"devicePlugin": {"image": "no-such-image"}}},
        timeouts={"operatorReady": 30},
    )
    failed = own.pulumi(UP)
    own.write_stack(own.document())
    mended = own.pulumi(UP)
    assert failed.code != 0, failed.text
    assert "the GPUs not ready after 30 s" in failed.text
    assert mended.code == 0, mended.text
