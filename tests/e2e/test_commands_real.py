"""The real agent CLIs, each with a scripted model on loopback: our commands in their own shells start what was asked for."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from orchconverge.adapters.command_files import NAMES, PROJECT
from orchconverge.core import events as e
from tests.e2e.lab import COMMAND, Lab, meets, met, mind
from tests.tools.agents import Agent, installed
from tests.tools.forge_stub import Stub, served
from tests.tools.forges import TOKENS
from tests.tools.scripted_model import Act, Model, Say, conversation, model, run, write

pytestmark = [pytest.mark.engines, pytest.mark.tmux, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
GOAL = """fix "the" 'failing' tests: $(touch pwned) `touch pwned` $HOME $& $1 $$ \\n %s {{args}} ; touch pwned now! !that — done"""
"""All of it has a meaning to a shell, to JavaScript's `replace`, or to a template. What opencode runs itself, an exclamation mark
right before a backtick, is not in it."""
BAD = "def total(items):\n    return eval(items)\n"
Plays = Callable[[str, str], Sequence[Act]]
"""What the model does, by the request as it was found, and a file that its tool may write to."""


@dataclass
class Shell:
    """An agent's own shell in the lab's repository, and a model behind it that does what our text says."""

    lab: Lab
    agent: Agent
    command: str
    plays: Plays
    requests: list[str] = field(default_factory=list)
    server: Model | None = None

    def type(self, request: str) -> str:
        """Type the command with its request, with the grants that a person would give. What the agent printed."""
        with model([("", lambda _: self.acts())]) as self.server:
            self.agent.settle(self.lab, self.server.url)
            ran = subprocess.run(
                self.argv(request),
                cwd=self.lab.repo,
                env=self.lab.env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=150,
            )
        assert ran.returncode == 0, ran
        assert set(self.requests) == {request}, ran
        return ran.stdout

    def argv(self, request: str) -> list[str]:
        """Codex calls its skills with a dollar sign; what opencode gets as one word it puts into quotes."""
        slash, grants = f"/{self.command} {request}", ["--allowedTools", "Write", "Bash(orchconverge:*)"]
        return {
            "claude": ["claude", "-p", slash, "--output-format", "stream-json", "--verbose", *grants],
            "codex": ["codex", "exec", "--dangerously-bypass-approvals-and-sandbox", f"${slash[1:]}"],
            "gemini": ["gemini", "--skip-trust", "-m", self.agent.model, "--approval-mode", "yolo", "-p", slash],
            "opencode": ["opencode", "run", "--auto", "--command", self.command, "--", *request.split(" ")],
        }[self.agent.name]

    def acts(self) -> Sequence[Act]:
        """The acts, by the conversation as it came over the wire, which has to hold our text."""
        assert self.server is not None
        said = "\n\0".join(conversation(self.server.newest)[0])
        self.requests.append(self.found(said))
        folder = re.search(r"temporary directory is: (\S+)", said) if self.agent.name == "gemini" else None
        return self.plays(self.requests[-1], f"{folder[1] if folder else self.lab.tmp}/goal.txt")

    def found(self, said: str) -> str:
        """The request, where the text that was installed for this agent says that it is."""
        text = self.installed()
        if self.agent.name == "claude":
            before, after = text.split("$ARGUMENTS")
            assert "where `<command-args>` stands too, what is in that counts" in before
            assert before in said
            assert after in said
            return said.partition("<command-args>")[2].partition("</command-args>")[0]
        assert text in said
        if self.agent.name == "codex":
            assert f"what the user wrote behind the name of this skill (`${self.command}`" in text
            typed = next(each for each in said.split("\n\0") if each.startswith(f"${self.command} "))
            return typed.removeprefix(f"${self.command} ")
        assert f"at the very end of this text: all that stands behind `/{self.command}` there" in text
        return said.rpartition(text)[2].strip().removeprefix(f"/{self.command} ")

    def installed(self) -> str:
        """The text of the command, as it was installed for this agent, without what is only for the agent."""
        folder = self.lab.repo / PROJECT[self.agent.name]
        command = folder / "commands" / f"{self.command}{'.toml' if self.agent.name == 'gemini' else '.md'}"
        file = command if command.exists() else folder / "skills" / self.command / "SKILL.md"
        start, end = ("prompt = '''\n", "'''\n") if self.agent.name == "gemini" else ("\n---\n", "")
        return file.read_text().partition(start)[2].removesuffix(end).strip()


def ready(lab: Lab, name: str) -> Agent:
    """An agent with our commands, committed, and with `orchconverge` on its PATH and on that of a login shell."""
    agent, programs = installed(name), lab.root / "programs"
    programs.mkdir()
    logs = f"printf '%s\\0' \"$@\" >>{lab.root}/called; echo >>{lab.root}/called"
    (programs / "orchconverge").write_text(f'#!/bin/sh\n{logs}\nexec {shlex.join(COMMAND)} "$@"\n')
    (programs / "orchconverge").chmod(0o755)
    lab.env["PATH"] = f"{agent.programs}:{programs}:{lab.env['PATH']}"
    (lab.home / ".profile").write_text(f"PATH={shlex.quote(lab.env['PATH'])}\n")
    lab.git("switch", "-q", "-c", "topic")
    lab.run("commands", "install", "--project", code=0)
    lab.run("commands", "check", "--agent", name, code=0)
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "commands")
    return agent


def scripted(lab: Lab) -> tuple[str, ...]:
    """The flags of a run that meets its criterion."""
    script = lab.script(mind(*meets("a")))
    return ("--engine", "scripted", "--script", str(script))


def typed(*words: str) -> Act:
    """The model calls our command line."""
    return run(shlex.join(["orchconverge", *words]))


def one_goal(lab: Lab) -> e.BasinDeclared:
    """The only goal of the ledger. Nothing that its text could have run was run."""
    [declared] = lab.facts(e.BasinDeclared)
    assert not [place for place in (lab.repo, lab.home, lab.tmp, lab.root) if (place / "pwned").exists()]
    return declared


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode"])
def test_a_goal_of_any_text_is_started_from_the_agent_s_shell(lab: Lab, name: str) -> None:
    agent = ready(lab, name)
    flags = (*scripted(lab), "--interval", "0", "--final", "none", *met("a"))

    def plays(request: str, file: str) -> Sequence[Act]:
        goal, _, limit = request.rpartition(" --max-attempts")
        start = typed("--goal-file", file, "--max-attempts", limit[1:], *flags)
        return (write(file, goal), start, typed("status", "--json"), Say("started"))

    # `opencode run` cannot take a number as a word of its own.
    limit = "--max-attempts=3" if name == "opencode" else "--max-attempts 3"
    said = Shell(lab, agent, "orchconverge", plays).type(f"{GOAL} {limit}")
    assert lab.ledger.exists(), said
    lab.wait()
    assert one_goal(lab).goal == GOAL
    [started] = lab.facts(e.RunStarted)
    assert started.limits.attempts == 3
    assert lab.facts(e.RunStopped)[-1].reason == "converged"


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("claude", ["plugin validate {}", "plugin marketplace add {}", "plugin install orchconverge@orchconverge"]),
        ("codex", ["plugin marketplace add {}", "plugin add orchconverge@orchconverge"]),
        ("gemini", ["extensions validate {}", "extensions link --consent {}"]),
    ],
)
def test_the_repository_itself_is_a_plugin(lab: Lab, name: str, steps: list[str]) -> None:
    agent, plugin = installed(name), lab.root / "plugin"
    for part in ("commands", ".claude-plugin", ".codex-plugin"):
        shutil.copytree(ROOT / part, plugin / part)
    shutil.copy(ROOT / "gemini-extension.json", plugin)
    command = "converge" if name == "gemini" else "orchconverge:converge"
    shell = Shell(lab, agent, command, lambda request, file: (Say("done"),))
    with model([("", lambda _: (Say("done"),))]) as server:
        agent.settle(lab, server.url)
        for words in (*(step.format(plugin).split() for step in steps), shell.argv(GOAL)[1:]):
            ran = subprocess.run(
                [name, *words], cwd=lab.repo, env=lab.env, stdin=subprocess.DEVNULL, capture_output=True
            )
            assert ran.returncode == 0, ran
        sent = json.dumps(server.newest, ensure_ascii=False)
    for text in ("Make one attempt" if name != "gemini" else "", "It takes as long as the one mind does", GOAL):
        assert json.dumps(text, ensure_ascii=False)[1:-1] in sent


@pytest.mark.parametrize("name", ["claude", "opencode"])
def test_converge_is_one_attempt(lab: Lab, name: str) -> None:
    flags = (*scripted(lab), "--final", "none", *met("a"))

    def plays(request: str, file: str) -> Sequence[Act]:
        return (write(file, request), typed("--goal-file", file, "--max-attempts", "1", "--foreground", *flags))

    Shell(lab, ready(lab, name), "converge", plays).type(GOAL)
    assert one_goal(lab).goal == GOAL
    assert [fact.result for fact in lab.facts(e.AttemptEnded)] == ["success"]
    assert lab.facts(e.RunStopped)[-1].reason == "converged"


def test_claude_lists_all_six(lab: Lab) -> None:
    said = Shell(lab, ready(lab, "claude"), "converge", lambda request, file: (Say("done"),)).type(GOAL)
    begun = next(line for line in map(json.loads, said.splitlines()) if line.get("subtype") == "init")
    assert set(NAMES) <= set(begun["slash_commands"])


@pytest.mark.parametrize("name", ["claude", "opencode"])
def test_orch_sends_one_wave_and_leaves_what_it_made_at_the_lock(lab: Lab, name: str) -> None:
    def plays(request: str, file: str) -> Sequence[Act]:
        goal, _, minds = request.rpartition(" --minds=")
        target = typed("declare", "--goal-file", file, "--json", *met("a"))
        wave = typed("open", "the-file-says-yes", "--minds", minds, *scripted(lab))
        return (write(file, goal), target, wave, Say("sent"))

    Shell(lab, ready(lab, name), "orch", plays).type("the file says yes --minds=2")
    lab.fact(e.BranchCandidate, 2)
    lab.wait(code=5)
    assert one_goal(lab).goal == "the file says yes"
    assert len(lab.facts(e.BranchSpawned)) == 2
    assert lab.facts(e.BranchGrafted) == []
    lab.keeps_worktrees = True


MESSAGE = """it's "done": $(touch pwned) `touch pwned` $HOME ; touch pwned"""


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode"])
def test_the_steps_of_the_chain_are_run_as_they_are_asked_for_and_what_they_say_comes_back(lab: Lab, name: str) -> None:
    agent, branch = ready(lab, name), "topic"
    found = {
        "path": "total.py",
        "line": 2,
        "severity": "critical",
        "title": "run as code",
        "text": "x",
        "quote": "return eval(items)",
    }
    fixed = {"id": "inline.103", "outcome": "fixed", "reason": "it sums"}
    bad, good = (
        [{"write": {"path": "total.py", "text": text}}, {"commit": "c"}] for text in (BAD, BAD.replace("eval", "sum"))
    )
    script = lab.script(
        mind(*good, {"report": {"comments": [fixed]}}, approach="copilot"),
        mind({"report": {"findings": [found]}}, judge="review-correctness"),
        mind({"report": {"findings": []}}, judge="review-tests"),
        mind({"report": {"scores": [{"finding": 1, "score": 95}]}}, judge="review-score"),
        mind(*meets("a"), *bad),
    )
    lab.play("fix the goal", script, *met("a"), "--final", "none")
    lab.wait()
    (lab.repo / "notes.txt").write_text("notes\n")
    with served(Stub(remote=lab.remote, diff=frozenset({("total.py", 2)}))) as stub:
        lab.env |= {"ORCHCONVERGE_FORGE": f"{stub.url}/repos/ann/shop", "GH_TOKEN": TOKENS["ann"]}
        lab.run("pushl", code=0)
        said = shown(lab, agent, "reviewdeep", "--focus-correctness --pr=1", "--focus-correctness", "--pr=1")
        assert "reviewdeep: done. REWORK: 1 critical" in said
        assert "critical total.py:2 run as code" in said
        assert [each["path"] for each in stub.inline] == ["total.py"]
        stub.inline.append(stub.new("ann", body="this sums nothing", path="total.py", line=2, in_reply_to_id=None))
        said = shown(lab, agent, "copilot", "--autonomous --max-rounds=2", "--autonomous", "--max-rounds=2")
        assert "copilot: done. pull request 1: 1 comment: 1 fixed" in said
        assert "important inline.103 total.py:2 fixed" in said
        asked = ("--auto-label", "--update-description", "--include", "notes.txt", "--message")
        said = shown(lab, agent, "pushl", f"{' '.join(asked)} {MESSAGE}", *asked, MESSAGE)
        assert "pushl: done" in said
    assert lab.git("log", "-1", "--format=%s", branch, cwd=lab.remote) == MESSAGE
    assert lab.git("show", f"{branch}:total.py", cwd=lab.remote) == BAD.replace("eval", "sum").rstrip("\n")
    assert lab.git("status", "--porcelain") == ""
    assert not [place for place in (lab.repo, lab.home, lab.tmp, lab.root) if (place / "pwned").exists()]


