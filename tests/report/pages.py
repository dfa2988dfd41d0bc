"""Pages to look at: stacks, clusters and findings as values, and a reader of HTML."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from gpu_passthrough import cards, gfd
from gpu_passthrough.checks.finding import Evidence, Finding
from gpu_passthrough.checks.report import Report
from gpu_passthrough.config import Stack
from gpu_passthrough.judging import judge
from gpu_passthrough.report.page import Page, render
from gpu_passthrough.report.seen import Seen
from gpu_passthrough.verify.state import State
from tests.unit.stacks import changed

READY = {"type": "Ready", "status": "True"}
CARDS = {"k8s-worker-1": "RTX 3090", "k8s-worker-2": "RTX 4070 Ti Super"}
VOID = frozenset({"meta", "br", "img", "link", "input", "hr"})

HOSTILE = (
    "<script>document.title='taken'</script>",
    '"><img src=x onerror="document.title=\'taken\'">',
    "'></style></title><svg onload=document.title='taken'>",
    "{{ 7 * 7 }}{% raw %}",
    "<a href=\"javascript:document.title='taken'\">x</a>",
    "</details><base href=https://example.org/><b onmouseover=alert(1)>",
)


def node(name: str, **labels: str) -> dict[str, Any]:
    found = {"extensions.talos.dev/nonfree-kmod-nvidia-lts": "580.178.04-v1.13.9", **labels}
    return {
        "metadata": {"name": name, "labels": found},
        "spec": {},
        "status": {
            "conditions": [READY],
            "nodeInfo": {"osImage": "Talos (v1.13.9)"},
            "allocatable": {"nvidia.com/gpu": "1"},
        },
    }


def pod(name: str, app: str, on: str, namespace: str = "immich") -> dict[str, Any]:
    limits = {"nvidia.com/gpu": "1"}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": app},
        },
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"limits": limits}}]},
        "status": {"phase": "Running", "conditions": [READY]},
    }


def deployment(name: str, namespace: str) -> dict[str, Any]:
    """An app's Deployment, as the stack of these tests says."""
    container = {
        "image": "ghcr.io/immich-app/immich-machine-learning:v3.0.0-cuda",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    pod = {"runtimeClassName": "nvidia", "containers": [container]}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 1, "template": {"spec": pod}},
    }


def state(**changes: Any) -> State:
    """A healthy cluster as far as the report needs one."""
    workers = {name: node(name, **described(card)) for name, card in CARDS.items()}
    claim = {"name": "immich-machine-learning-cache", "namespace": "immich"}
    values: dict[str, Any] = {
        "nodes": {**workers, "k8s-cp-1": control_plane()},
        "pods": [pod("immich-machine-learning-1", "immich-machine-learning", "k8s-worker-1")],
        "runtime_classes": {"nvidia": {"handler": "nvidia"}},
        "policies": [
            {"metadata": {"name": "cluster-policy"}, "spec": {}, "status": {"state": "ready"}}
        ],
        "daemon_sets": [],
        "deployments": [deployment("immich-machine-learning", "immich")],
        "claims": [
            {
                "metadata": claim,
                "spec": {"accessModes": ["ReadWriteOnce"]},
                "status": {"phase": "Bound"},
            }
        ],
        "namespace": None,
        "reboot_events": [],
    }
    return State(**{**values, **changes})


def described(card: str) -> dict[str, str]:
    """GFD's labels of a node with one card."""
    found = cards.find(card)
    assert found is not None
    return gfd.labels(found, 1, gfd="v0.17.0")


def control_plane() -> dict[str, Any]:
    found = node("k8s-cp-1")
    found["metadata"]["labels"] = {}
    found["status"]["allocatable"] = {}
    return found


def seen(found: State | None = None) -> Seen:
    return Seen(found or state(), "https://10.0.0.1:6443", "")


def finding(id_: str, layer: Any, subject: str, status: Any = "passed", **more: Any) -> Finding:
    return Finding(
        id=id_, title=f"Claim of {id_}", status=status, layer=layer, subject=subject, **more
    )


def report(*findings: Finding) -> Report:
    return Report("verify", "stack test", findings)


def page(name: str = "test", /, *reports: Report, look: Seen | None = None, **changes: Any) -> str:
    return render(Page(name, stack(**changes), look or Seen(), reports))


def stack(**changes: Any) -> Stack:
    return judge(changed(changes))


def hostile_page() -> str:
    """A page with every hostile text at every place where a text from outside can stand."""
    text = " ".join(HOSTILE)
    worker = node("k8s-worker-1", **{"nvidia.com/gpu.product": text})
    worker["status"]["nodeInfo"]["osImage"] = text
    worker["metadata"]["labels"]["extensions.talos.dev/nvidia" + text] = text
    found = state(
        nodes={"k8s-worker-1": worker, text: node(text)},
        pods=[pod(text, "immich-machine-learning", "k8s-worker-1", namespace=text)],
        runtime_classes={"nvidia": {"handler": text}, text: {"handler": text}},
        policies=[{"metadata": {"name": text}, "status": {"state": text}}],
    )
    bad = finding(
        text,
        "host",
        text,
        "failed",
        cause=text,
        consequence=text,
        fix=text,
        evidence=(Evidence(text, text),),
    )
    return page(text, Report(text, text, [bad]), look=Seen(found, text, ""))


@dataclass
class Element:
    """One element of a page."""

    tag: str
    attributes: dict[str, str]
    parent: Element | None = None
    children: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text in it."""
        return " ".join(" ".join(self.pieces).split())

    def all(self, tag: str) -> list[Element]:
        """Every element of a kind in it, in the page's order."""
        own = [self] if self.tag == tag else []
        return own + [one for child in self.children for one in child.all(tag)]

    def everything(self) -> list[Element]:
        """It and all in it."""
        return [self, *(one for child in self.children for one in child.everything())]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("root", {})
        self.at = self.root

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = Element(tag, {key: value or "" for key, value in attrs}, self.at)
        self.at.children.append(found)
        if tag not in VOID:
            self.at = found

    def handle_endtag(self, tag: str) -> None:
        assert self.at.tag == tag, f"</{tag}> closes <{self.at.tag}>"
        assert self.at.parent is not None
        self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        one: Element | None = self.at
        while one is not None:
            one.pieces.append(data)
            one = one.parent


def parse(html: str) -> Element:
    """The elements of a page; one that is closed wrongly fails the test."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.at is reader.root, f"<{reader.at.tag}> is never closed"
    return reader.root
