"""The engine `acp` on the real agents, each with a scripted model on loopback: killed, continued, stopped."""

from __future__ import annotations

import json
import re
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchconverge.adapters.engines.acp import PRESETS, Acp
from orchconverge.adapters.supervisors import Supervisors
from orchconverge.core.seen import Act as Done
from orchconverge.core.seen import Ended, Exit, Outcome
from orchconverge.core.values import Settings
from orchconverge.ports import Brief, Spec
from tests.e2e.lab import Lab, kill
from tests.tools.agents import AGENTS, Agent, installed
from tests.tools.scripted_model import TOKENS_IN, TOKENS_OUT, Act, Hang, Say, model, read, run, write

pytestmark = [pytest.mark.engines, pytest.mark.tmux, pytest.mark.timeout(400)]
SECONDS = 120.0


@pytest.fixture(params=[name for name in AGENTS if name.startswith("acp:")])
def agent(request: pytest.FixtureRequest) -> Agent:
    return installed(request.param)


class Minds:
    """Minds of one context in the lab's checkout, each under a real supervisor, without a controller."""

    def __init__(self, lab: Lab, agent: Agent) -> None:
        self.lab, self.agent, self.engine = lab, agent, Acp(lab.env)
        self.supervisors = Supervisors(lab.root / "runs")

    def prepared(self, name: str, prompt: str, *, resume: bool) -> Spec:
        """Its folder, and how it is started."""
        given = f"minds/{name}"
        folder, report = self.supervisors.folder(given), self.supervisors.subfolder(given, "mind") / "report.json"
        brief = Brief(
            text=prompt,
            text_path=self.supervisors.put(given, "brief.md", prompt.encode()),
            report_path=report,
            folder=folder,
            cwd=self.lab.repo,
            branch="b.1",
            attempt=1,
            approach="plain",
            model=f"{self.agent.family}:{self.agent.model}",
            context="c-1",
            resume=resume,
        )
        launch = self.engine.launch(brief, Settings(checkout=str(self.lab.repo), place="here", engines=("acp",)))
        for file, content in launch.files.items():
            self.supervisors.put(given, file, content.encode())
        env = {**self.lab.env, **launch.env}
        if launch.identity:
            env |= {
                f"GIT_{who}_{what}": "me@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
            }
        return Spec(name=given, cwd=self.lab.repo, argv=launch.argv, env=env, deadline_seconds=SECONDS)

    def start(self, name: str, prompt: str, *, resume: bool) -> None:
        self.supervisors.launch(self.supervisors.prepare(self.prepared(name, prompt, resume=resume)))

    def outcome(self, name: str) -> Outcome:
        return self.engine.read(self.supervisors.log(f"minds/{name}", most_bytes=1 << 24))

    def running(self, name: str) -> Mapping[str, int]:
        return dict(json.loads(self.supervisors.get(f"minds/{name}", "running.json") or b"{}"))

    def end(self, name: str) -> Exit:
        probe = self.lab.until(lambda: self._ended(name), seconds=SECONDS + 10)
        return probe.exit

    def _ended(self, name: str) -> Ended | None:
        probe = self.supervisors.probe(f"minds/{name}")
        return probe if isinstance(probe, Ended) else None


def shown(acts: Sequence[Done]) -> list[tuple[str, str, bool | None, bool]]:
    """Acts as a script would have them: files by their names."""
    return [(act.kind, Path(act.target).name if act.kind == "write" else "", act.ok, act.refused) for act in acts]


