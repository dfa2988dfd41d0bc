"""The report's page by its properties: rows, standings, what is escaped, what is left out."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from typer.testing import CliRunner

from gpu_passthrough.checks.machine import as_json
from gpu_passthrough.cli import app as commands
from gpu_passthrough.judging import judge
from gpu_passthrough.report.chain import TITLES, WORDS, Chain, chains
from gpu_passthrough.report.concerns import Names, about
from gpu_passthrough.report.given import FindingsError, read_report
from gpu_passthrough.report.page import printable
from gpu_passthrough.report.seen import Seen, judged, look, together
from tests.unit.stacks import app, document, gpu

from . import pages
from .pages import HOSTILE, finding, parse, report, seen, stack

RUNNER = CliRunner()


def standings(found: Chain) -> dict[str, str]:
    return {link.key: link.standing for link in found.links}


def drawn(*findings: Any, state: Seen | None = None, **changes: Any) -> list[Chain]:
    return chains(stack(**changes), state or Seen(), list(findings))


def test_every_gpu_has_a_row_through_all_layers() -> None:
    root = parse(pages.page())
    overview, *_ = root.all("table")
    assert [cell.text for cell in overview.all("thead")[0].all("th")] == ["GPU", *TITLES.values()]
    rows = overview.all("tbody")[0].all("tr")
    assert [row.all("th")[0].text for row in rows] == [
        "RTX 3090 in k8s-worker-1 at 0000:01:00",
        "RTX 4070 Ti Super in k8s-worker-2 at 0000:02:00",
    ]
    words = {word for _, word in WORDS.values()}
    for row in rows:
        cells = row.all("td")
        assert len(cells) == len(TITLES)
        assert all(any(word in cell.text for word in words) for cell in cells)
    drawn = [one for one in root.all("ol") if "chain" in one.attributes.get("class", "")]
    assert [len(one.all("li")) for one in drawn] == [len(TITLES)] * 2
    text = drawn[0].text
    for said in ("pve", "group 14", "0000:01:00", "10de:2204", "VM 121", "v1.13.9", "nvidia"):
        assert said in text


def test_two_cards_of_one_node_are_two_rows() -> None:
    two = [gpu("RTX 3090", path="0000:05:00", iommuGroup=21), gpu("RTX 3090")]
    found = drawn(nodes={"k8s-worker-1": {"gpus": two}})
    assert [one.title for one in found[:2]] == [
        "RTX 3090 in k8s-worker-1 at 0000:01:00",
        "RTX 3090 in k8s-worker-1 at 0000:05:00",
    ]
    broken = finding("mapping", "host", "mapping k8s-worker-1-gpu1", "failed", cause="moved")
    found = drawn(broken, nodes={"k8s-worker-1": {"gpus": two}})
    assert [standings(one)["card"] for one in found] == ["unknown", "broken", "unknown"]


def test_nothing_is_known_where_nobody_looked() -> None:
    for one in drawn():
        assert set(standings(one).values()) == {"unknown"}
        assert one.standing == "unknown"
        assert all(link.note for link in one.links)


def test_a_healthy_cluster_works_as_far_as_it_was_seen() -> None:
    it = seen()
    own = judged(stack(), it)
    assert own is not None
    first, second = drawn(*own.findings, state=it)
    assert standings(first) == {
        "host": "unknown",
        "card": "unknown",
        "vm": "unknown",
        "node": "works",
        "gpu": "works",
        "class": "works",
        "app": "works",
    }
    assert standings(second)["app"] == "free"
    assert "make verify tells" in first.links[5].note
    assert "immich/immich-machine-learning-1: Running, ready" in str(first.links[6].facts)


def test_the_worst_finding_of_a_layer_speaks() -> None:
    passed = finding("iommu", "host", "host pve")
    for status, standing in (
        ("passed", "works"),
        ("failed", "broken"),
        ("warning", "warning"),
        ("ignored", "warning"),
        ("could-not-tell", "unknown"),
    ):
        other = finding("host", "host", "host pve", status, cause="because")
        first = drawn(passed, other)[0]
        assert standings(first)["host"] == standing
        assert (first.links[0].note == "because") == (status != "passed")


def test_what_need_not_be_told_changes_no_standing() -> None:
    unknown = finding("host-driver", "vm", "k8s-worker-1: 0000:01:00 on pve", "could-not-tell")
    best = finding(
        "host-driver",
        "vm",
        "k8s-worker-1: 0000:01:00 on pve",
        "could-not-tell",
        best_effort=True,
    )
    passed = finding("device", "host", "k8s-worker-1: RTX 3090 at 0000:01:00 on pve")
    assert standings(drawn(passed, best)[0])["card"] == "works"
    assert standings(drawn(passed, unknown)[0])["card"] == "unknown"


def test_what_breaks_above_follows() -> None:
    found = drawn(
        finding("iommu", "host", "host pve", "failed", cause="off"),
        finding("allocatable", "operator", "k8s-worker-1", "failed", cause="offers 0"),
    )
    assert found[0].standing == found[1].standing == "broken"
    assert found[0].links[0].note == "off"
    assert found[0].links[4].note == "offers 0 (may follow from: Host and IOMMU group)"
    assert standings(found[1])["gpu"] == "unknown"


@pytest.mark.parametrize(
    ("allocatable", "labels", "standing"),
    [
        ("passed", "passed", "warning"),
        ("passed", "failed", "broken"),
        ("failed", "passed", "broken"),
        (None, "passed", "broken"),
    ],
)
def test_an_operand_that_fails_elsewhere(
    allocatable: str | None, labels: str, standing: str
) -> None:
    found = [
        finding("operands", "operator", "gpu-feature-discovery", "failed", cause="1 of 2 ready"),
        finding("labels", "operator", "k8s-worker-2", labels),
    ]
    if allocatable:
        found.append(finding("allocatable", "operator", "k8s-worker-2", allocatable))
    assert standings(drawn(*found)[1])["gpu"] == standing


OWN = Names(
    frozenset({"pve"}),
    frozenset({"w1"}),
    frozenset({"0000:01:00", "w1-gpu0"}),
    frozenset({"ml"}),
    frozenset({"ml-x"}),
)
EVERY = OWN | Names(
    frozenset({"pve2"}),
    frozenset({"w2", "cp"}),
    frozenset({"0000:02:00", "w2-gpu0"}),
    frozenset({"ml-large"}),
    frozenset({"ml-large-y"}),
)


@pytest.mark.parametrize(
    ("layer", "subject", "expected"),
    [
        ("host", "host pve", True),
        ("host", "host pve2", False),
        ("host", "w1: RTX 3090 at 0000:01:00 on pve", True),
        ("host", "w1: RTX 3090 at 0000:02:00 on pve", False),
        ("host", "w2: RTX 3090 at 0000:01:00 on pve", False),
        ("host", "mapping w1-gpu0", True),
        ("host", "mapping w2-gpu0", False),
        ("vm", "cp: VM 101", False),
        ("talos", "w1", True),
        ("talos", "cp", False),
        ("operator", "ClusterPolicy cluster-policy", True),
        ("runtime-class", "nvidia", True),
        ("app", "ml", True),
        ("app", "ml-cache", True),
        ("app", "deployment ml", True),
        ("app", "ml-x", True),
        ("app", "ml-large", False),
        ("app", "ml-large-cache", False),
        ("app", "ml-large-y", False),
        ("app", "w2", False),
        ("app", "w1", True),
        ("api", "", True),
    ],
)
def test_whom_a_finding_is_about(layer: str, subject: str, *, expected: bool) -> None:
    assert about(finding("any", layer, subject), OWN, EVERY) is expected


def test_what_is_wrong_comes_first_with_cause_and_fix() -> None:
    bad = finding("iommu", "host", "host pve", "failed", cause="the IOMMU is off", fix="turn it on")
    above = finding("node", "talos", "k8s-worker-1", "failed", cause="is gone")
    root = parse(pages.page("test", report(above, bad)))
    first = root.all("section")[0]
    assert first.attributes["aria-labelledby"] == "wrong"
    assert "lowest broken layer is host" in first.text
    assert first.text.index("the IOMMU is off") < first.text.index("is gone")
    assert "turn it on" in first.text
    assert "2 of 2 GPUs have a broken layer" in root.all("header")[0].text


def test_findings_of_a_page_that_is_well() -> None:
    root = parse(pages.page("test", report(finding("node", "talos", "k8s-worker-1"))))
    assert [
        one for one in root.all("section") if one.attributes["aria-labelledby"] == "wrong"
    ] == []
    assert "Claim of node" in root.all("details")[0].text
    assert "open" not in root.all("details")[0].attributes


def test_an_older_answer_gives_way_to_what_is_seen_now() -> None:
    it = seen()
    own = judged(stack(), it)
    old = report(
        finding("node", "talos", "k8s-worker-1", "failed", cause="was away"),
        finding("compute-app", "app", "immich-machine-learning-1"),
    )
    _, kept = together(own, [old])
    assert [one.id for one in kept.findings] == ["compute-app"]
    assert "was away" not in pages.page("test", old, look=it)
    assert "was away" in pages.page("test", old)


def test_versions_and_verdict() -> None:
    root = parse(pages.page())
    table = root.all("table")[-1]
    rows = {row.all("th")[0].text: row.all("td")[0].text for row in table.all("tbody")[0].all("tr")}
    assert rows["Talos"] == "v1.13.9"
    assert rows["GPU Operator"] == "v24.9.2"
    assert "works, not vendor-tested" in root.text


def test_a_stack_that_lists_no_machine_shows_its_cluster_s_gpus() -> None:
    values = document()
    for key in ("proxmox", "nodes", "cluster"):
        del values[key]
    kubeconfig = {"apiVersion": "v1", "kind": "Config"}
    values["kubernetes"] = {"kubeconfig": json.dumps(kubeconfig)}
    values.pop("apps", None)
    bare = judge(values)
    assert chains(bare, Seen(), []) == []
    product = {"nvidia.com/gpu.product": "NVIDIA-A2", "nvidia.com/gpu.count": "2"}
    it = seen(pages.state(nodes={"one": pages.node("one", **product)}))
    found = chains(bare, it, [])
    assert [one.title for one in found] == ["NVIDIA-A2 in one"] * 2
    assert standings(found[0])["host"] == "outside"
    many = {"nvidia.com/gpu.count": "9" * 40}
    it = seen(pages.state(nodes={"one": pages.node("one", **many)}))
    assert len(chains(bare, it, [])) == 16


def test_the_same_page_twice() -> None:
    assert pages.hostile_page() == pages.hostile_page()


def test_hostile_texts_are_text() -> None:
    root = parse(pages.hostile_page())
    tags = {one.tag for one in root.everything()}
    assert tags.isdisjoint({"script", "img", "svg", "base", "b", "iframe", "object", "link"})
    assert len(root.all("style")) == len(root.all("title")) == 1
    for one in root.everything():
        assert not any(name.startswith("on") for name in one.attributes)
        assert "style" not in one.attributes
    for text in HOSTILE:
        assert " ".join(text.split()) in root.all("main")[0].text


@given(some.text())
def test_any_text_stays_text(text: str) -> None:
    html = pages.page("test", report(finding("iommu", "host", text, cause=text)))
    html.encode()
    root = parse(html)
    assert len(root.all("details")) == 1
    assert " ".join(str(printable(text)).split()) in root.all("summary")[0].text


def test_characters_that_hide_are_shown() -> None:
    assert printable("a\u202eb\x00c\ud800d\ne") == "a\ufffdb\ufffdc\ufffdd\ne"
    assert printable("ü 名前 👩\u200d💻") == "ü 名前 👩\u200d💻"
    assert printable(7) == 7


def test_the_page_needs_no_network_and_runs_nothing() -> None:
    html = pages.hostile_page()
    root = parse(html)
    for one in root.everything():
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            value = one.attributes.get(name, "#")
            assert value.startswith("#"), f"{one.tag} {name}={value}"
    css = root.all("style")[0].text
    assert "url(" not in css
    assert "@import" not in css
    policy = next(
        one.attributes["content"]
        for one in root.all("meta")
        if one.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_links_lead_somewhere_and_ids_are_unique() -> None:
    root = parse(pages.page("test", report(finding("iommu", "host", "host pve", "failed"))))
    ids = [one.attributes["id"] for one in root.everything() if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    targets = {one.attributes["href"].removeprefix("#") for one in root.all("a")}
    labels = {one.attributes["aria-labelledby"] for one in root.all("section")}
    assert (targets | labels) <= set(ids)


def test_structure_for_keyboard_and_readers() -> None:
    root = parse(pages.page("test", report(finding("iommu", "host", "host pve", "failed"))))
    assert root.all("html")[0].attributes["lang"] == "en"
    for landmark in ("header", "nav", "main", "footer", "h1"):
        assert len(root.all(landmark)) == 1
    levels = [int(one.tag[1]) for one in root.everything() if re.fullmatch("h[1-6]", one.tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(one.attributes.get("scope") for one in root.all("th"))
    assert all(one.all("caption") for one in root.all("table"))
    scrolling = [one for one in root.all("div") if one.attributes.get("class") == "scroll"]
    assert all(one.attributes.get("tabindex") == "0" for one in scrolling)


def test_no_secret_is_on_the_page() -> None:
    html = pages.page(
        proxmox={"apiToken": "user@pve!t=11111111-2222-4333-8444-555555555555"},
        apps={"secretive": app(secretEnv={"PASSWORD": "hunter-two"}, env={"MODE": "plain-value"})},
    )
    for secret in ("11111111-2222", "hunter-two", "PASSWORD", "plain-value"):
        assert secret not in html
    assert "secretive" in html


def written(tmp_path: Path, **changes: Any) -> Path:
    bad = finding("iommu", "host", "host pve", "failed", cause="off", seconds=0.5, best_effort=True)
    values = {**json.loads(as_json(report(bad))), **changes}
    file = tmp_path / "found.json"
    file.write_text(json.dumps(values))
    return file


def test_a_report_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    found = read_report(written(tmp_path))
    bad = finding("iommu", "host", "host pve", "failed", cause="off", seconds=0.5, best_effort=True)
    assert found.findings == [bad]
    assert (found.command, found.target, found.unreachable) == ("verify", "stack test", False)
    assert read_report(written(tmp_path, reachable=False, later="key")).unreachable


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"findings": [{"id": "x"}]}, "findings.0.title"),
        ({"findings": [{"id": "x", "title": "t", "status": "fine", "layer": "vm"}]}, "status"),
        ({"findings": [{"id": "x", "title": "t", "status": "failed", "layer": "moon"}]}, "layer"),
        ({"command": 7}, "command"),
        ({"findings": None}, "findings"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(FindingsError, match=said):
        read_report(written(tmp_path, **changes))


def test_no_file_and_no_json_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FindingsError, match="No such file"):
        read_report(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("{")
    with pytest.raises(FindingsError, match="verify STACK --json"):
        read_report(tmp_path / "text.json")


def test_a_cluster_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    assert look("", "gpu-operator").problem == "No cluster was asked."
    found = look(str(tmp_path / "none"), "gpu-operator")
    assert found.state is None
    assert "was not asked" in found.problem


def run(*arguments: str) -> Any:
    return RUNNER.invoke(commands, ["report", *arguments])


def test_command(tmp_path: Path) -> None:
    output = tmp_path / "deep" / "page.html"
    found = str(written(tmp_path))
    done = run("homelab", "--kubeconfig", "", "--findings", found, "--output", str(output))
    assert done.exit_code == 0, done.output
    root = parse(output.read_text())
    assert root.all("title")[0].text == "GPUs of stack homelab"
    assert "Made 20" in root.text
    assert "lowest broken layer is host" in root.text


def test_command_without_a_cluster_that_answers(tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    done = run("homelab", "--kubeconfig", str(tmp_path / "none"), "--output", str(output))
    assert done.exit_code == 0
    assert "shown as unknown" in done.output
    assert output.exists()


def test_command_refuses(tmp_path: Path) -> None:
    nothing = str(tmp_path / "none.json")
    assert run("homelab", "--kubeconfig", "", "--findings", nothing).exit_code == 2
    assert run(str(tmp_path / "none.yaml"), "--kubeconfig", "").exit_code == 2
    (tmp_path / "file").touch()
    done = run("homelab", "--kubeconfig", "", "--output", str(tmp_path / "file" / "page.html"))
    assert done.exit_code == 1
    assert "cannot be written" in done.output


def test_a_free_gpu_of_a_cluster_that_was_read_is_free() -> None:
    _, second = drawn(finding("no-claim", "app", "k8s-worker-2"), state=seen())
    assert standings(second)["app"] == "free"
    _, second = drawn(finding("no-claim", "app", "k8s-worker-2", "failed"), state=seen())
    assert standings(second)["app"] == "broken"
