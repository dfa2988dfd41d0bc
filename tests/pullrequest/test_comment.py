"""Comments, against a server that speaks the little of GitHub's API that they need."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from pullrequest import comment
from pullrequest.github import Api, GitHubError
from pullrequest.model import Plan
from pullrequest.render import marker

SHA = "a" * 40
RUN = {
    "head_sha": SHA,
    "head_branch": "topic/1",
    "head_repository": {"owner": {"login": "somebody"}},
    "pull_requests": [],
}


class GitHub:
    """Pull requests and comments, and every request that came."""

    def __init__(self) -> None:
        self.pulls: list[dict[str, Any]] = [{"number": 7, "head": {"sha": SHA}}]
        self.comments: dict[int, dict[str, Any]] = {}
        self.asked: list[tuple[str, str]] = []
        self.refuse = False

    def say(self, body: str, kind: str = "Bot") -> int:
        number = len(self.comments) + 1
        self.comments[number] = {"id": number, "body": body, "user": {"type": kind}}
        return number

    def answer(self, method: str, path: str, body: Any) -> Any:
        parts = urlsplit(path)
        query = parse_qs(parts.query)
        self.asked.append((method, path))
        if parts.path == "/repos/o/r/pulls":
            return self.pulls if query["head"] == ["somebody:topic/1"] else []
        if parts.path == "/repos/o/r/issues/7/comments" and method == "GET":
            first = 100 * (int(query["page"][0]) - 1)
            return list(self.comments.values())[first : first + 100]
        if parts.path == "/repos/o/r/issues/7/comments":
            return {"id": self.say(body["body"])}
        number = int(parts.path.removeprefix("/repos/o/r/issues/comments/"))
        assert method == "PATCH"
        self.comments[number]["body"] = body["body"]
        return self.comments[number]


@pytest.fixture
def github() -> GitHub:
    return GitHub()


@pytest.fixture
def api(github: GitHub) -> Iterator[Api]:
    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            assert self.headers["Authorization"] == "Bearer token"
            answer = github.answer(self.command, self.path, body)
            self.send_response(403 if github.refuse else 200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def __getattr__(self, name: str) -> Any:
            if name in ("do_GET", "do_POST", "do_PATCH"):
                return self.handle_any
            raise AttributeError(name)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Api(f"http://127.0.0.1:{server.server_port}", "o/r", "token")
    server.shutdown()
    server.server_close()
    thread.join()


def write(folder: Path, stack: str = "dev", **fields: Any) -> None:
    plan = Plan(stack=stack, outcome="planned", **fields)
    (folder / f"plan-{stack}.json").write_text(plan.model_dump_json())


def bodies(github: GitHub) -> list[str]:
    return [one["body"] for one in github.comments.values()]


def test_the_first_run_writes_a_comment_for_each_stack(
    api: Api, github: GitHub, tmp_path: Path
) -> None:
    write(tmp_path, "dev")
    (tmp_path / "plan-homelab").mkdir()
    write(tmp_path / "plan-homelab", "homelab")
    assert comment.post(api, RUN, tmp_path) == 0
    assert [one.splitlines()[0] for one in bodies(github)] == [marker("dev"), marker("homelab")]


def test_the_next_run_writes_it_anew_in_the_same_place(
    api: Api, github: GitHub, tmp_path: Path
) -> None:
    write(tmp_path, unchanged=1)
    comment.post(api, RUN, tmp_path)
    write(tmp_path, unchanged=2)
    comment.post(api, RUN, tmp_path)
    assert len(github.comments) == 1
    assert "2 unchanged" in bodies(github)[0]


def test_a_persons_comment_with_the_same_first_line_is_left_alone(
    api: Api, github: GitHub, tmp_path: Path
) -> None:
    github.say(f"{marker('dev')}\nmine", kind="User")
    github.say("some other bot's")
    write(tmp_path)
    comment.post(api, RUN, tmp_path)
    assert bodies(github)[:2] == [f"{marker('dev')}\nmine", "some other bot's"]
    assert len(github.comments) == 3


def test_a_comment_is_found_behind_a_hundred_others(
    api: Api, github: GitHub, tmp_path: Path
) -> None:
    for _ in range(100):
        github.say("other")
    github.say(f"{marker('dev')}\nold")
    write(tmp_path)
    comment.post(api, RUN, tmp_path)
    assert len(github.comments) == 101
    assert "old" not in github.comments[101]["body"]


def test_a_stack_without_a_plan_is_said_to_be_out_of_date(
    api: Api, github: GitHub, tmp_path: Path
) -> None:
    github.say(f"{marker('homelab')}\n3 replaced")
    comment.post(api, RUN, tmp_path)
    (body,) = bodies(github)
    assert body.startswith(marker("homelab"))
    assert "out of date" in body
    assert "3 replaced" not in body


@pytest.mark.parametrize("sha", ["b" * 40, None])
def test_a_pull_request_that_moved_on_is_not_touched(
    api: Api, github: GitHub, tmp_path: Path, sha: str | None
) -> None:
    github.pulls = [{"number": 7, "head": {"sha": sha}}] if sha else []
    write(tmp_path)
    assert comment.post(api, RUN, tmp_path) == 0
    assert github.comments == {}
    assert {method for method, _ in github.asked} == {"GET"}


@pytest.mark.parametrize(
    "content",
    [
        b"no json",
        b"[]",
        b'{"stack": "dev", "outcome": "planned", "more": 1}',
        b'{"stack": "a b", "outcome": "planned"}',
        b'{"stack": "dev --> <img>", "outcome": "planned"}',
        b'{"stack": "dev", "outcome": "planned", "unseen": ["' + b"x" * 3000 + b'"]}',
        b" " * (comment.LARGEST + 1),
    ],
)
def test_what_is_no_plan_is_left_out(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plan-dev.json").write_bytes(content)
    assert comment.plans(tmp_path) == []
    assert "is no plan" in capsys.readouterr().err


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "dev")
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "plan-dev.json").symlink_to(tmp_path / "plan-dev.json")
    assert comment.plans(inside) == []


def test_a_plan_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write(tmp_path, unseen=["a"], unchanged=3)
    assert comment.plans(tmp_path) == [
        Plan(stack="dev", outcome="planned", unseen=("a",), unchanged=3)
    ]


def test_githubs_refusal_is_said_in_its_words(api: Api, github: GitHub, tmp_path: Path) -> None:
    github.refuse = True
    with pytest.raises(GitHubError, match="403"):
        comment.post(api, RUN, tmp_path)
