"""Start-up of each agent CLI under our supervisor against the bare CLI: same argv, environment and scripted model, interleaved.

Measured is the time from the start of the process to the model's first request. Beside it: the supervisor's own memory, what
the parser takes for what the CLI printed, and, for the Agent Client Protocol, our client's memory, against the least client
that drives the same agent. Needs `scripts/engines`; `python -m benchmarks.engines [NAME…]` from the repository's folder.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks._timing import Row, arguments, finish
from orchconverge.adapters.engines import ENGINES
from orchconverge.adapters.supervisors import Supervisors
from orchconverge.core.seen import Ended
from orchconverge.core.values import Settings
from orchconverge.ports import Brief, Launch, Spec
from tests.tools.agents import AGENTS, Agent, found
from tests.tools.scripted_model import Act, Model, model

MOST = 1.2
SUPERVISOR_MB, CLIENT_MB = 15.0, 40.0
SECONDS = 180.0
MEASURED = tuple(name for name in AGENTS if name not in ("acp:gemini", "acp:opencode"))
"""Over ACP two are enough: the client is the same, and those two want more than the least client says."""
LEAST = """
import json, subprocess, sys
agent = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
def ask(number, method, params):
    print(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}), file=agent.stdin, flush=True)
    for line in agent.stdout:
        found = json.loads(line)
        if found.get("id") == number and "method" not in found:
            return found["result"]
ask(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
session = ask(2, "session/new", {"cwd": sys.argv[1], "mcpServers": []})["sessionId"]
ask(3, "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "say hello"}]})
agent.kill()
"""


class Home:
    """A HOME with nothing in it but what the agent needs, and a repository to start in."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.repo = folder, folder / "home", folder / "repo"
        self.home.mkdir(parents=True)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.env = {**kept, "HOME": str(self.home), "TERM": "xterm", "GIT_CONFIG_NOSYSTEM": "1"}
        for who in ("AUTHOR", "COMMITTER"):
            self.env |= {f"GIT_{who}_NAME": "a", f"GIT_{who}_EMAIL": "a@localhost"}
        subprocess.run(["git", "init", "-q", str(self.repo)], env=self.env, check=True)
        subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "a"], cwd=self.repo, env=self.env, check=True)


