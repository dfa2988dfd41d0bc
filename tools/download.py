"""Downloads a vendor's release and checks it against the checksum that the vendor publishes.

The checksum is recorded in downloads.lock.json: a release that changes afterwards is refused.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path

from tools.cache import sha256
from tools.sources import HERE, Source, ToolError

LOCK = HERE / "downloads.lock.json"
CONNECT_TIMEOUT = 10.0
"""Seconds without an answer after which a server counts as out of reach."""


_out_of_reach: dict[str, str] = {}
"""Servers that did not answer in this run, and why."""


class NotOfferedError(Exception):
    """The vendor's release cannot be had from here: out of reach, or no file for this machine."""


@contextmanager
def _request(url: str) -> Iterator[HTTPResponse]:
    """An answer to read from; a server that was out of reach once is not asked again."""
    host = urllib.parse.urlsplit(url).netloc
    if host in _out_of_reach:
        raise NotOfferedError(_out_of_reach[host])
    try:
        with urllib.request.urlopen(url, timeout=CONNECT_TIMEOUT) as answer:  # noqa: S310
            yield answer
    except urllib.error.HTTPError as error:
        raise NotOfferedError(f"{url}: {error.code} {error.reason}") from error
    except (urllib.error.URLError, OSError, TimeoutError) as error:
        reason = getattr(error, "reason", error)
        _out_of_reach[host] = f"{host}: {getattr(reason, 'strerror', None) or reason}"
        raise NotOfferedError(_out_of_reach[host]) from error


def _read(url: str) -> bytes:
    with _request(url) as answer:
        return bytes(answer.read())


def _save(url: str, target: Path) -> None:
    with _request(url) as answer, target.open("wb") as file:
        shutil.copyfileobj(answer, file)


def _github_asset(source: Source) -> tuple[str, str]:
    """URL and published SHA-256 of a release's asset."""
    download = source.download
    tag, asset = source.text(download.tag), source.text(download.asset)
    release = json.loads(
        _read(f"https://api.github.com/repos/{download.repository}/releases/tags/{tag}")
    )
    for entry in release.get("assets", []):
        if entry["name"] == asset and str(entry.get("digest")).startswith("sha256:"):
            return entry["browser_download_url"], entry["digest"].removeprefix("sha256:")
    raise NotOfferedError(f"{download.repository} {tag} has no {asset} with a checksum")


def _assets(source: Source) -> list[tuple[str, str, str]]:
    """What to fetch: file name, URL and published SHA-256."""
    if source.download.repository:
        url, published = _github_asset(source)
        return [(url.rsplit("/", 1)[1], url, published)]
    found = []
    for program in source.programs:
        url = source.text(source.download.url, program)
        checksum = source.download.checksum.format(url=url)
        found.append((program, url, _read(checksum).decode().split()[0]))
    return found


def check(url: str, path: Path, published: str) -> None:
    """Compare a download with the published checksum and the recorded one; record a new one."""
    lock = json.loads(LOCK.read_text()) if LOCK.exists() else {}
    found = sha256(path)
    for expected, whose in ((published, "the vendor publishes"), (lock.get(url), "was recorded")):
        if expected and expected != found:
            raise ToolError(
                f"{url} was refused: its SHA-256 is {found}, but {whose} {expected}.\n"
                f"Either the transfer was tampered with or the release was replaced. Try again "
                f"from another network; if the vendor explains the change, remove the line "
                f"from {LOCK.name}."
            )
    if url not in lock:
        lock[url] = found
        LOCK.write_text(json.dumps(dict(sorted(lock.items())), indent=1) + "\n")


def _unpack(archive: Path, programs: tuple[str, ...], target: Path) -> None:
    """Take the programs out of an archive, wherever in it they lie."""
    with tarfile.open(archive) as tar:
        for member in tar:
            name = Path(member.name).name
            content = tar.extractfile(member) if name in programs and member.isfile() else None
            if content is not None:
                with (target / name).open("wb") as file:
                    shutil.copyfileobj(content, file)


def fetch(source: Source, target: Path) -> str:
    """Put the programs of a source into `target`; returns where they came from.

    Raises NotOfferedError where the vendor cannot be reached or has nothing for this machine,
    ToolError where what came is not what was published.
    """
    if os.environ.get("GPU_PASSTHROUGH_NO_DOWNLOAD"):
        raise NotOfferedError("GPU_PASSTHROUGH_NO_DOWNLOAD is set")
    assets = _assets(source)
    with tempfile.TemporaryDirectory(dir=target) as work:
        for name, url, published in assets:
            path = Path(work) / name
            _save(url, path)
            check(url, path, published)
            if name.endswith(".tar.gz"):
                _unpack(path, source.programs, target)
            else:
                only = name if name in source.programs else source.programs[0]
                path.rename(target / only)
    missing = [name for name in source.programs if not (target / name).is_file()]
    if missing:
        raise NotOfferedError(f"{assets[0][1]} holds no {', '.join(missing)}")
    return assets[0][1]
