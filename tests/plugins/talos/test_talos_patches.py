"""Configuration patches: strategic merges, deletions, JSON Patch, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rack.plugins.contract import PluginError
from rack.plugins.talos import patches, yamltext

MAIN: dict[str, Any] = {
    "version": "v1alpha1",
    "machine": {
        "type": "worker",
        "certSANs": ["10.0.0.1"],
        "kubelet": {"image": "kubelet:v1", "extraArgs": {"v": "2"}},
        "install": {"disk": "/dev/sda", "wipe": True},
        "nodeLabels": {"a": "1", "b": "2"},
    },
    "cluster": {
        "network": {"podSubnets": ["10.244.0.0/16"]},
        "apiServer": {"admissionControl": [{"name": "PodSecurity", "configuration": {"x": 1}}]},
    },
}
HOSTNAME = {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "stable"}


def patched(*texts: str, documents: tuple[dict[str, Any], ...] = (MAIN,)) -> list[dict[str, Any]]:
    return patches.apply(documents, patches.load(texts))


def machine(*texts: str) -> dict[str, Any]:
    result: dict[str, Any] = patched(*texts)[0]["machine"]
    return result


def test_values_replace_maps_merge_and_lists_grow() -> None:
    changed = machine("machine: {certSANs: [b], install: {disk: /dev/vda}, nodeLabels: {b: '3'}}")
    assert changed["certSANs"] == ["10.0.0.1", "b"]
    assert changed["install"] == {"disk": "/dev/vda", "wipe": True}
    assert changed["nodeLabels"] == {"a": "1", "b": "3"}


def test_false_replaces_but_an_empty_value_does_not() -> None:
    changed = machine("machine: {install: {wipe: false, disk: ''}}")
    assert changed["install"] == {"disk": "/dev/sda", "wipe": False}


def test_subnets_are_replaced_as_a_whole() -> None:
    changed = patched("cluster: {network: {podSubnets: [10.1.0.0/16]}}")[0]["cluster"]
    assert changed["network"]["podSubnets"] == ["10.1.0.0/16"]


def test_admission_plugins_merge_by_name_and_others_are_appended() -> None:
    text = "cluster: {apiServer: {admissionControl: [{name: %s, configuration: {y: 2}}]}}"
    same = patched(text % "PodSecurity")[0]["cluster"]["apiServer"]["admissionControl"]
    assert same == [{"name": "PodSecurity", "configuration": {"x": 1, "y": 2}}]
    other = patched(text % "ImagePolicyWebhook")[0]["cluster"]["apiServer"]["admissionControl"]
    assert [item["name"] for item in other] == ["PodSecurity", "ImagePolicyWebhook"]


def test_extra_arguments_are_replaced_one_by_one() -> None:
    changed = machine("machine: {kubelet: {extraArgs: {v: '4', feature-gates: [A]}}}")
    assert changed["kubelet"]["extraArgs"] == {"v": "4", "feature-gates": ["A"]}


def test_patches_apply_in_order_and_leave_the_original_alone() -> None:
    changed = machine("machine: {install: {disk: /dev/b}}", "machine: {install: {disk: /dev/c}}")
    assert changed["install"]["disk"] == "/dev/c"
    assert MAIN["machine"]["install"]["disk"] == "/dev/sda"


def test_a_document_merges_with_its_own_kind_and_a_new_one_is_appended() -> None:
    text = "apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: node-1\nauto: off\n"
    merged = patched(text, documents=(MAIN, HOSTNAME))
    assert merged[1] == {**HOSTNAME, "auto": "off", "hostname": "node-1"}
    assert len(patched(text)) == 2


def test_one_patch_may_hold_several_documents() -> None:
    text = (
        "machine: {install: {disk: /dev/b}}\n---\n"
        "apiVersion: v1alpha1\nkind: KmsgLogConfig\nname: k\nurl: tcp://10.0.0.9:5170\n"
    )
    main, log = patched(text)
    assert main["machine"]["install"]["disk"] == "/dev/b"
    assert log["name"] == "k"


def test_delete_removes_a_key_a_document_and_a_list_element() -> None:
    changed = machine("machine: {nodeLabels: {a: {$patch: delete}}}")
    assert changed["nodeLabels"] == {"b": "2"}
    text = "apiVersion: v1alpha1\nkind: HostnameConfig\n$patch: delete\n"
    assert patched(text, documents=(MAIN, HOSTNAME)) == [MAIN]
    item = "cluster: {apiServer: {admissionControl: [{name: PodSecurity, $patch: delete}]}}"
    assert patched(item)[0]["cluster"]["apiServer"]["admissionControl"] == []


def test_deleting_what_is_not_there_is_an_error() -> None:
    with pytest.raises(PluginError, match=r"configPatches\[0\].*machine\.nodeLabels\.c"):
        machine("machine: {nodeLabels: {c: {$patch: delete}}}")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("machine: {kernl: {}}", "machine.kernl"),
        ("machine: {install: {imag: x}}", "machine.install.imag"),
        ("machine: {kernel: {modules: [{nam: nvidia}]}}", r"machine.kernel.modules\[0\].nam"),
        ("machine: {install: []}", "machine.install"),
        ("machine: {certSANs: {}}", "machine.certSANs"),
        ("machine: {install: {wipe: 1}}", "machine.install.wipe"),
        ("machine: {features: {kubePrism: {port: x}}}", "machine.features.kubePrism.port"),
        ("machine: {nodeLabels: {a: [x]}}", "machine.nodeLabels.a"),
        ("apiVersion: v1alpha1\nkind: HostnameConfig\nhost: x\n", "host"),
        ("apiVersion: v1alpha1\nkind: Nope\n", "Nope.*not registered"),
        ("kind: HostnameConfig\nhostname: x\n", "missing apiVersion"),
        ("hostname: x\n", "missing kind"),
        ("machine: [\n", "not valid YAML at line"),
        ("machine: {}\nmachine: {}\n", "a key occurs twice at line 2"),
        ("just some words", "expected a YAML document"),
        ("[not, operations]", "list of operations"),
    ],
)
def test_what_talos_cannot_read_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(PluginError, match=rf"configPatches\[1\].*{named}"):
        patches.load(["machine: {}\n", text])


def test_keys_below_free_form_values_are_free() -> None:
    changed = machine("machine: {kubelet: {extraConfig: {anything: {goes: 1}}}}")
    assert changed["kubelet"]["extraConfig"] == {"anything": {"goes": 1}}


def test_an_absent_value_and_a_number_for_a_word_are_fine() -> None:
    changed = machine("machine: {install: null, nodeLabels: {a: 7}}")
    assert changed["install"] == MAIN["machine"]["install"]
    assert changed["nodeLabels"]["a"] == 7


def test_errors_never_quote_values() -> None:
    with pytest.raises(PluginError) as refused:
        patches.load(["machine: {token: hunter2, tokn: hunter3}\n"])
    assert "hunter" not in str(refused.value)
    with pytest.raises(PluginError) as broken:
        patches.load(["machine: {token: hunter2\n"])
    assert "hunter" not in str(broken.value)


def test_a_patch_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "patch.yaml"
    file.write_text("machine: {install: {disk: /dev/file}}")
    assert machine(f"@{file}")["install"]["disk"] == "/dev/file"
    with pytest.raises(PluginError, match="taken for a file name"):
        machine("no-such-file")


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("{op: add, path: /machine/certSANs/-, value: b}", ["10.0.0.1", "b"]),
        ("{op: add, path: /machine/certSANs/0, value: b}", ["b", "10.0.0.1"]),
        ("{op: replace, path: /machine/certSANs/0, value: b}", ["b"]),
        ("{op: remove, path: /machine/certSANs/0}", []),
        ("{op: copy, from: /machine/certSANs/0, path: /machine/certSANs/-}", ["10.0.0.1"] * 2),
        ("{op: test, path: /machine/type, value: worker}", ["10.0.0.1"]),
    ],
)
def test_json_patch_operations(operation: str, expected: list[str]) -> None:
    assert machine(f"[{operation}]")["certSANs"] == expected


def test_json_patch_move_and_escaped_keys() -> None:
    changed = machine(
        '[{"op": "move", "from": "/machine/nodeLabels/a", "path": "/machine/nodeLabels/x~1y"}]'
    )
    assert changed["nodeLabels"] == {"b": "2", "x/y": "1"}


@pytest.mark.parametrize(
    ("operation", "named"),
    [
        ("{op: remove, path: /machine/nope}", "remove operation does not apply at /machine/nope"),
        ("{op: replace, path: /machine/nope, value: 1}", "replace operation does not apply"),
        ("{op: test, path: /machine/type, value: init}", "test operation does not apply"),
        ("{op: frob, path: /machine}", "one of add, remove"),
        ("{op: add, path: /machine/nope, value: 1}", "machine.nope"),
    ],
)
def test_json_patch_refusals(operation: str, named: str) -> None:
    with pytest.raises(PluginError, match=named):
        patched(f"[{operation}]")


def test_json_patch_knows_a_single_document_only() -> None:
    with pytest.raises(PluginError, match="not supported for multi-document"):
        patched("[{op: remove, path: /machine/type}]", documents=(MAIN, HOSTNAME))


def test_a_text_without_patches_stays_byte_for_byte() -> None:
    text = "# a comment\nmachine: {type: worker}\n"
    assert patches.apply_to_text(text, []) == text
    (changed,) = yamltext.load(patches.apply_to_text(text, ["machine: {token: t}"]))
    assert changed == {"machine": {"type": "worker", "token": "t"}}


def test_words_that_yaml_1_1_takes_for_booleans_are_quoted() -> None:
    assert yamltext.dump([{"auto": "off"}]) == 'auto: "off"\n'
    assert yamltext.load("auto: off\n") == [{"auto": "off"}]