class Bench:
    """Starts of one agent, under our supervisor and bare. The model tells when it was first asked, before it answers."""

    def __init__(self, agent: Agent, folder: Path) -> None:
        self.agent, self.at = agent, Home(folder)
        self.supervisors = Supervisors(folder / "runs")
        self.number, self.asked = 0, 0.0
        self.look: Callable[[], None] = lambda: None
        self.supervisor_mb: list[tuple[float, float]] = []
        self.client_mb: list[float] = []
        self.parse_seconds: list[float] = []

    def play(self, prompt: str) -> Sequence[Act]:
        """The answer of the model, who says hello."""
        if not self.asked:
            self.asked = time.perf_counter()
            self.look()
        return self.agent.ended()

    def model(self) -> Any:
        """The model, in a context."""
        return model([("say hello", self.play)], bare=self.agent.bare)

    def prepared(self, server: Model) -> tuple[str, Brief, Launch]:
        """Another mind: its name, its brief, and how our engine starts it."""
        self.number += 1
        name, text = f"minds/m{self.number}", "say hello"
        brief = Brief(
            text=text,
            text_path=self.supervisors.put(name, "brief.md", text.encode()),
            report_path=self.supervisors.subfolder(name, "mind") / "report.json",
            folder=self.supervisors.folder(name),
            cwd=self.at.repo,
            branch="b.1",
            attempt=1,
            approach="plain",
            model=self.agent.spec.partition(":")[2],
        )
        permissions = "skip" if self.agent.family == "mini" else "default"
        settings = Settings(
            checkout=str(self.at.repo), place="here", engines=(self.agent.engine,), permissions=permissions
        )
        launch = ENGINES[self.agent.engine](self.at.env).launch(brief, settings)
        for file, content in launch.files.items():
            self.supervisors.put(name, file, content.encode())
        self.asked, self.look = 0.0, lambda: None
        return name, brief, launch

    def bare(self, server: Model) -> float:
        """Seconds to the first request, without us."""
        _, brief, launch = self.prepared(server)
        argv, given = launch.argv, brief.text_path if launch.brief_on_stdin else Path(os.devnull)
        if self.agent.engine == "acp":
            agent = json.loads(launch.files["acp.json"])["argv"]
            argv = (sys.executable, "-I", "-S", "-c", LEAST, str(self.at.repo), *agent)
        with given.open("rb") as stdin:
            began = time.perf_counter()
            ran = subprocess.run(
                argv,
                cwd=self.at.repo,
                env={**self.at.env, **launch.env},
                stdin=stdin,
                capture_output=True,
                start_new_session=True,  # as ours: on a busy machine each session gets its share
                timeout=SECONDS,
                check=False,
            )
        assert self.asked, (argv, ran)
        return self.asked - began

    def ours(self, server: Model) -> float:
        """Seconds to the first request, under the supervisor."""
        name, brief, launch = self.prepared(server)
        spec = Spec(
            name=name,
            cwd=self.at.repo,
            argv=launch.argv,
            env={**self.at.env, **launch.env},
            stdin=brief.text_path if launch.brief_on_stdin else None,
            deadline_seconds=SECONDS,
        )
        self.look = lambda: self._weigh(name)
        began = time.perf_counter()
        self.supervisors.launch(self.supervisors.prepare(spec))
        until = began + SECONDS
        while not isinstance(self.supervisors.probe(name), Ended):
            assert time.perf_counter() < until, f"{name} did not end"
            time.sleep(0.02)
        log = self.supervisors.log(name, most_bytes=1 << 24)
        assert self.asked, log
        read = time.perf_counter()
        outcome = ENGINES[self.agent.engine]({}).read(log)
        self.parse_seconds.append(time.perf_counter() - read)
        assert not outcome.error, outcome
        return self.asked - began

    def _weigh(self, name: str) -> None:
        """The memory of the supervisor, and of our client where there is one, as the model is asked."""
        running = json.loads(self.supervisors.get(name, "running.json") or b"{}")
        used = psutil.Process(running["pid"]).memory_full_info()
        self.supervisor_mb.append((used.rss / 2**20, used.pss / 2**20))
        if self.agent.engine == "acp":
            self.client_mb.append(psutil.Process(running["agent"]).memory_info().rss / 2**20)


def measured(agent: Agent, folder: Path, rounds: int) -> list[Row]:
    """The rows of one agent."""
    bench = Bench(agent, folder)
    with bench.model() as server:
        agent.settle(bench.at, server.url)
        floor = "the least client" if agent.engine == "acp" else "the bare CLI"
        row = Row(f"{agent.name}: first request", floor, MOST)
        row.run(lambda: bench.bare(server), lambda: bench.ours(server), rounds)
    row.notes = {
        "bare_seconds": round(statistics.median(row.floor), 3),
        "ours_seconds_median": round(statistics.median(row.ours), 3),
        "parser_milliseconds": round(1000 * statistics.median(bench.parse_seconds), 2),
        "supervisor_pss_mb": round(max(pss for _, pss in bench.supervisor_mb), 1),
    }
    most = max(rss for rss, _ in bench.supervisor_mb)
    rows = [row, Row(f"{agent.name}: supervisor, MB resident", "1 MB", SUPERVISOR_MB, [1.0], [most])]
    if bench.client_mb:
        rows.append(Row(f"{agent.name}: our client, MB resident", "1 MB", CLIENT_MB, [1.0], [max(bench.client_mb)]))
    return rows


def main() -> None:
    parser = arguments(__doc__ or "", rounds=3)
    parser.add_argument("names", nargs="*", default=MEASURED, metavar="NAME", help=f"of {', '.join(MEASURED)} (all)")
    options = parser.parse_args()
    agents = [found(name) for name in options.names]
    missing = [agent for agent in agents if isinstance(agent, str)]
    if missing:
        sys.exit("\n".join(missing))
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="oc-", dir=base))
    try:
        rows = [
            row
            for number, agent in enumerate(agents)
            if isinstance(agent, Agent)
            for row in measured(agent, folder / str(number), options.rounds)
        ]
    finally:
        shutil.rmtree(folder)
    finish(rows, options)


if __name__ == "__main__":
    main()
