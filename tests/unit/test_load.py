"""Stack files and Pulumi's configuration: lines, defaults, secrets, and no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pulumi
import pytest
import yaml
from pulumi.runtime import config as runtime

from gpu_passthrough import load
from gpu_passthrough.config import Stack
from gpu_passthrough.load import load_stack, load_stack_file
from gpu_passthrough.problems import ConfigurationError, Problem, where

from .stacks import changed

PREFIX = "gpu-passthrough:"
PROJECT = Path(__file__).parents[2]


def stack_text(values: dict[str, object]) -> str:
    return yaml.safe_dump(
        {"config": {PREFIX + key: value for key, value in values.items()}}, sort_keys=False
    )


def write(folder: Path, text: str, name: str = "Pulumi.test.yaml") -> Path:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def refused(path: Path) -> list[Problem]:
    with pytest.raises(ConfigurationError) as caught:
        load_stack_file(path)
    return list(caught.value.problems)


def line_of(text: str, part: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if part in line)


@pytest.mark.parametrize("stack", ["dev", "homelab"])
def test_the_projects_stacks_are_accepted(stack: str) -> None:
    loaded = load_stack_file(PROJECT / f"Pulumi.{stack}.yaml")
    assert loaded.starts_at == "hardware"
    assert set(loaded.gpu_nodes) == {"k8s-worker-1", "k8s-worker-2"}
    assert loaded.gpu_operator.version == "v24.9.2"


def test_every_problem_at_once_with_its_line(tmp_path: Path) -> None:
    values = changed({"nodes": {"k8s-worker-2": {"vmId": 121}}, "protekt": True})
    values["cluster"]["endpoint"] = "https://192.168.20.99:6443"
    values["timeouts"] = {"appReady": "soon"}
    text = stack_text(values)
    found = {one.rule: one for one in refused(write(tmp_path, text))}
    assert set(found) == {"vm-id-duplicate", "unknown-key", "endpoint", "value"}
    assert found["unknown-key"].line == line_of(text, "protekt")
    assert found["endpoint"].line == line_of(text, "endpoint: https://192.168.20.99")
    assert found["value"].line == line_of(text, "appReady")
    ids = [n for n, line in enumerate(text.splitlines(), 1) if "vmId: 121" in line]
    assert (found["vm-id-duplicate"].also_lines, found["vm-id-duplicate"].line) == (
        (ids[0],),
        ids[1],
    )
    assert all(one.file == "Pulumi.test.yaml" for one in found.values())


def test_a_wrong_node_does_not_hide_what_is_wrong_with_the_others(tmp_path: Path) -> None:
    values = changed({"nodes": {"k8s-worker-2": {"vmId": 121}, "broken": {"role": "boss"}}})
    rules = {one.rule for one in refused(write(tmp_path, stack_text(values)))}
    assert rules == {"vm-id-duplicate", "missing-key", "value"}


def test_a_wrong_value_hides_as_little_as_possible(tmp_path: Path) -> None:
    values = changed({"nodes": {"k8s-worker-2": {"vmId": 121, "address": "192.168.20.20"}}})
    values["nodes"]["k8s-worker-2"]["gpus"][0]["path"] = "02:00.0"
    values["cluster"]["name"] = "Not A Name"
    values["cluster"]["talosVersion"] = "v1.11.0"
    values["gpuOperator"] = {"version": "latest", "driver": {"enabled": True}}
    found = [one.rule for one in refused(write(tmp_path, stack_text(values)))]
    rules = ["vm-id-duplicate", "address-duplicate", "operator-on-talos", "value", "value", "value"]
    assert sorted(map(str, found)) == sorted(rules)


def test_what_was_stood_in_for_is_not_judged(tmp_path: Path) -> None:
    for key in ("talosVersion", "kubernetesVersion", "endpoint"):
        values = changed({"cluster": {"talosVersion": "v1.14.0-rc.1", key: "nonsense"}})
        (problem,) = refused(write(tmp_path, stack_text(values)))
        assert where(problem.path) == f"cluster.{key}"


def test_many_wrong_entries_of_a_list(tmp_path: Path) -> None:
    values = changed()
    first = values["nodes"]["k8s-worker-1"]["gpus"][0]
    cards = [{**first, "path": "wrong" if n % 2 else f"0000:{n + 16}:00"} for n in range(14)]
    values["nodes"]["k8s-worker-1"]["gpus"] = cards
    found = refused(write(tmp_path, stack_text(values)))
    assert [one.path[3] for one in found] == [1, 3, 5, 7, 9, 11, 13]


def test_a_missing_key_points_at_what_lacks_it(tmp_path: Path) -> None:
    values = changed()
    del values["nodes"]["k8s-worker-1"]["gpus"][0]["iommuGroup"]
    text = stack_text(values)
    (problem,) = refused(write(tmp_path, text))
    assert where(problem.path) == "nodes.k8s-worker-1.gpus[0].iommuGroup"
    assert problem.line == line_of(text, "card: RTX 3090")


def test_a_problem_reads_well(tmp_path: Path) -> None:
    values = changed({"nodes": {"k8s-worker-2": {"vmId": 121}}})
    text = ConfigurationError(refused(write(tmp_path, stack_text(values)))).args[0]
    for part in ("Pulumi.test.yaml:", "nodes.k8s-worker-2.vmId", "See also", "Why: ", "Fix: "):
        assert part in text
    assert text.startswith("The configuration has 1 problem.\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "config:",
        "config: [1, 2]",
        "just words",
        "[1, 2]",
        "config: {gpu-passthrough:nodes: [",
        "\t- x",
        "a: b: c",
        "config: &a [*a]",
        "{" * 5000,
        "[" * 5000,
        "config: {? [a] : b}",
        "config: {gpu-passthrough:cluster: null}",
        "config: {gpu-passthrough:nodes: []}",
        "config: {gpu-passthrough:nodes: 5, gpu-passthrough:apps: yes}",
        "--- a\n--- b",
        "%TAG x",
        "config: {gpu-passthrough:gpuOperator: {version: 1e999}}",
        "!!python/object:os.system x",
        "config: {gpu-passthrough:timeouts: {vmCreate: " + "9" * 6000 + "}}",
        "\x00",
        "config: *x",
        "config: {'gpu-passthrough:': 1}",
        "config: {gpu-passthrough:nodes: {a: {gpus: {b: 1}}}}",
        "config: {gpu-passthrough:nodes: {'': {role: worker}}}",
        "config: {nodes: {}}",
        "config: 7",
        "config: {gpu-passthrough:apps: {a: {env: {A: 1}, vramMib: .inf, gpus: 1.5}}}",
        "config: {<<: [1, {gpu-passthrough:protect: maybe}]}",
        "x: " + "[1, " * 150,
    ],
)
def test_nonsense_is_refused_in_words(tmp_path: Path, text: str) -> None:
    found = refused(write(tmp_path, text))
    assert found
    assert all(one.message and "Traceback" not in one.render() for one in found)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "Pulumi.none.yaml")[0].message
    assert "cannot be read" in refused(tmp_path)[0].message
    binary = tmp_path / "Pulumi.binary.yaml"
    binary.write_bytes(b"\xff\xfe\xfa")
    assert "UTF-8" in refused(binary)[0].message


def test_aliases_cannot_blow_up(tmp_path: Path) -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    text = "\n".join(["a0: &a0 [1]", *levels])
    assert "aliases" in refused(write(tmp_path, text))[0].message


def test_a_key_given_twice(tmp_path: Path) -> None:
    text = (
        stack_text(changed())
        + "  gpu-passthrough:protect: true\n  gpu-passthrough:protect: false\n"
    )
    (problem,) = refused(write(tmp_path, text))
    lines = [n for n, line in enumerate(text.splitlines(), 1) if "protect:" in line]
    assert problem.line == lines[1]
    assert str(lines[0]) in problem.message


def test_yaml_is_read_as_pulumi_reads_it(tmp_path: Path) -> None:
    text = stack_text(changed()).replace("'0000:01:00'", "0000:01:00")
    assert "path: 0000:01:00" in text
    loaded = load_stack_file(write(tmp_path, text))
    assert loaded.nodes["k8s-worker-1"].gpus[0].path == "0000:01:00"


@pytest.mark.parametrize(
    ("key", "near"),
    [("gpu-passthrouhg:nodes", "gpu-passthrough:nodes"), ("nodes", "gpu-passthrough:nodes")],
)
def test_a_misspelt_prefix(tmp_path: Path, key: str, near: str) -> None:
    text = stack_text(changed()) + f"  {key}: {{}}\n"
    (problem,) = refused(write(tmp_path, text))
    assert near in problem.fix


def test_keys_of_others_are_left_alone(tmp_path: Path) -> None:
    text = (
        "encryptionsalt: v1:x\n"
        + stack_text(changed())
        + "  aws:region: x\n  pulumi:tags: {a: b}\n"
    )
    assert load_stack_file(write(tmp_path, text)).protect
    (problem,) = refused(write(tmp_path, text + "confg: {}\n"))
    assert problem.fix == "Did you mean 'config'?"


def test_defaults_are_merged_deep(tmp_path: Path) -> None:
    write(
        tmp_path,
        yaml.safe_dump(
            {
                "gpuOperator": {"version": "v26.3.1", "namespace": "gpu"},
                "apps": {"extra": {"namespace": "ml", "image": "x:1"}},
                "proxmox": {"network": {"dns": ["1.1.1.1", "8.8.8.8"], "bridge": "vmbr9"}},
            }
        ),
        load.DEFAULTS,
    )
    values = changed()
    stack = load_stack_file(write(tmp_path, stack_text(values)))
    assert (stack.gpu_operator.version, stack.gpu_operator.namespace) == ("v24.9.2", "gpu")
    assert set(stack.apps) == {"extra", "immich-machine-learning"}
    assert stack.proxmox is not None
    assert stack.proxmox.network.dns == ["9.9.9.9"]
    assert stack.proxmox.network.bridge == "vmbr9"
    values["apps"]["extra"] = None
    assert "extra" not in load_stack_file(write(tmp_path, stack_text(values))).apps


def test_a_problem_of_the_defaults_points_there(tmp_path: Path) -> None:
    write(tmp_path, "timeouts:\n  appReady: 0\n", load.DEFAULTS)
    (problem,) = refused(write(tmp_path, stack_text(changed())))
    assert (problem.file, problem.line) == (load.DEFAULTS, 2)


def test_defaults_of_layers_below_do_not_apply(tmp_path: Path) -> None:
    write(tmp_path, "cluster: {talosVersion: v1.13.9}\n", load.DEFAULTS)
    text = stack_text({"kubernetes": {"kubeconfig": "x"}, "gpuOperator": {"version": "v26.3.1"}})
    assert load_stack_file(write(tmp_path, text)).cluster is None


def test_secrets_stay_closed(tmp_path: Path) -> None:
    values = changed({"proxmox": {"apiToken": {"secure": "v1:abc"}}})
    values["apps"]["immich-machine-learning"]["secretEnv"] = {"TOKEN": {"secure": "v1:def"}}
    assert load_stack_file(write(tmp_path, stack_text(values))).proxmox is not None
    values["proxmox"]["apiToken"] = {"secret": "very-secret"}
    values["apps"]["immich-machine-learning"]["secretEnv"] = {"TOKEN": 271828}
    text = ConfigurationError(refused(write(tmp_path, stack_text(values)))).args[0]
    assert "very-secret" not in text
    assert "271828" not in text


def test_an_encrypted_section_cannot_be_judged(tmp_path: Path) -> None:
    values = changed({"timeouts": {"secure": "v1:abc"}})
    (problem,) = refused(write(tmp_path, stack_text(values)))
    assert "encrypted" in problem.message


@pytest.fixture
def pulumi_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pulumi's configuration is the process's: leave it as it was."""
    monkeypatch.setattr(pulumi, "get_stack", lambda: "test")
    monkeypatch.delenv("PULUMI_CONFIG", raising=False)
    token = runtime.CONFIG.set({})
    yield
    runtime.CONFIG.reset(token)


