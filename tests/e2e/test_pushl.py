"""The end of a whole run on a forge: the real command line pushes, opens one pull request, and keeps its token to itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchconverge.core import events as e
from tests.e2e.lab import COMMAND, Lab, meets, met, mind
from tests.tools import forges
from tests.tools.forge_stub import Stub, served
from tests.tools.forges import TOKENS

pytestmark = pytest.mark.tmux

TOKEN = TOKENS["ann"]
BRANCH = "orchconverge/fix-the-goal"


@pytest.fixture
def stub() -> Iterator[Stub]:
    with served(Stub()) as stub:
        yield stub


def on_forge(lab: Lab, api: str) -> None:
    lab.env |= {"ORCHCONVERGE_FORGE": f"{api}/repos/ann/shop", "GH_TOKEN": TOKEN}


def pushed(lab: Lab) -> e.StepEnded:
    return [fact for fact in lab.facts(e.StepEnded) if fact.step == "pushl"][-1]


def everything(lab: Lab) -> Iterator[tuple[Path, bytes]]:
    """All that was written anywhere: by us, by the mind, by git."""
    for folder, _, names in os.walk(lab.root):
        for path in (Path(folder) / name for name in names):
            if path.is_file() and not path.is_symlink():
                yield path, path.read_bytes()


def test_a_run_ends_with_a_pull_request_and_the_token_is_nowhere(lab: Lab, stub: Stub) -> None:
    on_forge(lab, stub.url)
    hook = lab.remote / "hooks" / "pre-receive"
    hook.write_text(f"#!/bin/sh\ncat /proc/[0-9]*/cmdline > {lab.root}/argv 2>/dev/null\nexit 0\n")
    hook.chmod(0o755)
    telling = lab.program(
        "import os, subprocess\n"
        "print(dict(os.environ))\n"
        "open('a.txt', 'w').write('yes\\n' + repr(dict(os.environ)))\n"
        "subprocess.run(['git', 'add', '-A'], check=True)\n"
        "subprocess.run(['git', 'commit', '-qm', 'a: ' + repr(dict(os.environ))], check=True)\n"
    )
    words = ("--engine", "command", "--argv", telling, "--interval", "0", "--final", "push")
    lab.run("fix the goal", *words, *met("a"), code=0)
    lab.wait()
    step = pushed(lab)
    assert step.status == "done", step
    [pull] = stub.pulls
    assert (step.url, pull["head"]["ref"]) == (pull["html_url"], BRANCH)
    assert lab.git("rev-parse", BRANCH, cwd=lab.remote) == lab.git("rev-parse", BRANCH)
    assert "| a | yes |" in pull["body"]
    assert b"git-receive-pack" in (lab.root / "argv").read_bytes()
    for path, data in everything(lab):
        assert TOKEN.encode() not in data, path
    assert TOKEN not in repr(stub.seen)


@pytest.mark.slow
def test_alone_it_does_the_same_once_more_and_shows_it(lab: Lab, stub: Stub) -> None:
    lab.play("fix the goal", lab.script(mind(*meets("a"))), *met("a"), "--final", "none")
    lab.wait()
    on_forge(lab, stub.url)
    assert "would be pushed to origin, a pull request opened" in lab.run("pushl", "--dry-run", code=0).stdout
    assert stub.pulls == []
    for _ in range(2):
        told = lab.run("pushl", "--auto-label", "--update-description", "--json", code=0)
        assert json.loads(told.stdout)["url"] == stub.pulls[0]["html_url"]
    assert len(stub.pulls) == 1
    stub.general.append(stub.new("bob", body="what of \x1b[31mthis\x1b[0m?"))
    shown = lab.run("pushl", "--show", code=0).stdout
    assert "-- bob, general" in shown
    assert "\x1b" not in shown
    assert lab.run("pushl", "--labels-only", code=0).stdout.startswith(
        "pushl: done. pull request 1: labels type: documentation"
    )
    assert "the description is up to date" in lab.run("pushl", "--detect-outdated", code=0).stdout
    bad = lab.run("pushl", env={"ORCHCONVERGE_FORGE": f"{stub.url}/repos/ann/nothing"}, code=1)
    assert "answered 404: Not Found" in bad.stdout
    assert lab.run("pushl", "--include", "*.py", code=2).stderr.splitlines()[1] == '  add --message "…"'
    assert lab.run("pushl", "fix-the-goal", "force", code=0).stdout == lab.run("pushl", code=0).stdout
    assert lab.run("pushl", "one", "two", code=2).stderr.startswith("orchconverge: one basin at a time")


def test_killed_while_the_forge_works_it_finds_what_was_done(lab: Lab, stub: Stub) -> None:
    lab.play("fix the goal", lab.script(mind(*meets("a"))), *met("a"), "--final", "none")
    lab.wait()
    on_forge(lab, stub.url)
    running = subprocess.Popen([*COMMAND, "pushl"], cwd=lab.repo, env=lab.env, start_new_session=True)
    stub.before_answering = lambda verb, path: (
        os.killpg(running.pid, signal.SIGKILL) if (verb, path) == ("POST", "/repos/ann/shop/pulls") else None
    )
    assert running.wait(60) == -signal.SIGKILL
    stub.before_answering = None
    assert len(stub.pulls) == 1
    assert lab.run("pushl", code=0).stdout.startswith("pushl: done")
    assert len(stub.pulls) == 1
    assert len(stub.pulls[0]["labels"]) == 3


@pytest.mark.forge
def test_on_a_real_server_there_is_one_pull_request_with_its_labels(lab: Lab) -> None:
    with forges.emulate(lab.tmp) as api:
        on_forge(lab, api)
        place = forges.Emulated(api)
        place.branch(BRANCH)
        lab.play("fix the goal", lab.script(mind(*meets("a"))), *met("a"), "--final", "push")
        lab.wait()
        assert pushed(lab).status == "done", pushed(lab)
        lab.run("pushl", code=0)
        [pull] = place.call("GET", "/repos/ann/shop/pulls?state=all")
        assert (pull["head"]["ref"], pull["base"]["ref"], pull["html_url"]) == (BRANCH, "main", pushed(lab).url)
        assert {each["name"] for each in pull["labels"]} >= {"type: documentation", "size: small", "priority: normal"}
        assert "### Reproduce" in pull["body"]


# --- without a destination -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_any_destination_the_branch_here_is_pushed_and_described_by_its_commits(lab: Lab, stub: Stub) -> None:
    on_forge(lab, stub.url)
    lab.git("switch", "-q", "-c", "fix/login")
    for name in ("a", "b"):
        (lab.repo / f"{name}.py").write_text("x = 1\n")
        lab.git("add", "-A")
        lab.git("commit", "-q", "-m", f"fix: {name} @octocat <!-- x")
    assert "would be pushed to origin, a pull request opened" in lab.run("pushl", "-n", code=0).stdout
    for _ in range(2):
        assert lab.run("pushl", code=0).stdout.startswith("pushl: done. fix/login at ")
    [pull] = stub.pulls
    assert (pull["title"], pull["head"]["ref"], pull["base"]["ref"]) == ("fix: b @octocat <!-- x", "fix/login", "main")
    assert lab.git("rev-parse", "fix/login", cwd=lab.remote) == lab.git("rev-parse", "HEAD")
    assert "Files changed: 2 (+2 -0)" in pull["body"]
    assert f"- {lab.git('rev-parse', 'HEAD~')[:10]} fix: a @&#8203;octocat &lt;!-- x" in pull["body"]
    assert "orchconverge checked nothing of it" in pull["body"]
    assert pull["draft"] is False
    assert {each["name"] for each in pull["labels"]} == {
        "type: bug",
        "size: small",
        "scope: backend",
        "priority: normal",
    }
    (lab.repo / "c.py").write_text("x = 1\n")
    lab.run("pushl", "--message", "and c", code=0)
    assert lab.git("log", "-1", "--format=%s", "fix/login", cwd=lab.remote) == "and c"
    assert "Files changed: 3" in stub.pulls[0]["body"]
    assert "fix/login into main" in lab.run("pushl", "--show", code=0).stdout
    assert lab.kinds() == ()


@pytest.mark.slow
def test_without_a_destination_what_cannot_be_pushed_is_refused_in_one_line(lab: Lab) -> None:
    assert lab.run("pushl", code=2).stderr.startswith(
        "orchconverge: main is the default branch, which is never pushed\n"
    )
    lab.git("switch", "-q", "--detach")
    assert "no branch with a commit is checked out here" in lab.run("pushl", code=2).stderr
    lab.git("switch", "-q", "-c", "topic")
    assert "topic has no commit that main does not have" in lab.run("pushl", code=2).stderr
    assert lab.git("branch", "--format=%(refname:short)", cwd=lab.remote) == "main"
    lab.git("commit", "-q", "--allow-empty", "-m", "one")
    told = lab.run("pushl", code=0).stdout
    assert "no forge is known for origin, the pull request record is pr/topic.json, with a bundle beside it" in told
    assert "topic into main" in lab.run("pushl", "--show", code=0).stdout
    lab.git("-c", "sequence.editor=sed -i s/^pick/edit/", "rebase", "-q", "-i", "--keep-empty", "main", "--no-ff")
    assert "a rebase is in progress here\n  end or abort it" in lab.run("pushl", code=2).stderr
    lab.git("rebase", "--abort")
