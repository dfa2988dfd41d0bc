"""The report's page in a real browser: offline, on a phone, dark and light, with hostile texts.

The page allows no script. Where a test has to measure, its copy of the page allows one script more,
by its hash; everything else of the page's policy stays.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from . import pages
from .pages import finding, parse, report, seen

CHROMIUM = shutil.which("chromium")
LONGEST = 60
"""Seconds that a browser may take; it needs about one."""
DARK, LIGHT = 0, 1
"""Values of Chromium's setting preferredColorScheme."""
PHONE, DESK = 360, 1280
READABLE = 4.5
"""Contrast of text that WCAG 2 asks for at level AA."""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

MEASURE = """
const channel = (text) => {
  const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
  return { r, g, b, a };
};
const light = ({ r, g, b }) => [r, g, b]
  .map((v) => v / 255)
  .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (one) => {
  const found = channel(getComputedStyle(one).backgroundColor);
  return found.a === 1 || !one.parentElement ? found : behind(one.parentElement);
};
const contrast = (one) => {
  const [a, b] = [channel(getComputedStyle(one).color), behind(one)].map(light);
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
};
const texts = [...document.querySelectorAll("body *")].filter((one) =>
  [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
const links = [...document.querySelectorAll("a, summary, [tabindex]")];
const focused = (one) => {
  one.focus();
  return document.activeElement === one && getComputedStyle(one).outlineStyle === "solid";
};
const root = document.documentElement;
parent.postMessage(JSON.stringify({
  width: root.clientWidth,
  needed: root.scrollWidth,
  outside: [...document.querySelectorAll("body *")]
    .filter((one) => !one.closest(".scroll, .skip"))
    .filter((one) => one.getBoundingClientRect().right > root.clientWidth + 1)
    .map((one) => one.tagName + ": " + one.textContent.slice(0, 60)),
  background: getComputedStyle(document.body).backgroundColor,
  texts: texts.length,
  faint: texts.filter((one) => contrast(one) < %s)
    .map((one) => one.tagName + "." + one.className + ": " + contrast(one).toFixed(2)),
  columns: getComputedStyle(document.querySelector(".chain")).gridTemplateColumns.split(" ").length,
  unfocused: links.filter((one) => !focused(one)).map((one) => one.outerHTML.slice(0, 80)),
}), "*");
"""
FRAME = """<!DOCTYPE html><html><body style="margin: 0">
<script>onmessage = (said) => { document.documentElement.dataset.measured = said.data; };</script>
<iframe src="page.html" style="width: %spx; height: 2000px; border: 0"></iframe>
"""
"""Chromium's own window is never narrower than 500 pixels; a frame in it is."""


