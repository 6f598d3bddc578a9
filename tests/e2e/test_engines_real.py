"""The real agent CLIs, each with a scripted model on loopback: they work, through the whole product; and they fail in every way."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from orchconverge.adapters.engines import ENGINES
from orchconverge.adapters.supervisors import Supervisors
from orchconverge.core import events as e
from orchconverge.core.seen import Ended, Exit, Outcome, Running
from orchconverge.core.values import Settings
from orchconverge.ports import Brief, Spec
from tests.e2e.lab import Lab, kill, met, mind
from tests.tools.scripted_model import (
    TOKENS_IN,
    TOKENS_OUT,
    Act,
    Fail,
    Garbage,
    Hang,
    Model,
    Say,
    model,
    read,
    run,
    write,
)

pytestmark = [pytest.mark.engines, pytest.mark.tmux, pytest.mark.timeout(400)]
ROOT = Path(__file__).resolve().parents[2]
NAMES = ("claude", "codex", "gemini", "opencode", "aider", "mini")
MODELS = {"codex": "scripted", "gemini": "gemini-2.5-pro", "opencode": "mock/scripted"}
MODELS |= {"aider": "openai/scripted", "mini": "openai/scripted"}
FINISHED = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
HANGS_SECONDS = {"claude": 12.0, "codex": 8.0}
"""The deadline of the one that hangs, of the others 20 seconds: it runs beside those that take about as long together."""


@dataclass(frozen=True)
class Agent:
    """One of the CLIs: the folder of its program, and what makes it talk to a model at ``url`` alone."""

    name: str
    programs: Path

    @property
    def spec(self) -> str:
        """As `--engine` has it."""
        return f"{self.name}:{MODELS[self.name]}" if self.name in MODELS else self.name

    def settle(self, lab: Lab, url: str) -> None:
        """Environment and files of the lab's HOME."""
        lab.env["PATH"] = f"{self.programs}:{lab.env['PATH']}"
        openai = {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": "dummy", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        if self.name == "claude":
            lab.env |= {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "dummy"}
            lab.env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
        elif self.name == "codex":
            provider = f'name = "mock"\nbase_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "OPENAI_API_KEY"\n'
            retries = "request_max_retries = 0\nstream_max_retries = 0\n"
            self._file(
                lab.home / ".codex" / "config.toml",
                f'model_provider = "mock"\n[model_providers.mock]\n{provider}{retries}',
            )
            lab.env["OPENAI_API_KEY"] = "dummy"
        elif self.name == "gemini":
            chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
            self._file(lab.home / ".gemini" / "settings.json", json.dumps(chosen))
            lab.env |= {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "dummy"}
        elif self.name == "opencode":
            options = {"baseURL": f"{url}/v1", "apiKey": "dummy"}
            mock = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"scripted": {}}}
            self._file(lab.home / "config" / "opencode" / "opencode.json", json.dumps({"provider": {"mock": mock}}))
            lab.env["OPENCODE_DISABLE_MODELS_FETCH"] = "1"
        else:
            lab.env |= openai | {"MSWEA_COST_TRACKING": "ignore_errors"}
        if self.name == "mini":
            lab.env["ORCHCONVERGE_PERMISSIONS"] = "skip"

    def _file(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def installed(name: str) -> Agent:
    """A CLI. Without it these tests say why: they fail in CI and are skipped elsewhere."""
    base = ROOT / ".cache" / name
    folder = base / "bin" if name in ("aider", "mini") else base / "node_modules" / ".bin"
    if (folder / name).exists():
        return Agent(name, folder)
    log = ROOT / ".cache" / f"{name}.log"
    why = log.read_text(errors="replace")[-500:] if log.exists() else "it was not tried"
    missing = f"{name} is not installed ({why}): scripts/engines {name}"
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


@pytest.fixture(params=NAMES)
def agent(request: pytest.FixtureRequest) -> Agent:
    return installed(request.param)


def ended(agent: Agent, *acts: Act) -> tuple[Act, ...]:
    """A script's last words, as the CLI needs them."""
    return (*acts, run(f"{FINISHED} && echo 'all done'") if agent.name == "mini" else Say("all done"))


# --- they work -------------------------------------------------------------------------------------------------------

GOAL, BASIN = "the file says yes", "the-file-says-yes"


def works(agent: Agent, prompt: str) -> Sequence[Act]:
    """Reads, writes, reports, commits; codex tries to, aider does by itself."""
    told = re.search(r"^ +(/\S+/report\.json)$", prompt, re.MULTILINE)
    assert told, prompt
    report = json.dumps({"summary": "a.txt says yes", "residue": [{"text": "a is a file"}], "verdict": None})
    if agent.name == "aider":
        return (write("a.txt", "yes\n"), Say("a.txt says yes"))
    commit = run("git add -A && git commit -q -m 'a' -m 'Criterion: a'")
    return ended(agent, read("README.md"), read("missing.txt"), write("a.txt", "yes\n"), write(told[1], report), commit)


def test_it_does_nothing_then_converges(lab: Lab, agent: Agent) -> None:
    """Each attempt is on the ledger for what it was, and what the CLI showed of it is what the model was told to do."""
    prompts: list[str] = []
    begun: list[int] = []
    """How many requests there were before each prompt that was new."""

    def played(prompt: str) -> Sequence[Act]:
        if prompt not in prompts:
            prompts.append(prompt)
            begun.append(len(server.asked))
        return ended(agent) if prompts.index(prompt) == 0 else works(agent, prompt)

    lab.git("switch", "-q", "-c", "topic")
    with model([("- a: not met", played)], bare=agent.name == "aider") as server:
        agent.settle(lab, server.url)
        lab.run(
            GOAL, "--engine", agent.spec, "--interval", "0", "--max-attempts", "4", "--final", "none", *met("a"), code=0
        )
        lab.wait(seconds=300)
    nothing, work = lab.facts(e.BranchEnded)
    assert (nothing.exit, nothing.limit, nothing.signedOut, nothing.error) == (0, None, False, "")
    assert "committed nothing, though it ended by itself" in lab.facts(e.BranchFailed)[0].reason
    assert [fact.result for fact in lab.facts(e.AttemptEnded)] == ["no_progress", "success"]
    assert (work.exit, work.error) == (0, "")
    [candidate] = lab.facts(e.BranchCandidate)
    assert candidate.commits == 1
    # Without a report, which aider cannot write, it is the subject of its commit.
    assert candidate.summary == ("a title" if agent.name == "aider" else "a.txt says yes")
    assert lab.git("show", "topic:a.txt") == "yes"
    assert lab.git("log", "-1", "--format=%an", "topic") == "A Person"
    assert lab.git("status", "--porcelain") == ""
    assert lab.facts(e.RunStopped)[-1].reason == "converged"
    # The acts are those of the script, in order, with what was observed of each.
    found = ENGINES[agent.name]({}).read((lab.minds / "minds" / f"{BASIN}.2" / "log.head").read_bytes())
    acts = [(act.kind, Path(act.target).name if act.kind != "run" else "", act.ok) for act in found.acts]
    asked = len(server.asked) - begun[1]
    assert found.usage is not None
    assert (found.usage.inputTokens, found.usage.outputTokens) == (TOKENS_IN * asked, TOKENS_OUT * asked)
    if agent.name == "aider":
        assert acts == [("write", "a.txt", True), ("run", "", True)]
        return
    assert acts[:4] == [
        ("read", "README.md", True),
        ("read", "missing.txt", False),
        ("write", "a.txt", True),
        ("write", "report.json", True),
    ]
    if agent.name == "codex":  # a command that fails at once is sometimes not in its stream
        assert acts[4:] in ([], [("run", "", False)])
    else:
        assert acts[4:] == [("run", "", None if agent.name == "gemini" else True)]
    # Who cannot commit was committed for.
    by_us = "Committed by orchconverge" in lab.git("log", "-1", "--format=%b", "topic")
    assert by_us == (not ENGINES[agent.name]({}).commits)


# --- they fail -------------------------------------------------------------------------------------------------------

SLOW_DOWN = {"retry-after": "3600"}
QUOTA = {
    "type": "rate_limit_error",
    "code": 429,
    "status": "RESOURCE_EXHAUSTED",
    "message": "You exceeded your current quota",
}
RETRY = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3600s"}]
KEY = {
    "type": "authentication_error",
    "code": 401,
    "status": "UNAUTHENTICATED",
    "message": "Incorrect API key provided",
}


@dataclass
class Case:
    """A way to fail: what the model does, and what is awaited before the CLI is ended if it does not end by itself."""

    name: str
    acts: Sequence[Act]
    seen: Callable[[Outcome, int], bool] = field(default=lambda outcome, asked: False)
    deadline: float = 300.0


def cases(agent: Agent) -> list[Case]:
    quota = Fail(429, {"type": "error", "error": QUOTA | {"details": RETRY}}, SLOW_DOWN)
    auth = Fail(401, {"type": "error", "error": KEY})
    return [
        Case("hang", (Hang(),), deadline=HANGS_SECONDS.get(agent.name, 20.0)),
        Case("killed", (read("README.md"), write("a.txt", "yes\n"), Hang())),
        Case("quota", (quota,), seen=lambda outcome, _: outcome.limit is not None),
        Case("auth", (auth,), seen=lambda outcome, _: outcome.auth_failed),
        Case("garbage", (Garbage(),), seen=lambda _, asked: asked > 2),
    ]


class Bench:
    """Runs of one CLI under real supervisors, without a controller."""

    def __init__(self, lab: Lab, agent: Agent, server: Model) -> None:
        self.lab, self.agent, self.server = lab, agent, server
        self.engine = ENGINES[agent.name](lab.env)
        self.supervisors = Supervisors(lab.root / "runs")

    def start(self, case: Case) -> None:
        """Start it in a clone of its own."""
        tree, name = self.lab.root / case.name, f"minds/{case.name}"
        self.lab.git("clone", "-q", str(self.lab.repo), str(tree))
        folder, report = self.supervisors.folder(name), self.supervisors.subfolder(name, "mind") / "report.json"
        text = f"this is the case {case.name}\n"
        brief = Brief(
            text=text,
            text_path=self.supervisors.put(name, "brief.md", text.encode()),
            report_path=report,
            folder=folder,
            cwd=tree,
            branch="b.1",
            attempt=1,
            approach="plain",
            model=MODELS.get(self.agent.name, ""),
        )
        skip = "skip" if self.agent.name == "mini" else "default"
        launch = self.engine.launch(brief, Settings(checkout=str(tree), place="fresh", engines=(), permissions=skip))
        for file, content in launch.files.items():
            self.supervisors.put(name, file, content.encode())
        spec = Spec(
            name=name,
            cwd=tree,
            argv=launch.argv,
            env={**self.lab.env, **launch.env},
            stdin=brief.text_path if launch.brief_on_stdin else None,
            deadline_seconds=case.deadline,
            linger_seconds=launch.linger_seconds,
        )
        self.supervisors.launch(self.supervisors.prepare(spec))

    def asked(self, case: Case) -> int:
        return sum(f"the case {case.name}\n" in "\n".join(one.prompts) for one in self.server.asked)

    def outcome(self, case: Case) -> Outcome:
        return self.engine.read(self.supervisors.log(f"minds/{case.name}", most_bytes=1 << 24))

    def end(self, case: Case) -> tuple[Exit, Outcome]:
        """Await its end, or what the case awaits and then end it."""
        name = f"minds/{case.name}"
        until = time.monotonic() + case.deadline + 20
        while not isinstance(probe := self.supervisors.probe(name), Ended):
            assert time.monotonic() < until, (case.name, probe, self.outcome(case))
            if isinstance(probe, Running) and case.seen(self.outcome(case), self.asked(case)):
                self.supervisors.stop(name)
            reached = self.asked(case) if self.agent.name == "aider" else len(self.outcome(case).acts) - 1
            if case.name == "killed" and reached == 1:
                running = json.loads(self.supervisors.get(name, "running.json") or b"{}")
                kill(running["agent"])
            time.sleep(0.05)
        return probe.exit, self.outcome(case)


def test_each_way_to_fail_is_told_from_the_others(lab: Lab, agent: Agent) -> None:
    hang, *others = cases(agent)
    rules = [(f"this is the case {case.name}\n", lambda prompt, case=case: case.acts) for case in (hang, *others)]
    with model(rules, bare=agent.name == "aider") as server:
        agent.settle(lab, server.url)
        bench = Bench(lab, agent, server)
        found: dict[str, tuple[Exit, Outcome]] = {}
        bench.start(hang)
        for case in others:
            bench.start(case)
            found[case.name] = bench.end(case)
        found[hang.name] = bench.end(hang)
    exits = {name: exit for name, (exit, _) in found.items()}
    outcomes = {name: outcome for name, (_, outcome) in found.items()}
    assert all(outcome.error for outcome in outcomes.values()), outcomes
    assert [name for name, outcome in outcomes.items() if outcome.auth_failed] == ["auth"], outcomes
    assert [name for name, outcome in outcomes.items() if outcome.limit is not None] == ["quota"], outcomes
    assert exits["hang"].reason == "deadline"
    assert exits["killed"].signal == 9
    # What it had done until then is known, and was observed.
    done = [(act.kind, Path(act.target).name, act.ok) for act in outcomes["killed"].acts]
    expected = [] if agent.name == "aider" else [("read", "README.md", True), ("write", "a.txt", True)]
    assert done == expected
    for name in ("auth", "quota", "garbage"):
        ended_by_us = exits[name].reason == "killed"
        assert ended_by_us or exits[name].code != 0 or agent.name == "aider", (
            name,
            exits[name],
        )  # aider's code is always 0
        assert outcomes[name].acts == ()
    limit = outcomes["quota"].limit
    assert limit is not None
    if agent.name == "gemini":
        assert limit.until is not None


@pytest.fixture
def codex(lab: Lab) -> Agent:
    lab.git("switch", "-q", "-c", "topic")
    return installed("codex")


def test_one_run_has_each_of_them_on_its_ledger(lab: Lab, codex: Agent) -> None:
    """Charged or given back as the design's §6 says; codex, since it is the quickest. Its quota's end is its own text."""
    reset = int(time.time()) + 7200
    used_up = {"type": "usage_limit_reached", "message": "The usage limit has been reached", "resets_at": reset}
    turns: list[Sequence[Act]] = [
        ended(codex),
        (Garbage(),),
        (read("README.md"), Hang()),
        (Hang(),),
        (Fail(429, {"error": used_up}),),
    ]
    prompts: list[str] = []

    def played(prompt: str) -> Sequence[Act]:
        if not prompts or prompt != prompts[-1]:
            prompts.append(prompt)
        return turns[min(len(prompts), len(turns)) - 1]

    lab.env |= {"ORCHCONVERGE_STALL_AFTER": "50", "ORCHCONVERGE_ATTEMPT_MINUTES": "0.2"}
    with model([("- a: not met", played)]) as server:
        codex.settle(lab, server.url)
        lab.run(
            GOAL, "--engine", codex.spec, "--interval", "0", "--max-attempts", "9", "--final", "none", *met("a"), code=0
        )
        lab.until(lambda: sum(len(one.prompts) for one in server.asked if isinstance(one.act, Hang)) >= 1, seconds=90)
        third = lab.fact(e.BranchSearching, 3)
        record = lab.record(f"minds/{third.branch}")
        assert record is not None
        kill(record["agent"])
        waiting = lab.fact(e.RunWaiting, seconds=120)
        lab.run("--stop", code=0)
        lab.wait(code=1)
    ends = lab.facts(e.BranchEnded)
    attempts = lab.facts(e.AttemptEnded)
    assert [fact.reason for fact in ends] == ["exited", "exited", "exited", "deadline", "exited"]
    assert [fact.result for fact in attempts] == ["no_progress", "failed", "failed", "failed", "quota"]
    assert [fact.charged for fact in attempts] == [True, True, True, True, False]
    reasons = [fact.reason for fact in lab.facts(e.BranchFailed)]
    assert "though it ended by itself" in reasons[0]
    assert "stream disconnected" in reasons[1]
    assert ends[2].signal == 9
    assert "deadline" in reasons[3]
    assert "no quota" in reasons[4]
    assert waiting.reason == "quota"
    limit = ends[4].limit
    assert limit is not None
    assert limit.until is not None
    assert 0 <= limit.until.timestamp() - reset <= 60


def test_who_is_not_let_in_leaves_it_to_the_next_of_the_chain(lab: Lab, codex: Agent) -> None:
    script = lab.script(mind({"write": {"path": "a.txt", "text": "yes\n"}}, {"commit": "a"}))
    with model([("", lambda prompt: (Fail(401, {"error": KEY}),))]) as server:
        codex.settle(lab, server.url)
        chain = ("--engine", f"{codex.spec},scripted", "--script", str(script), "--interval", "0", "--final", "none")
        lab.run(GOAL, *chain, *met("a"), code=0)
        lab.wait(seconds=120)
    first, second = lab.facts(e.BranchEnded)
    assert first.signedOut
    assert "401" in first.error
    assert not second.signedOut
    assert [fact.engine for fact in lab.facts(e.BranchSpawned)] == ["codex", "scripted"]
    assert [fact.charged for fact in lab.facts(e.AttemptEnded)] == [False, True]