def test_killed_in_the_middle_then_continued_then_stopped(lab: Lab, agent: Agent) -> None:
    preset = agent.family
    report = lab.root / "runs" / "minds" / "second" / "mind" / "report.json"
    scripts: dict[str, Sequence[Act]] = {
        "the first prompt": (read("README.md"), write("a.txt", "half\n"), Hang()),
        "the second prompt": (
            read("README.md"),
            run("ls missing"),
            write("a.txt", "yes\n"),
            write(str(report), '{"summary": "it says yes"}'),
            run("git add -A && git commit -q -m 'a'", escalated=True),
            run("git push origin main", escalated=True),
            Say("all done"),
        ),
        "These calls were refused": (Say("all done"),),
        "the third prompt": (write("b.txt", "no\n"), Hang()),
    }
    rules = [(pattern, lambda _, acts=acts: acts) for pattern, acts in scripts.items()]
    with model(rules) as server:
        agent.settle(lab, server.url)
        minds = Minds(lab, agent)

        # Killed in the middle: what it did until then is known, and its session.
        minds.start("first", "the first prompt", resume=False)
        lab.until(lambda: any(isinstance(one.act, Hang) for one in server.asked), seconds=SECONDS)
        lab.until(lambda: len(minds.outcome("first").acts) == 2 and minds.outcome("first").acts[-1].ok)
        kill(minds.running("first")["agent"])
        assert minds.end("first").signal == 9
        first = minds.outcome("first")
        assert (first.stop, first.context_lost, bool(first.context)) == ("", False, True)
        assert [act.kind for act in first.acts] == ["read", "write"]

        # Continued, where the agent can: reads, a failed command, writes, a commit, a refused call, and its last words.
        before = len(server.asked)
        minds.start("second", "the second prompt", resume=True)
        assert minds.end("second").code == 0
        second = minds.outcome("second")
        assert (second.context == first.context) == PRESETS[preset].loads
        assert max(len(one.prompts) for one in server.asked[before:]) > 1 or not PRESETS[preset].loads
        unseen = None if preset == "gemini" else True  # it does not say how a command ended
        failed = None if preset == "gemini" else False
        assert shown(second.acts)[0] == ("read", "", True, False)
        assert second.acts[1].kind in ("read", "search")
        assert second.acts[1].ok is failed
        assert shown(second.acts)[2:] == [
            ("write", "a.txt", True, False),
            ("write", "report.json", True, False),
            ("run", "", unseen, False),
            ("run", "", False, True),
        ]
        assert second.acts[-2].target == "git add -A && git commit -q -m 'a'"
        assert second.acts[-1].detail == "`git push origin main` is not among the commands that are granted"
        assert len(second.refused) == 1
        assert (second.stop, second.summary, second.error) == ("end_turn", "all done", "")
        spoken = [one for one in server.asked[before:] if re.search("the second prompt|were refused", one.prompts[-1])]
        asked = 1 if preset == "opencode" else len(spoken)  # opencode tells of the last request alone
        assert second.usage is not None
        assert (second.usage.inputTokens, second.usage.outputTokens) == (TOKENS_IN * asked, TOKENS_OUT * asked)
        assert (second.usage.usd is not None) == (preset == "claude")
        assert report.read_text() == '{"summary": "it says yes"}'
        assert lab.git("log", "-1", "--format=%s") == "a"
        assert lab.git("show", "main:a.txt") == "yes"

        # Asked to stop: the session is cancelled, and nothing is left. A supervisor asks the agent as well, so without one.
        spec = minds.prepared("third", "the third prompt", resume=True)
        client = subprocess.Popen(
            spec.argv, cwd=spec.cwd, env=spec.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        lab.until(lambda: isinstance(server.asked[-1].act, Hang) and len(server.asked) > before + 2, seconds=SECONDS)
        began = time.monotonic()
        client.terminate()
        told = client.communicate(timeout=SECONDS)[0]
        assert client.returncode == 143
        print(f"{preset}: gone {time.monotonic() - began:.1f} s after the stop")
        third = minds.engine.read(told)
        assert third.stop == "cancelled", told
        assert [act.kind for act in third.acts] == ["write"]
        assert (lab.repo / "b.txt").read_text() == "no\n"


@contextmanager
def reading_refused(path: Path, why: str) -> Iterator[list[dict[str, Any]]]:
    """An admission that refuses every read and keeps all that it hears."""
    heard: list[dict[str, Any]] = []

    class Asked(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            if line := self.rfile.readline():
                heard.append(json.loads(line))
                if "observed" not in heard[-1]:
                    answer = {"allow": heard[-1]["kind"] != "read", "reason": why}
                    self.wfile.write(json.dumps(answer).encode() + b"\n")

    with socketserver.ThreadingUnixStreamServer(str(path), Asked) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield heard
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("agent", ["acp:claude", "acp:gemini"], indirect=True)
def test_the_reason_of_admission_reaches_the_model_in_the_middle(lab: Lab, agent: Agent) -> None:
    """Claude is steered; Gemini, which cannot be, has its turn cut and is prompted again."""
    why = "read enough: write out.txt now"
    written = (write("out.txt", "yes\n"), Say("written"))
    loop = [read("README.md")] * 9 if agent.family == "gemini" else [read("README.md"), read("README.md"), *written]
    rules = [(why, lambda _: written), ("a loop", lambda _: loop)]
    with reading_refused(lab.root / "gate", why) as heard, model(rules) as server:
        agent.settle(lab, server.url)
        lab.env |= {"ORCHCONVERGE_ADMISSION": str(lab.root / "gate"), "ORCHCONVERGE_ADMISSION_TOKEN": "t"}
        minds = Minds(lab, agent)
        minds.start("only", "a loop", resume=False)
        assert minds.end("only").code == 0
        found = minds.outcome("only")
    assert (found.acts[0].kind, found.acts[0].refused, found.acts[0].detail) == ("read", True, why)
    assert shown(found.acts)[-1] == ("write", "out.txt", True, False)
    assert (lab.repo / "out.txt").read_text() == "yes\n"
    assert why in json.dumps(server.newest)
    prompted = any(why in prompt for prompt in server.asked[-1].prompts)
    assert prompted == (agent.family == "gemini"), "a prompt of its own, or words beside a result"
    assert [line["observed"] for line in heard if "observed" in line and line["kind"] == "write"] == [True]
