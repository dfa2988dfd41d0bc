"""Which stacks a pull request touches."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pullrequest import touched
from pullrequest.touched import GitError

STACKS = ["dev", "homelab", "lab.2"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([], []),
        (["Pulumi.homelab.yaml"], ["homelab"]),
        (["Pulumi.lab.2.yaml", "Pulumi.dev.yaml"], ["dev", "lab.2"]),
        (["__main__.py"], STACKS),
        (["components/gpu_app.py", "docs/stacks.md"], STACKS),
        (["stacks/defaults.yaml"], STACKS),
        (["policy/rules.py"], STACKS),
        (["requirements.txt"], STACKS),
        (["something-new/file"], STACKS),
        (["Pulumi.yaml"], STACKS),
        (["docs/stacks.md", "README.md", "tests/unit/test_cli.py", ".github/x.yml"], []),
        (["components/README.md"], []),
        (["rack/world/vm.py"], ["dev"]),
        (["rack/world/vm.py", "Pulumi.homelab.yaml"], ["dev", "homelab"]),
        (["Pulumi.gone.yaml"], []),
        (["old/Pulumi.dev.yaml"], STACKS),
        (["racks.py"], STACKS),
    ],
)
def test_files_of_one_stack_touch_it_and_shared_ones_touch_all(
    files: list[str], expected: list[str]
) -> None:
    assert touched.touched(files, STACKS) == expected


def git(folder: Path, *arguments: str) -> None:
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *named, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("Pulumi.dev.yaml", "Pulumi.homelab.yaml", "__main__.py"):
        (tmp_path / name).write_text(name)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "base")
    git(tmp_path, "switch", "-q", "-c", "change")
    return tmp_path


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "more")


def test_what_main_changed_meanwhile_is_not_the_branchs(repository: Path) -> None:
    (repository / "Pulumi.dev.yaml").write_text("other")
    commit(repository)
    git(repository, "switch", "-q", "main")
    (repository / "__main__.py").write_text("other")
    commit(repository)
    git(repository, "switch", "-q", "change")
    assert touched.changed_files(repository, "main") == ["Pulumi.dev.yaml"]


def test_unusual_names_and_both_ends_of_a_move_are_seen(repository: Path) -> None:
    (repository / "Pulumi.dev.yaml").rename(repository / "Pulumi.dév\n.yaml")
    commit(repository)
    names = touched.changed_files(repository, "main")
    assert sorted(names) == ["Pulumi.dev.yaml", "Pulumi.dév\n.yaml"]
    assert touched.stacks_of(repository) == ["homelab"]


def test_a_base_that_is_not_there_is_an_error_of_git(repository: Path) -> None:
    with pytest.raises(GitError, match="no-such-branch"):
        touched.changed_files(repository, "no-such-branch")


def test_the_stacks_of_a_checkout_are_those_with_a_file(repository: Path) -> None:
    (repository / "Pulumi.bad name.yaml").write_text("")
    (repository / "Pulumi.yaml").write_text("")
    assert touched.stacks_of(repository) == ["dev", "homelab"]
