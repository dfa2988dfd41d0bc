"""Where a program is taken from, and what is said where it cannot be had."""

from __future__ import annotations

import dataclasses
import os
import stat
from pathlib import Path

import pytest

from tools import build, cache, download, environment, resolve
from tools.sources import Source, ToolError, load


def source(key: str) -> Source:
    return next(one for one in load()[0] if one.key == key)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, an empty PATH and a folder of links of its own."""
    monkeypatch.setenv("GPU_PASSTHROUGH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(resolve, "BIN", tmp_path / "bin")
    (tmp_path / "path").mkdir()
    return tmp_path


def program(folder: Path, name: str, shows: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{shows}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("key", "shows", "fits"),
    [
        ("etcd", "etcd Version: 3.6.16", True),
        ("etcd", "etcd Version: 3.5.0", True),
        ("etcd", "etcd Version: 3.4.23", False),
        ("kubernetes", "Kubernetes v1.34.4", True),
        ("kubernetes", "Kubernetes v1.34.5", False),
        ("pulumi", "v3.150.0", True),
        ("pulumi", "3.149.9", False),
        ("pulumi", "no version at all", False),
    ],
)
def test_a_version_is_usable_from_the_minimum_on(key: str, shows: str, fits: bool) -> None:
    assert resolve.usable(source(key), shows) is fits


def test_path_comes_before_the_cache(elsewhere: Path) -> None:
    place = program(elsewhere / "path", "etcd", "etcd Version: 3.6.1")
    found = resolve.on_path(source("etcd"))
    assert found is not None
    assert found.programs == {"etcd": place}


def test_a_link_of_an_earlier_run_does_not_count_as_path(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / "bin").mkdir()
    program(elsewhere / "bin", "etcd", "etcd Version: 3.6.1")
    monkeypatch.setenv("PATH", str(elsewhere / "bin"))
    assert resolve.on_path(source("etcd")) is None


def test_a_broken_cache_entry_is_named_and_not_used(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    etcd = source("etcd")
    cache.Entry.of(etcd).fill(lambda folder: str(program(folder, "etcd", "3.6.16")))
    assert resolve.cached(etcd) is not None
    cache.Entry.of(etcd).program("etcd").write_text("cut")
    assert resolve.cached(etcd) is None
    assert "The cached etcd is broken (etcd was cut short or changed)" in capsys.readouterr().err


def test_what_is_not_offered_is_built_and_linked(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []

    def refuse(source: Source, target: Path) -> str:
        raise download.NotOfferedError("vendor.example: out of reach")

    def make(source: Source, target: Path) -> str:
        built.append(source.key)
        for name in source.programs:
            program(target, name, source.version)
        return "built by a test"

    monkeypatch.setattr(download, "fetch", refuse)
    monkeypatch.setattr(build, "build", make)
    monkeypatch.setattr(build, "check_go", lambda titles: None)
    resolve.resolve()
    assert built == [one.key for one in load()[0]]
    wanted = {name for one in load()[0] for name in one.programs}
    assert {path.name for path in (elsewhere / "bin").iterdir()} == wanted
    built.clear()
    resolve.resolve()
    assert built == []


def test_without_go_the_programs_and_the_way_out_are_named(elsewhere: Path) -> None:
    with pytest.raises(ToolError, match=r"Go 1\.\d+.* is needed to build etcd") as error:
        build.check_go(["etcd"])
    assert "go.dev/dl" in str(error.value)


def test_a_go_that_is_too_old_is_shown(elsewhere: Path) -> None:
    program(elsewhere / "path", "go", "go version go1.19.8 linux/amd64")
    with pytest.raises(ToolError, match="Found: go version go1.19.8"):
        build.check_go(["etcd"])


def test_a_program_that_the_machine_lacks_is_named_with_the_command(elsewhere: Path) -> None:
    lines = [resolve.how_to_get(one) for one in resolve.missing_on_machine()]
    assert any(line.startswith("jq is missing") and "install jq" in line for line in lines)


def test_every_module_pins_what_its_source_says() -> None:
    for one in load()[0]:
        module = (Path(build.HERE) / "go" / one.build.module / "go.mod").read_text()
        if one.key not in ("pulumi-resource-kubernetes",):  # pinned by a commit, not by a tag
            assert f"v{one.version}" in module, one.key


def test_the_environment_names_files_and_shows_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("PULUMI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(environment, "STATE", tmp_path / ".state")
    monkeypatch.setattr(environment, "PASSPHRASE", tmp_path / ".state" / "passphrase")
    text = environment.shell_text()
    passphrase = tmp_path / ".state" / "passphrase"
    assert stat.S_IMODE(passphrase.stat().st_mode) == 0o600
    assert stat.S_IMODE(passphrase.parent.stat().st_mode) == 0o700
    assert str(passphrase) in text
    assert passphrase.read_text() not in text
    assert environment.shell_text() == text


def test_what_the_user_has_set_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "STATE", tmp_path / ".state")
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://own")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE_FILE", "/own/file")
    assert "PULUMI_BACKEND_URL" not in environment.variables()
    assert "PULUMI_CONFIG_PASSPHRASE_FILE" not in environment.variables()
    assert not (tmp_path / ".state").exists()


def test_a_source_without_its_own_minimum_wants_its_own_version() -> None:
    kubernetes = source("kubernetes")
    assert kubernetes.minimum == kubernetes.version
    assert dataclasses.replace(kubernetes, exact=False).exact is False
