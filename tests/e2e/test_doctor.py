"""`doctor`, `engines`, `sessions` and `trace` as they are typed: on a sound machine, with each fault, and after a run."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchconverge.core.events import AttemptEnded
from tests.e2e.lab import Lab, meets, met, mind

pytestmark = pytest.mark.tmux

WATCHER = """
import os, sys
def heard(event, args):
    if event == "socket.connect" and not isinstance(args[1], (str, bytes)):
        said = "network " + repr(args[1])
    elif event == "subprocess.Popen":
        said = "program " + " ".join(os.fsdecode(word) for word in args[1])
    elif event == "open" and str(args[0]).endswith("credentials.json"):
        said = "opened " + str(args[0])
    else:
        return
    with open(os.environ["HEARD"], "a") as file:
        file.write(said + chr(10))
sys.addaudithook(heard)
"""
SECONDS = 2.0
ANY_PROGRAM = {"ORCHCONVERGE_ENGINE": "command"}
"""With it no agent has to be there."""
NEEDED = ("git", "env", "sh", "sleep", "true", "cat", "chmod")


def tools(lab: Lab, *, without: tuple[str, ...] = (), **programs: str) -> Path:
    """A folder to be the whole PATH: what is needed of this machine, and made-up programs."""
    folder = lab.root / "bin"
    folder.mkdir()
    for name in (*NEEDED, "tmux"):
        if name not in without and (found := shutil.which(name)):
            (folder / name).symlink_to(found)
    for name, text in programs.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return folder


def found(lab: Lab, *, code: int, cwd: Path | None = None, env: dict[str, str]) -> dict[str, dict[str, Any]]:
    """What the doctor finds, by part."""
    ran = lab.run("doctor", "--json", code=code, cwd=cwd, env=env)
    told = json.loads(ran.stdout)
    assert told["ok"] is (code == 0)
    assert all(one["todo"] for one in told["findings"] if one["state"] != "ok"), "each says what to type"
    return {one["part"]: one for one in told["findings"]}


def states(findings: dict[str, dict[str, Any]], state: str) -> set[str]:
    return {part for part, one in findings.items() if one["state"] == state}


def test_a_sound_machine_has_no_fault_and_says_so_in_a_line_a_part(lab: Lab) -> None:
    path = tools(lab, claude="echo 2.1.197", gh="exit 1", bwrap="exit 0")
    lab.git("remote", "set-url", "origin", "https://ann:hidden@github.com/a/b.git")
    env = {"PATH": str(path), "ANTHROPIC_API_KEY": "hidden", "GH_TOKEN": "hidden"}
    findings = found(lab, code=0, env=env)
    assert [*findings] == [
        *("tmux", "git", "repository", "identity", "worktrees", "submodules", "forge", "claude", "agents"),
        *("disk", "memory", "processes", "terminals", "locale", "sandbox", "state", "ledger"),
    ]
    assert states(findings, "ok") == set(findings)
    assert findings["claude"]["said"] == f"2.1.197, {path / 'claude'}, signed in by ANTHROPIC_API_KEY"
    assert findings["ledger"]["said"] == "none yet"
    said = lab.run("doctor", code=0, env=env).stdout
    assert "hidden" not in said + json.dumps(findings)
    lines = said.splitlines()
    assert len(lines) == len(findings) + 1
    assert lines[-1] == "0 faults, 0 warnings."
    assert not lab.state_dir.exists(), "looking makes nothing"


def test_it_takes_little_and_asks_no_network(lab: Lab) -> None:
    path = tools(lab, claude="echo 2.1.197", gh="echo asked >>$HOME/gh")
    watcher = lab.root / "watcher"
    watcher.mkdir()
    (watcher / "sitecustomize.py").write_text(WATCHER)
    (lab.home / ".claude").mkdir()
    (lab.home / ".claude/.credentials.json").write_text("hidden")
    lab.git("remote", "set-url", "origin", "https://github.com/a/b.git")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = {"PATH": str(path), "PYTHONPATH": str(watcher), "HEARD": str(lab.root / "heard")}
    findings = found(lab, code=0, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < SECONDS
    assert findings["claude"]["said"].endswith("signed in by .credentials.json")
    heard = (lab.root / "heard").read_text().splitlines()
    programs = [line for line in heard if line.startswith("program ")]
    assert programs
    assert not [line for line in heard if line not in programs]
    assert not [
        line for line in programs if any(word in line.split() for word in ("fetch", "ls-remote", "push", "pull"))
    ]
    assert not (lab.home / "gh").exists()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("tmux", "", "tmux is not installed"),
        ("tmux", "echo tmux 2.5", "2.5 is too old"),
        ("git", "echo git version 2.30.1", "2.30.1 is too old"),
    ],
)
def test_a_program_that_is_not_there_or_too_old_is_a_fault(lab: Lab, name: str, text: str, said: str) -> None:
    path = tools(lab, without=(name,), **({name: text} if text else {}))
    findings = found(lab, code=1, env={"PATH": str(path), **ANY_PROGRAM})
    assert states(findings, "fault") == {name}
    assert findings[name]["said"].startswith(said)


def test_no_git_at_all_is_a_fault(lab: Lab) -> None:
    findings = found(lab, code=1, env={"PATH": str(tools(lab, without=("git",))), **ANY_PROGRAM})
    assert "git" in states(findings, "fault")
    assert "repository" not in findings, "what cannot be asked is not told"


def test_a_socket_path_that_no_server_can_listen_at_is_a_fault(lab: Lab) -> None:
    folder = lab.root / ("d" * 100)
    folder.mkdir()
    findings = found(lab, code=1, env={"TMUX_TMPDIR": str(folder), **ANY_PROGRAM})
    assert states(findings, "fault") == {"tmux"}
    assert findings["tmux"]["todo"].startswith("set TMUX_TMPDIR to a short path")


def test_a_server_of_ours_that_answers_and_one_that_does_not(lab: Lab) -> None:
    subprocess.run(["tmux", "-L", "orchconverge", "new-session", "-d", "sleep", "60"], env=lab.env, check=True)
    server = lab.server()
    assert server is not None
    try:
        assert "our server answers at" in found(lab, code=0, env=ANY_PROGRAM)["tmux"]["said"]
        os.kill(server, signal.SIGSTOP)
        findings = found(lab, code=0, env=ANY_PROGRAM)
        assert "tmux" in states(findings, "warning")
        assert "gives no answer" in findings["tmux"]["said"]
    finally:
        os.kill(server, signal.SIGCONT)
        subprocess.run(["tmux", "-L", "orchconverge", "kill-server"], env=lab.env, check=True)


def no_identity(lab: Lab) -> None:
    (lab.home / ".gitconfig").write_text("")


def broken_settings(lab: Lab) -> None:
    (lab.repo / "orchconverge.toml").write_text("max_atempts = 3\n")


def damaged_ledger(lab: Lab) -> None:
    lab.state_dir.mkdir(mode=0o700)
    lab.ledger.write_text("no fact\n")
    lab.ledger.chmod(0o600)


def state_is_a_file(lab: Lab) -> None:
    lab.state_dir.write_text("")


def unknown_engine(lab: Lab) -> None:
    (lab.repo / "orchconverge.toml").write_text('engine = "command,cursor"\n')


def missing_engine(lab: Lab) -> None:
    (lab.repo / "orchconverge.toml").write_text('engine = "acp:claude:opus"\n')


@pytest.mark.parametrize(
    ("breaks", "parts", "todo"),
    [
        (no_identity, {"identity"}, "git config --global user.name"),
        (broken_settings, {"settings"}, "did you mean max_attempts?"),
        (damaged_ledger, {"ledger"}, "orchconverge ledger verify"),
        (state_is_a_file, {"state"}, "move it away"),
        (unknown_engine, {"cursor"}, "orchconverge engines"),
        (missing_engine, {"acp:claude"}, "npm install -g @agentclientprotocol/claude-agent-acp"),
    ],
)
def test_each_fault_of_a_repository_says_what_to_type(
    lab: Lab, breaks: Callable[[Lab], None], parts: set[str], todo: str
) -> None:
    breaks(lab)
    path = tools(lab, claude="echo 2.1.197")
    findings = found(lab, code=1, env={"PATH": str(path), "ANTHROPIC_API_KEY": "x"})
    assert parts <= states(findings, "fault")
    assert states(findings, "fault") - parts <= {"ledger"}, "a ledger in what is no folder cannot be read either"
    assert findings[next(iter(parts))]["todo"].startswith(todo)


def test_a_machine_without_any_agent_says_how_to_get_one(lab: Lab) -> None:
    findings = found(lab, code=1, env={"PATH": str(tools(lab))})
    assert states(findings, "fault") == {"agents"}
    assert findings["agents"]["todo"].startswith("npm install -g @anthropic-ai/claude-code")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_somebody_else_is_not_trusted(lab: Lab) -> None:
    for path in (lab.repo, lab.repo / ".git"):
        os.chown(path, 4711, 4711)
    try:
        findings = found(lab, code=1, env=ANY_PROGRAM)
    finally:
        for path in (lab.repo, lab.repo / ".git"):
            os.chown(path, 0, 0)
    assert states(findings, "fault") == {"repository"}
    assert "safe.directory" in findings["repository"]["todo"]


def test_a_worktree_that_lost_its_folder_and_an_empty_submodule_are_warnings(lab: Lab) -> None:
    lab.git("worktree", "add", "-q", "--detach", str(lab.root / "tree"))
    shutil.rmtree(lab.root / "tree")
    (lab.repo / ".gitmodules").write_text('[submodule "lib"]\n\tpath = lib\n\turl = ../lib.git\n')
    findings = found(lab, code=0, env=ANY_PROGRAM)
    assert {"worktrees", "submodules"} <= states(findings, "warning")
    assert findings["worktrees"] == {
        "part": "worktrees",
        "state": "warning",
        "said": "2, of which 1 lost their folder",
        "todo": "git worktree prune",
    }
    assert "1 of 1 are not filled here, so minds find them empty: lib" in findings["submodules"]["said"]
    lab.git("worktree", "prune")


def test_outside_of_a_repository_it_says_so_and_looks_at_the_machine(lab: Lab) -> None:
    findings = found(lab, code=0, cwd=lab.tmp, env=ANY_PROGRAM)
    assert findings["repository"]["state"] == "warning"
    assert findings["repository"]["todo"].startswith("git init")
    assert {"tmux", "git", "identity", "disk", "locale"} <= set(findings)
    assert not {"state", "ledger", "forge"} & set(findings)


def test_engines_says_what_is_found_and_what_each_can_do(lab: Lab) -> None:
    path = tools(lab, claude="echo 2.1.197", codex="echo codex-cli 0.171.0")
    told = json.loads(lab.run("engines", "--json", code=0, env={"PATH": str(path)}).stdout)["engines"]
    by_name = {one["engine"]: one for one in told}
    assert by_name["claude"] | {"hooks": None} == {
        "engine": "claude",
        "path": str(path / "claude"),
        "version": "2.1.197",
        "signed_in": [],
        "caps": ["dollars"],
        "resumes": True,
        "commits": True,
        "hooks": None,
        "cost": True,
    }
    assert (by_name["codex"]["version"], by_name["codex"]["commits"]) == ("0.171.0", False)
    assert (by_name["gemini"]["path"], by_name["acp:copilot"]["path"]) == (None, None)
    said = lab.run("engines", code=0, env={"PATH": str(path)}).stdout
    assert f"\ncodex         0.171.0, {path / 'codex'}\n" in said
    assert "\ngemini        not installed\n" in said


# --- after a run -----------------------------------------------------------------------------------------------------


def test_a_run_can_be_traced_and_its_session_is_listed(lab: Lab) -> None:
    usage = {"usage": {"inputTokens": 10, "outputTokens": 2, "usd": 0.5}}
    script = lab.script(mind(usage, *meets("a"), attempt=1), mind(*meets("b"), attempt=2))
    lab.play("both files", script, *met("a", "b"), "--final", "none")
    lab.wait()
    ended = lab.facts(AttemptEnded)
    first = json.loads(lab.run("trace", "1", "--json", code=0).stdout)
    assert (first["basin"], first["attempt"], first["result"]) == ("both-files", 1, ended[0].result)
    assert first["usage"]["usd"] == 0.5
    newest = lab.run("trace", "both-files", "--json", code=0).stdout
    assert json.loads(newest)["attempt"] == len(ended)
    assert json.loads(lab.run("trace", "both-files.1", "--json", code=0).stdout) == first
    kinds = [entry["type"] for entry in first["entries"]]
    assert (kinds[0], kinds[-1]) == ("attempt.started", "attempt.ended")
    assert {"branch.spawned", "branch.searching", "branch.ended"} <= set(kinds)
    assert all(entry["at"] and entry["active"] is not None for entry in first["entries"])
    said = lab.run("trace", code=0).stdout
    assert said.startswith(f"Attempt {len(ended)} of both-files: {ended[-1].result}, SUCCESS\n")
    for text in (said, newest, json.dumps(first)):
        assert str(lab.root) not in text

    assert lab.run("trace", "both-files", "--attempt", "9", code=2).stderr.startswith(
        "orchconverge: both-files has had no attempt 9"
    )
    assert "no destination is called elsewhere" in lab.run("trace", "elsewhere", code=2).stderr

    [session] = json.loads(lab.run("sessions", "--json", code=0).stdout)["sessions"]
    assert (session["basin"], session["open"], session["reason"]) == ("both-files", False, "met")
    assert session["attempts"] == len(ended)
    assert lab.run("sessions", "both-files", code=0).stdout.startswith(f"both-files  closed: met  {len(ended)} attempt")


def test_before_a_run_there_is_nothing_to_trace(lab: Lab) -> None:
    assert lab.run("trace", code=2).stderr == "orchconverge: no attempt was made yet\n  orchconverge status\n"
    assert lab.run("sessions", code=0).stdout == "No session yet. A run opens one.\n"
