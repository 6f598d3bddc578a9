"""The scripted mind, as a program in a real repository."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchconverge.adapters.engines.scripted import PLAYER, Scripted
from orchconverge.core.values import Usage

Done = subprocess.CompletedProcess[str]
Play = Callable[..., Done]

IDENTITY = {
    "GIT_AUTHOR_NAME": "mind",
    "GIT_AUTHOR_EMAIL": "mind@example.org",
    "GIT_COMMITTER_NAME": "mind",
    "GIT_COMMITTER_EMAIL": "mind@example.org",
}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "GIT_CONFIG_NOSYSTEM": "1",
        "ORCHCONVERGE_REPORT": str(tmp_path / "report.json"),
        **IDENTITY,
    }


@pytest.fixture
def repo(tmp_path: Path, env: dict[str, str]) -> Path:
    path = tmp_path / "a repo"
    path.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=path, env=env, check=True)
    return path


def argv(script: Path, **told: object) -> list[str]:
    return [sys.executable, "-I", "-S", str(PLAYER), f"--script={script}", *(f"--{k}={v}" for k, v in told.items())]


@pytest.fixture
def play(tmp_path: Path, repo: Path, env: dict[str, str]) -> Play:
    def run(script: object, **told: object) -> Done:
        path = tmp_path / "script.json"
        path.write_text(script if isinstance(script, str) else json.dumps(script), encoding="utf-8")
        return subprocess.run(argv(path, **told), cwd=repo, env=env, capture_output=True, text=True, timeout=30)

    return run


def acts(*these: object) -> dict[str, Any]:
    return {"minds": [{"acts": list(these)}]}


def git(repo: Path, env: dict[str, str], *words: str) -> str:
    return subprocess.run(["git", *words], cwd=repo, env=env, check=True, capture_output=True, text=True).stdout


def test_it_writes_deletes_and_commits(play: Play, repo: Path, env: dict[str, str]) -> None:
    write = {"write": {"path": "src/deep/a.txt", "text": "é\r\n"}}
    done = play(
        acts(write, {"commit": "first"}, {"write": {"path": "b", "text": ""}}, {"delete": "b"}, {"commit": "none"})
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing to commit\n", "")
    assert (repo / "src/deep/a.txt").read_bytes() == "é\r\n".encode()
    assert git(repo, env, "log", "--format=%s %an").splitlines() == ["first mind"]
    assert play(acts({"delete": "src/deep/a.txt"}, {"commit": "-second"})).returncode == 0
    assert git(repo, env, "log", "--format=%s").splitlines() == ["-second", "first"]
    assert git(repo, env, "status", "--porcelain") == ""


def test_it_commits_in_a_linked_worktree(play: Play, repo: Path, env: dict[str, str], tmp_path: Path) -> None:
    assert play(acts({"write": {"path": "a", "text": "a"}}, {"commit": "base"})).returncode == 0
    git(repo, env, "worktree", "add", "-q", "-b", "m", str(tmp_path / "tree"))
    (tmp_path / "s.json").write_text(json.dumps(acts({"write": {"path": "b", "text": "b"}}, {"commit": "work"})))
    subprocess.run(argv(tmp_path / "s.json"), cwd=tmp_path / "tree", env=env, check=True)
    assert git(repo, env, "log", "--format=%s", "m").splitlines() == ["work", "base"]
    assert git(repo, env, "log", "--format=%s", "main").splitlines() == ["base"]


def test_what_it_says_and_reports_is_there(play: Play, tmp_path: Path) -> None:
    done = play(
        acts(
            {"say": "hello\n☃ \x1b[31m"},
            {"report": {"summary": "ok", "residue": []}},
            {"usage": {"inputTokens": 7, "usd": 0.5}},
            {"ratelimit": {"reset": 1796000000}},
            {"exit": 3},
            {"say": "never"},
        )
    )
    assert done.returncode == 3
    assert json.loads((tmp_path / "report.json").read_text()) == {"summary": "ok", "residue": []}
    found = Scripted({}).read(done.stdout.encode())
    assert found.usage == Usage(inputTokens=7, usd=0.5, source="reported")
    assert found.limit is not None
    assert found.limit.until is not None
    assert found.limit.until.timestamp() == 1796000000
    assert found.summary == "☃"


def test_a_report_can_be_any_text_and_a_reset_can_be_from_now(play: Play, tmp_path: Path) -> None:
    done = play(acts({"report": '{"half'}, {"ratelimit": {"reset": "+60"}}, {"ratelimit": {}}))
    assert done.returncode == 0
    assert (tmp_path / "report.json").read_text() == '{"half'
    first, last = map(json.loads, done.stdout.splitlines())
    assert 0 < first["reset"] - time.time() <= 60
    assert last["reset"] is None


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"branch": "b.1", "attempt": 1, "approach": "plain"}, "branch"),
        ({"branch": "b.2", "attempt": 1, "approach": "plain"}, "first"),
        ({"branch": "b.2", "attempt": 3, "approach": "plain"}, "later"),
        ({"branch": "b.2", "attempt": 2, "approach": "bold"}, "bold"),
        ({"branch": "b.2", "attempt": 2, "approach": "plain"}, "else"),
        ({}, "else"),
    ],
)
def test_the_first_mind_that_fits_is_played(play: Play, told: dict[str, object], said: str) -> None:
    matches: list[dict[str, object]] = [
        {"branch": "b.1"},
        {"attempt": 1, "approach": "plain"},
        {"attempt": [3, 4]},
        {"approach": "bold"},
        {},
    ]
    words = ["branch", "first", "later", "bold", "else"]
    script = {"minds": [{"match": m, "acts": [{"say": w}]} for m, w in zip(matches, words, strict=True)]}
    del script["minds"][-1]["match"]
    assert play(script, **told).stdout == f"{said}\n"


def test_a_judge_is_no_mind_and_a_mind_no_judge(play: Play) -> None:
    minds = [{"match": {"judge": name}, "acts": [{"say": name}]} for name in ("one", "two")]
    script = {"minds": [*minds, {"acts": [{"say": "mind"}]}]}
    assert play(script, judge="two", attempt=1).stdout == "two\n"
    assert play(script, branch="b.1", attempt=1).stdout == "mind\n"
    none = play(script, judge="three", attempt=1)
    assert (none.returncode, "no mind of" in none.stderr) == (64, True)


@pytest.mark.parametrize(
    "path",
    ["/tmp/x", "../x", "a/../../x", "a/../b", "", ".", "./", "link/x", "link", "folder/../x", "hop/x"],
)
@pytest.mark.parametrize("kind", ["write", "delete"])
def test_no_path_leads_outside(play: Play, repo: Path, tmp_path: Path, path: str, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("theirs")
    (repo / "folder").mkdir()
    (repo / "link").symlink_to(outside)
    (repo / "hop").symlink_to("link")
    if path == "link" and kind == "delete":
        pytest.skip("the link itself is inside")
    act = {"write": {"path": path, "text": "ours"}} if kind == "write" else {"delete": path}
    done = play(acts(act, {"say": "never"}))
    assert (done.returncode, done.stdout) == (65, "")
    assert len(done.stderr.splitlines()) == 1
    assert (outside / "x").read_text() == "theirs"
    assert sorted(p.name for p in outside.iterdir()) == ["x"]


def test_a_link_is_deleted_and_not_what_it_names(play: Play, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("theirs")
    (repo / "link").symlink_to(tmp_path / "outside")
    assert play(acts({"delete": "link"}, {"delete": "link"})).stdout == "nothing to delete at link\n"
    assert not (repo / "link").is_symlink()
    assert (tmp_path / "outside").read_text() == "theirs"


@pytest.mark.parametrize(
    "script",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"minds": 1}',
        '{"minds": []}',
        "[" * 100_000,
        {"minds": [3]},
        {"minds": [{"match": {}}]},
        {"minds": [{"match": [], "acts": []}]},
        {"minds": [{"match": {"basin": "x"}, "acts": []}]},
        {"minds": [{"acts": [], "act": []}]},
        {"minds": [{"match": {"attempt": 99}, "acts": []}]},
        acts({"shout": "x"}),
        acts({"say": "x", "exit": 1}),
        acts({}),
        acts("say"),
        acts({"say": 3}),
        acts({"say": "\ud800"}),
        acts({"write": {"path": "x"}}),
        acts({"write": {"path": "x", "text": 1}}),
        acts({"write": {"path": "a\0b", "text": ""}}),
        acts({"delete": "a\0b"}),
        acts({"commit": " "}),
        acts({"commit": "a\0b"}),
        acts({"exit": 256}),
        acts({"exit": True}),
        acts({"sleep": -1}),
        acts({"sleep": "1"}),
        acts({"hang": False}),
        acts({"report": 3}),
        acts({"usage": []}),
        acts({"ratelimit": {"reset": []}}),
        acts({"ratelimit": {"reset": "+soon"}}),
        acts({"ratelimit": {"at": 3}}),
    ],
)
def test_a_bad_script_is_one_line_and_nothing_is_done(play: Play, repo: Path, script: Any) -> None:
    done = play(script, attempt=1)
    assert (done.returncode, done.stdout) == (64, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("bad script: ")
    assert [path.name for path in repo.iterdir()] == [".git"]


def test_nothing_is_done_when_a_later_act_is_bad(play: Play, repo: Path) -> None:
    assert play(acts({"write": {"path": "done", "text": ""}}, {"exit": -1})).returncode == 64
    assert not (repo / "done").exists()


@pytest.mark.parametrize("words", [[], ["--script=/missing"], ["--script=/"], ["--scrip=x"], ["script"]])
def test_a_start_without_a_script_is_one_line(repo: Path, env: dict[str, str], words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(PLAYER), *words], cwd=repo, env=env, capture_output=True, text=True
    )
    assert done.returncode == 64
    assert len(done.stderr.splitlines()) == 1


def test_a_hook_that_says_no_ends_it(play: Play, repo: Path) -> None:
    hook = repo / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no >&2; exit 1\n")
    hook.chmod(0o755)
    done = play(acts({"write": {"path": "a", "text": ""}}, {"commit": "x"}, {"say": "never"}))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "no\nthe commit failed\n"


def test_what_the_system_refuses_is_one_line(play: Play, repo: Path, env: dict[str, str]) -> None:
    (repo / "folder").mkdir()
    for path in ("folder", "x" * 5000):
        done = play(acts({"write": {"path": path, "text": ""}}))
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    del env["ORCHCONVERGE_REPORT"]
    done = play(acts({"report": {}}))
    assert (done.returncode, done.stderr) == (1, "ORCHCONVERGE_REPORT is not set\n")


def test_a_hanging_mind_uses_no_time_and_ends_by_a_signal(repo: Path, env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps(acts({"say": "here"}, {"hang": True})))
    with subprocess.Popen(argv(tmp_path / "s.json"), cwd=repo, env=env, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], 10)[0]
        assert process.stdout.readline() == b"here\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM


def test_it_needs_nothing_but_the_standard_library_and_no_locale(
    repo: Path, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "s.json").write_text(json.dumps(acts({"say": "☃"}, {"write": {"path": "é", "text": "☃"}})))
    bare = {"PATH": env["PATH"], "LC_ALL": "C"}
    done = subprocess.run(argv(tmp_path / "s.json"), cwd=repo, env=bare, capture_output=True, check=True)
    assert done.stdout.decode() == "☃\n"
    assert (repo / "é").read_text(encoding="utf-8") == "☃"