def shown(lab: Lab, agent: Agent, command: str, request: str, *words: str) -> str:
    """Type a command whose request means these words. What our command line was called with is held against them.

    Returns all that came back to the model.
    """
    shell = Shell(lab, agent, command, lambda asked, file: (typed(command, *words), Say("done")))
    shell.type(request)
    assert shell.server is not None
    called = (lab.root / "called").read_bytes().split(b"\0\n")
    assert [word.decode() for word in called[-2].split(b"\0")] == [command, *words]
    return json.dumps(shell.server.newest, ensure_ascii=False)


def test_orch_takes_the_seed_s_long_form(lab: Lab) -> None:
    flags = (*scripted(lab), "--final", "none", *met("a"))

    def plays(request: str, file: str) -> Sequence[Act]:
        form = r'"Autonomous convergence: (.*) with max-attempts=(\d+) max-hours=(\d+) interval=(\d+) in current directory"'
        asked = re.fullmatch(form, request)
        assert asked is not None, request
        attempts, hours, interval = asked.groups()[1:]
        limits = ("--max-attempts", attempts, "--max-hours", hours, "--interval", interval)
        return (write(file, asked[1]), typed("--goal-file", file, *limits, *flags))

    limits = "with max-attempts=4 max-hours=2 interval=0 in current directory"
    Shell(lab, ready(lab, "claude"), "orch", plays).type(f'"Autonomous convergence: {GOAL} {limits}"')
    lab.wait()
    assert one_goal(lab).goal == GOAL
    [started] = lab.facts(e.RunStarted)
    assert (started.limits.attempts, started.limits.hours, started.settings.interval) == (4, 2, 0)