def as_pulumi(values: dict[str, object]) -> dict[str, str]:
    def text(value: object) -> str:
        return value if isinstance(value, str) else json.dumps(value)

    return {PREFIX + key: text(value) for key, value in values.items()} | {"aws:region": "x"}


@pytest.mark.usefixtures("pulumi_config")
def test_inside_of_pulumi(tmp_path: Path) -> None:
    values = changed({"protect": False, "proxmox": {"apiToken": "root@pam!t=0-1"}})
    runtime.set_all_config(as_pulumi(values))
    stack = load_stack(tmp_path)
    assert isinstance(stack, Stack)
    assert stack.protect is False
    assert stack.proxmox is not None
    assert stack.proxmox.api_token is not None
    assert stack.proxmox.api_token.get_secret_value() == "root@pam!t=0-1"


@pytest.mark.usefixtures("pulumi_config")
def test_inside_of_pulumi_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(as_pulumi(changed())))
    monkeypatch.setenv("PROXMOX_VE_API_TOKEN", "root@pam!t=0-1")
    assert load_stack(tmp_path).starts_at == "hardware"


@pytest.mark.usefixtures("pulumi_config")
def test_inside_of_pulumi_a_missing_secret_is_one_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PROXMOX_VE_API_TOKEN", raising=False)
    runtime.set_all_config(as_pulumi(changed()))
    with pytest.raises(ConfigurationError) as caught:
        load_stack(tmp_path)
    assert [problem.rule for problem in caught.value.problems] == ["secret-missing"]
    assert "--stack test --secret" in str(caught.value)


@pytest.mark.usefixtures("pulumi_config")
def test_inside_of_pulumi_problems_have_lines_where_they_come_from_the_file(tmp_path: Path) -> None:
    values = changed({"nodes": {"k8s-worker-2": {"vmId": 121}}})
    text = stack_text(values)
    write(tmp_path, text)
    runtime.set_all_config(as_pulumi({**values, "timeouts": {"appReady": 0}}))
    with pytest.raises(ConfigurationError) as caught:
        load_stack(tmp_path)
    lines = {one.rule: one.line for one in caught.value.problems}
    assert lines["vm-id-duplicate"] == max(
        n for n, line in enumerate(text.splitlines(), 1) if "vmId: 121" in line
    )
    assert lines["value"] is None


@pytest.mark.usefixtures("pulumi_config")
def test_inside_of_pulumi_text_where_a_map_belongs(tmp_path: Path) -> None:
    runtime.set_all_config({**as_pulumi(changed()), PREFIX + "nodes": "{broken"})
    with pytest.raises(ConfigurationError, match="not a map"):
        load_stack(tmp_path)
