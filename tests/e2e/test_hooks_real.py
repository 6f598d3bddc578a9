"""The real agent CLIs ask the admission socket before each tool call, by hooks that are set up for one run."""

from __future__ import annotations

import select
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchconverge import hook
from orchconverge.adapters.engines import ENGINES
from orchconverge.adapters.engines.shell import acted
from orchconverge.adapters.gate import SocketGate
from orchconverge.adapters.supervisors import Supervisors
from orchconverge.core.seen import Ended, Outcome
from orchconverge.core.values import Settings
from orchconverge.ports import Brief, Question, Spec
from tests.e2e.lab import Lab
from tests.tools.agents import Agent, installed
from tests.tools.scripted_model import Act, Call, Say, model, read, run, write

pytestmark = [pytest.mark.engines, pytest.mark.tmux, pytest.mark.timeout(400)]
NAMES = ("claude", "codex", "gemini", "opencode")
HOOK = (sys.executable, "-I", "-S", str(Path(hook.__file__)))
WHY = 'work convergence: read enough, write "out.txt" now'
GOAL = "read, then write"
SCRIPT: Sequence[Act] = (
    read("README.md"),
    run("git log --oneline"),
    read("README.md"),
    write("out.txt", "yes\n"),
    Say("all done"),
)
CALLS = sum(isinstance(act, Call) for act in SCRIPT)
SECONDS = 150.0


@pytest.fixture(params=NAMES)
def agent(request: pytest.FixtureRequest) -> Agent:
    return installed(request.param)


class Listener:
    """A gate with its own loop, and what it was asked. It refuses to read a file again."""

    def __init__(self, lab: Lab) -> None:
        self.gate = SocketGate("0123456789ab", acted, environ={"XDG_RUNTIME_DIR": str(lab.root)})
        self.asked: list[Question] = []
        self.path = self.gate.open()

    def answer(self, question: Question) -> str:
        seen = [call for before in self.asked for call in before.calls if call.kind == "read"]
        self.asked.append(question)
        return WHY if any(call in seen for call in question.calls) else ""

    @contextmanager
    def serving(self) -> Iterator[None]:
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                select.select(self.gate.handles(), [], [], 0.05)
                self.gate.serve(self.answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


class Runs:
    """Minds of one CLI in the lab's checkout under real supervisors, without a controller."""

    def __init__(self, lab: Lab, agent: Agent) -> None:
        self.lab, self.engine = lab, ENGINES[agent.name](lab.env)
        self.model = agent.model
        self.supervisors = Supervisors(lab.root / "runs")

    def play(self, name: str, gate: Path, argv: tuple[str, ...] = HOOK) -> Outcome:
        """One mind, from its start to what its output says."""
        given = f"minds/{name}"
        brief = Brief(
            text=GOAL,
            text_path=self.supervisors.put(given, "brief.md", f"{GOAL}\n".encode()),
            report_path=self.supervisors.subfolder(given, "mind") / "report.json",
            folder=self.supervisors.folder(given),
            cwd=self.lab.repo,
            branch="b.1",
            attempt=1,
            approach="plain",
            model=self.model,
            hook=argv,
        )
        launch = self.engine.launch(brief, Settings(checkout=str(self.lab.repo), place="here", engines=()))
        assert launch.asks == "hooks"
        for file, content in launch.files.items():
            self.supervisors.put(given, file, content.encode())
        env = {**self.lab.env, **launch.env, "ORCHCONVERGE_ADMISSION": str(gate), "ORCHCONVERGE_ADMISSION_TOKEN": name}
        spec = Spec(
            name=given, cwd=brief.cwd, argv=launch.argv, env=env, stdin=brief.text_path, deadline_seconds=SECONDS
        )
        self.supervisors.launch(self.supervisors.prepare(spec))
        exit = self.lab.until(lambda: self._ended(given), seconds=SECONDS + 10).exit
        outcome = self.engine.read(self.supervisors.log(given, most_bytes=1 << 24))
        assert exit.code == 0, (exit, outcome)
        return outcome

    def _ended(self, name: str) -> Ended | None:
        probe = self.supervisors.probe(name)
        return probe if isinstance(probe, Ended) else None


def texts(value: object) -> Iterator[str]:
    """Every text in a request."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts(each)


def held(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder, and what is in it."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_its_calls_are_asked_about_refused_with_a_reason_and_run_where_nobody_answers(lab: Lab, agent: Agent) -> None:
    with model([(GOAL, lambda _: SCRIPT)]) as server:
        agent.settle(lab, server.url)
        lab.env["npm_config_registry"] = "http://127.0.0.1:9"  # opencode asks it for the types of plugins
        lab.env["npm_config_fetch_retries"] = "0"
        lab.env["GITHUB_SHA"] = "0"  # gemini then keeps most variables from what it runs
        if agent.name == "codex":
            with (lab.home / ".codex" / "config.toml").open("a") as file:
                file.write('[shell_environment_policy]\ninherit = "core"\n')
        if agent.name == "opencode":  # by itself it adds this to a file that does not have it
            config = lab.home / "config" / "opencode" / "opencode.json"
            config.write_text(f'{{"$schema": "https://opencode.ai/config.json", {config.read_text()[1:]}')
        settings, status = held(lab.home), lab.git("status", "--porcelain")
        runs, listener = Runs(lab, agent), Listener(lab)

        with listener.serving():
            outcome = runs.play("asked", listener.path)
        assert [call.kind for one in listener.asked for call in one.calls] == ["read", "run", "read", "write"]
        assert {one.token for one in listener.asked} == {"asked"}
        assert len({one.id for one in listener.asked}) == len(listener.asked) == CALLS
        assert any(WHY in text for text in texts(server.newest))
        assert outcome.error == ""
        reads = [act for act in outcome.acts if act.kind == "read"]
        shown = [(True, False)] if agent.name == "codex" else [(True, False), (False, True)]  # it shows no refused call
        assert [(act.ok, act.refused) for act in reads] == shown
        assert (lab.repo / "out.txt").read_text() == "yes\n"
        (lab.repo / "out.txt").unlink()

        # A gate that does not answer, none, and a hook that is not there any more.
        for name in ("silent", "gone", "uninstalled"):
            if name == "uninstalled" and agent.name == "opencode":
                continue  # its plugin comes with each mind
            outcome = runs.play(name, listener.path, HOOK if name != "uninstalled" else (sys.executable, "/missing.py"))
            assert outcome.error == "", name
            assert not any(act.refused for act in outcome.acts), name
            assert (lab.repo / "out.txt").read_text() == "yes\n"
            (lab.repo / "out.txt").unlink()
            listener.gate.close()
    assert len(listener.asked) == CALLS
    assert lab.git("status", "--porcelain") == status
    assert {path: data for path, data in held(lab.home).items() if path in settings} == settings