def chromium(file: Path, *arguments: str, scheme: int = LIGHT) -> subprocess.CompletedProcess[str]:
    """Open a file in a browser that reaches no network."""
    assert CHROMIUM
    command = [
        CHROMIUM,
        "--headless",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-dev-shm-usage",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--enable-logging=stderr",
        f"--user-data-dir={file.parent / 'profile'}",
        "--window-size=1400,2000",
        "--hide-scrollbars",
        f"--blink-settings=preferredColorScheme={scheme}",
        # The browser's own sandbox cannot be had by root.
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
        *arguments,
        file.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    assert done.returncode == 0, done.stderr
    return done


def console(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the page said in the browser's console."""
    return [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


def write(folder: Path, html: str) -> Path:
    file = folder / "page.html"
    file.write_text(html, encoding="utf-8")
    return file


def measured(folder: Path, html: str, width: int, scheme: int = LIGHT) -> dict[str, Any]:
    """What the browser computed for a page."""
    script = MEASURE % READABLE
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Quotes are escaped in an attribute.
    none = "default-src &#39;none&#39;;"
    assert none in html
    allowed = html.replace(none, f"{none} script-src &#39;sha256-{digest}&#39;;")
    write(folder, allowed.replace("</body>", f"<script>{script}</script></body>"))
    file = folder / "frame.html"
    file.write_text(FRAME % width)
    done = chromium(file, "--dump-dom", "--virtual-time-budget=5000", scheme=scheme)
    assert console(done) == []
    text = re.search(r'data-measured="([^"]*)"', done.stdout)
    assert text, done.stdout

    return dict(json.loads(unescape(text[1])))


def full_page() -> str:
    """A page with every standing, long names and results of checks."""
    long = "a-name-that-does-not-end-" * 8
    found = report(
        finding("iommu", "host", "host pve"),
        finding("mapping", "host", "mapping k8s-worker-1-gpu0", "failed", cause=long, fix=long),
        finding("vm-id", "vm", "k8s-worker-2: VM 122", "warning", cause=long),
        finding("compute-class", "runtime-class", "k8s-worker-1", "could-not-tell", cause=long),
        finding("space", "host", f"room in {long} on pve", "ignored", cause=long),
    )
    return pages.page("full", found, look=seen())


PAGES = {
    "healthy": lambda: pages.page("healthy", look=seen()),
    "full": full_page,
    "hostile": pages.hostile_page,
}


@pytest.fixture(params=PAGES)
def html(request: pytest.FixtureRequest) -> str:
    return PAGES[request.param]()


def test_it_opens_offline_and_says_nothing_in_the_console(tmp_path: Path, html: str) -> None:
    done = chromium(write(tmp_path, html), "--dump-dom")
    assert console(done) == []
    assert len(parse(done.stdout).all("table")) == 2


def test_the_console_is_heard(tmp_path: Path) -> None:
    """Without this, no console line would prove nothing."""
    shut = pages.page().replace("</body>", "<script>document.title = 'taken'</script></body>")
    done = chromium(write(tmp_path, shut), "--dump-dom")
    assert any("Content Security Policy" in line for line in console(done))
    assert parse(done.stdout).all("title")[0].text == "GPUs of stack test"


@pytest.mark.parametrize("width", [PHONE, 768, DESK])
def test_it_fits_its_window(tmp_path: Path, html: str, width: int) -> None:
    found = measured(tmp_path, html, width)
    assert found["width"] == width
    assert found["needed"] <= width
    assert found["outside"] == []
    assert found["columns"] == (7 if width == DESK else 1)


@pytest.mark.parametrize(
    ("scheme", "background"), [(LIGHT, "rgb(255, 255, 255)"), (DARK, "rgb(20, 23, 27)")]
)
def test_text_is_readable_and_focus_is_seen(
    tmp_path: Path, html: str, scheme: int, background: str
) -> None:
    found = measured(tmp_path, html, DESK, scheme)
    assert found["background"] == background
    assert found["texts"] > 100
    assert found["faint"] == []
    assert found["unfocused"] == []


def test_faint_text_would_be_found(tmp_path: Path) -> None:
    faint = pages.page().replace("--soft: #4d5661", "--soft: #a9b0b8")
    assert faint != pages.page()
    old, new = (
        base64.b64encode(
            hashlib.sha256(parse(one).all("style")[0].pieces[0].encode()).digest()
        ).decode()
        for one in (pages.page(), faint)
    )
    assert old in faint
    faint = faint.replace(old, new)
    assert measured(tmp_path, faint, DESK)["faint"]


def test_dark_and_light_differ(tmp_path: Path) -> None:
    file = write(tmp_path, full_page())
    found: list[bytes] = []
    for scheme in (LIGHT, DARK, LIGHT):
        image = tmp_path / f"{len(found)}.png"
        chromium(file, f"--screenshot={image}", scheme=scheme)
        found.append(image.read_bytes())
    light, dark, again = found
    assert light == again
    assert light != dark


def test_it_prints(tmp_path: Path, html: str) -> None:
    paper = tmp_path / "page.pdf"
    done = chromium(write(tmp_path, html), f"--print-to-pdf={paper}")
    assert console(done) == []
    assert paper.read_bytes().startswith(b"%PDF-")
    assert paper.stat().st_size > 10_000


def test_hostile_texts_run_nothing_even_without_the_policy(tmp_path: Path) -> None:
    html = pages.hostile_page()
    bare = html.replace('http-equiv="Content-Security-Policy"', 'name="no-policy"')
    assert bare != html
    done = chromium(write(tmp_path, bare), "--dump-dom", "--virtual-time-budget=1000")
    root = parse(done.stdout)
    assert root.all("title")[0].text.startswith("GPUs of stack <script>")
    assert root.all("script") == root.all("img") == root.all("svg") == root.all("base") == []
    assert console(done) == []


def test_a_text_that_ran_would_be_seen(tmp_path: Path) -> None:
    """The counterpart of the test above: in a page that escapes nothing, the same text runs."""
    done = chromium(
        write(tmp_path, f"<title>untouched</title>{pages.HOSTILE[0]}"),
        "--dump-dom",
        "--virtual-time-budget=1000",
    )
    assert parse(done.stdout).all("title")[0].text == "taken"
