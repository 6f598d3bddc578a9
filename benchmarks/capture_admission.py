"""Captures what real agents do: each CLI plays its little tasks on a scripted model, and each task becomes one transcript.

    python benchmarks/capture_admission.py [--engine claude] [--only 3] [--out tests/data/admission]

The CLIs are those that `scripts/engines` installs, the model is on loopback, HOME and repositories are made anew and removed.
What every file holds is looked at whenever the CLI asks its model, so between any two acts; which acts there were is what
the engine's own parser reads off the raw output.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import posixpath
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import msgspec  # noqa: E402
from admission_transcripts import Round, Step, Transcript, written  # noqa: E402
from capture_tasks import ALLOWED, COUNTS, Act, Play, Task, task  # noqa: E402

from orchconverge.adapters.engines import ENGINES  # noqa: E402
from orchconverge.adapters.engines.shell import acted  # noqa: E402
from orchconverge.adapters.mind_report import read_report  # noqa: E402
from orchconverge.core.seen import Act as Seen  # noqa: E402
from orchconverge.core.values import Settings  # noqa: E402
from orchconverge.ports import Brief  # noqa: E402
from tests.tools import scripted_model  # noqa: E402

SECONDS = 90.0
"""How long one turn may take."""
MODELS = {
    "codex": "scripted", "gemini": "gemini-2.5-pro", "opencode": "mock/scripted", "aider": "openai/scripted",
    "mini": "openai/scripted", "acp:claude": "claude:", "acp:opencode": "opencode:",
}  # fmt: skip
PROGRAMS = {
    "aider": "aider/bin", "mini": "mini/bin", "acp:claude": "claude-acp/node_modules/.bin",
    "acp:opencode": "opencode/node_modules/.bin",
}  # fmt: skip
SUBMITS = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
LONGEST_CONTENT = 1500
"""Characters of a file that are kept; of a longer one its beginning, and what tells it from others."""
Files = Mapping[str, str]


def as_call(act: scripted_model.Call, tools: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The tool that the task names for this CLI, else what the scripted model would take."""
    named = act.tools if isinstance(act, Act) else {}
    for name in named.keys() & set(tools):
        return name, dict(named[name])
    return plainly(replace(act, kind="run") if isinstance(act, Act) else act, tools)


plainly = scripted_model.as_call


class Watched(scripted_model.Model):
    """The model of one turn. ``states`` are the tree's files when so many acts had been done."""

    def __init__(self, acts: Sequence[scripted_model.Act], tree: Path, *, place: int, bare: bool) -> None:
        super().__init__((), bare=bare)
        # A call that has the name of one of the turn before is taken for it.
        self.numbers = itertools.count(1000 * place + 1)
        self.acts, self.tree = acts, tree
        self.states: dict[int, Files] = {}
        self.before: int | None = None
        """How many results the conversation held before this turn."""

    def __enter__(self) -> Self:
        """Answer, until the context is left."""
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *why: object) -> None:
        self.over.set()
        self.shutdown()
        self.thread.join()
        self.server_close()

    def act(self, request: dict[str, Any]) -> scripted_model.Act:
        """Look at the tree, and give the act that comes after the results that this turn has so far."""
        if not scripted_model.offered(request) and (not self.bare or "commit message" in json.dumps(request)):
            return scripted_model.Say("a title")
        messages = request.get("messages") or request.get("input") or request.get("contents") or []
        done = sum(map(scripted_model.results, messages))
        self.before = done if self.before is None else self.before
        done -= self.before
        self.states.setdefault(done, held(self.tree))
        if self.bare:
            return scripted_model.in_words(self.acts)
        return self.acts[done] if done < len(self.acts) else scripted_model.Say("done")


def git(tree: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=tree, check=True, capture_output=True, text=True, env=GIT).stdout


GIT = {
    "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "A Person",
    "GIT_AUTHOR_EMAIL": "person@example.org", "GIT_COMMITTER_NAME": "A Person",
    "GIT_COMMITTER_EMAIL": "person@example.org",
}  # fmt: skip


def held(tree: Path) -> Files:
    """What every file holds that git would see, shortened to what tells it from others."""
    names = filter(None, git(tree, "ls-files", "-z", "-c", "-o", "--exclude-standard").split("\0"))
    return {name: short((tree / name).read_text()) for name in dict.fromkeys(names) if (tree / name).is_file()}


def short(text: str) -> str:
    if len(text) <= LONGEST_CONTENT:
        return text
    return f"{text[:200]}\n… {hashlib.sha256(text.encode()).hexdigest()[:32]}\n"


@dataclass
class World:
    """Where one engine plays: its HOME, and a folder for each task. ``root`` is removed by who made it."""

    root: Path
    engine: str

    def env(self, url: str) -> dict[str, str]:
        """All that it gets: a HOME, and what makes it talk to the model at ``url`` alone."""
        home, agent = self.root / "home", self.engine.removeprefix("acp:")
        programs = ROOT / ".cache" / PROGRAMS.get(self.engine, f"{self.engine}/node_modules/.bin")
        path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm", "GIT_CONFIG_NOSYSTEM": "1"}
        env |= {name: str(home / name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")}
        env["TMPDIR"] = str(self.root / "tmp")
        files = {".gitconfig": "[user]\n\tname = A Person\n\temail = person@example.org\n"}
        if agent == "claude":
            env |= {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "dummy"}
            env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
        elif agent == "codex":
            provider = f'name = "mock"\nbase_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "OPENAI_API_KEY"\n'
            files[".codex/config.toml"] = f'model_provider = "mock"\n[model_providers.mock]\n{provider}'
            env["OPENAI_API_KEY"] = "dummy"
        elif agent == "gemini":
            files[".gemini/settings.json"] = json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}})
            env |= {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "dummy"}
        elif agent == "opencode":
            options = {"baseURL": f"{url}/v1", "apiKey": "dummy"}
            mock = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"scripted": {}}}
            config = {"model": "mock/scripted", "provider": {"mock": mock}}
            files["xdg_config_home/opencode/opencode.json"] = json.dumps(config)
            env["OPENCODE_DISABLE_MODELS_FETCH"] = "1"
        else:
            env |= {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": "dummy", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
            env["MSWEA_COST_TRACKING"] = "ignore_errors"
        for name, text in files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        (self.root / "tmp").mkdir(exist_ok=True)
        return env

    def neat(self, text: str, folder: Path) -> str:
        """A target without a place of this machine."""
        for real, told in (
            (folder / "tree", "/srv/tree"),
            (folder, "/srv/mind"),
            (self.root / "home", "/srv/home"),
            (self.root, "/srv"),
        ):
            text = text.replace(str(real), told)
        return text


class Turns:
    """The turns of one task, in a repository of its own."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.folder = world, world.root / f"{number:02}"
        self.tree, self.report = self.folder / "tree", self.folder / "out" / "report.json"
        self.tree.mkdir(parents=True)
        self.report.parent.mkdir()
        self.task: Task = task(world.engine, number, self.tree, self.report)
        for name, text in self.task.files.items():
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            (self.tree / name).write_text(text)
        git(self.tree, "init", "-q", "-b", "main")
        git(self.tree, "add", "-A")
        git(self.tree, "commit", "-q", "-m", "init")
        self.met = self.checked()
        self.context = str(uuid.uuid4())

    def checked(self) -> dict[str, bool]:
        """Which of the checks are met."""
        found = {}
        for name, line in self.task.checks.items():
            ran = subprocess.run(shlex.split(line), cwd=self.tree, capture_output=True, env=GIT, check=False)
            found[name] = ran.returncode == 0
        return found

    def transcript(self) -> Transcript:
        """Play it, and tell it."""
        rounds = tuple(self.round(place, play) for place, play in enumerate(self.task.turns))
        return Transcript(
            name=self.task.name,
            words=self.task.words,
            rounds=rounds,
            failed=self.task.failed,
            stage=self.task.stage,
            expects=self.task.expects,
            engine=self.world.engine,
            checks=dict(self.task.checks),
            report="/srv/mind/out/report.json",
        )

    def round(self, place: int, play: Play) -> Round:
        """One turn: its acts with what the files held, and what the checks say after it."""
        name, bare = self.world.engine.partition(":")[0], self.world.engine == "aider"
        engine = ENGINES[name]({})
        fresh = place == 0 or play.fresh or not engine.contextual
        self.context = str(uuid.uuid4()) if fresh else self.context
        last = scripted_model.run(SUBMITS) if name == "mini" else scripted_model.Say("all done")
        self.report.unlink(missing_ok=True)
        first = held(self.tree)
        with Watched([*play.acts, last], self.tree, place=place, bare=bare) as server:
            log = self.play(server, place, resume=not fresh)
        outcome = engine.read(log)
        if outcome.error:
            raise SystemExit(f"{self.world.engine} {self.task.name} turn {place + 1}: {outcome.error}\n{log[-2000:]!r}")
        states = [first, *(server.states.get(n) for n in range(1, len(play.acts) + 1)), held(self.tree)]
        steps = observed(outcome.acts, states, [act.command for act in play.acts], root=str(self.tree))
        was, self.met = self.met, self.checked()
        report = read_report(self.report.read_bytes()) if self.report.exists() else None
        verdict = report.verdict if report is not None else None
        if play.closes and verdict is None and not any(now and not was[name] for name, now in self.met.items()):
            raise SystemExit(f"{self.world.engine} {self.task.name} turn {place + 1} is to close, and met nothing")
        return Round(
            steps=tuple(replace(step, target=self.world.neat(step.target, self.folder)) for step in steps),
            checks=tuple(
                (name, "yes" if now else "no", was[name], now and not was[name]) for name, now in self.met.items()
            ),
            verdict=None if verdict is None else (verdict.kind, verdict.text),
            fresh=fresh and place > 0,
            holds=all(self.met.values()),
            closes=play.closes,
        )

    def play(self, server: Watched, place: int, *, resume: bool) -> bytes:
        """Start the CLI for a turn as its engine says, and give back all that it printed."""
        env = self.world.env(server.url)
        name = self.world.engine.partition(":")[0]
        engine = ENGINES[name](env)
        folder = self.folder / f"run{place}"
        folder.mkdir()
        text, text_path = f"{self.task.words}. This is turn {place + 1}.\n", folder / "brief.md"
        text_path.write_text(text)
        brief = Brief(
            text=text,
            text_path=text_path,
            report_path=self.report,
            folder=folder,
            cwd=self.tree,
            branch="b.1",
            attempt=place + 1,
            approach="plain",
            model=MODELS.get(self.world.engine, ""),
            context=self.context if engine.contextual else None,
            resume=resume,
        )
        settings = Settings(checkout=str(self.tree), place="here", engines=(), allow=ALLOWED)
        if name == "mini":
            settings = msgspec.structs.replace(settings, permissions="skip")
        launch = engine.launch(brief, settings)
        for file, content in launch.files.items():
            (folder / file).write_text(content)
        env |= launch.env
        if launch.identity:
            env |= {name: value for name, value in GIT.items() if name.startswith(("GIT_AUTHOR", "GIT_COMMITTER"))}
        log = folder / "log"
        with log.open("wb") as out, text_path.open("rb") as given:
            stdin = given if launch.brief_on_stdin else subprocess.DEVNULL
            child = subprocess.Popen(
                launch.argv, cwd=self.tree, env=env, stdin=stdin, stdout=out, stderr=out, start_new_session=True
            )
            try:
                child.wait(SECONDS)
            except subprocess.TimeoutExpired:
                print(f"{self.world.engine} {self.task.name}: it did not end in {SECONDS:.0f} s", file=sys.stderr)
            finally:
                ended(child)
        return log.read_bytes()


def ended(child: subprocess.Popen[bytes]) -> None:
    """End what it left: its whole group, which is ours alone."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


@dataclass
class Change:
    """That a file became another by the act of this number."""

    number: int
    path: str
    before: str | None
    after: str | None


def changes(states: Sequence[Files | None]) -> list[Change]:
    """What changed from one look at the tree to the next, in order; a look that was not taken is left out."""
    found: list[Change] = []
    was = states[0] or {}
    for number, now in enumerate(states[1:], 1):
        if now is not None:
            paths = sorted(path for path in was.keys() | now.keys() if was.get(path) != now.get(path))
            found += [Change(number, path, was.get(path), now.get(path)) for path in paths]
            was = now
    return found


def observed(acts: Sequence[Seen], states: Sequence[Files | None], commands: Sequence[str], *, root: str) -> list[Step]:
    """The acts that were seen, each write with what became of its file; what no act names stands after the command that did it.

    A file's changes go to the writes that name it, in order; what is left of them to the last of these.
    """
    first, left = states[0] or {}, changes(states)
    paths = [posixpath.normpath(posixpath.join(root, act.target)).removeprefix(f"{root}/") for act in acts]
    landed = {path for path, act in zip(paths, acts, strict=True) if wrote(act)}
    now, steps, reached = dict(first), list[Step](), 0
    for path, act in zip(paths, acts, strict=True):
        step = Step(act.kind, act.target, ok=act.ok, refused=act.refused)
        if act.kind == "write":
            change = next((each for each in left if each.path == path), None) if wrote(act) else None
            before = now.get(path)
            if change is not None:
                left.remove(change)
                now[path] = change.after  # type: ignore[assignment]
            step = replace(step, before=before, after=now.get(path))
        steps.append(step)
        if act.kind == "run":
            reached = next((n for n, line in enumerate(commands, 1) if n > reached and ran(line, act.target)), reached)
            unnamed = [each for each in left if each.number <= reached and each.path not in landed]
            steps += [Step("unseen", each.path, before=each.before, after=each.after) for each in unnamed]
            left = [each for each in left if each not in unnamed]
    for each in left:
        last = next((n for n in range(len(acts) - 1, -1, -1) if paths[n] == each.path and wrote(acts[n])), None)
        if last is None:
            steps.append(Step("unseen", each.path, before=each.before, after=each.after))
        else:
            place = next(n for n in range(len(steps) - 1, -1, -1) if steps[n].target == acts[last].target)
            steps[place] = replace(steps[place], after=each.after)
    return steps


def wrote(act: Seen) -> bool:
    """Whether it is a write that may have done what it was to do."""
    return act.kind == "write" and act.ok is not False and not act.refused


def ran(command: str, target: str) -> bool:
    """Whether this is the command line that a parser shows as ``target``, which may be cut off."""
    return any(kind == "run" and line[:500] == target[:500] for kind, line in acted(command))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", action="append", choices=list(COUNTS), help="this one alone (may be repeated)")
    parser.add_argument("--only", type=int, help="this task alone, by its number")
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "data" / "admission", help="where they are kept")
    given = parser.parse_args()
    scripted_model.as_call = as_call
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended, and what was made removed
    for engine in given.engine or COUNTS:
        root = Path(tempfile.mkdtemp(prefix="capture-"))
        try:
            world = World(root, engine)
            for number in range(COUNTS[engine]) if given.only is None else [given.only]:
                begun = time.monotonic()
                whole = Turns(world, number).transcript()
                name = f"{engine.replace(':', '-')}-{number:02}-{whole.name}"
                (given.out / f"{name}.jsonl").write_text(written(whole), encoding="utf-8")
                print(f"{name}: {sum(len(one.steps) for one in whole.rounds)} acts, {time.monotonic() - begun:.1f} s")
        finally:
            shutil.rmtree(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
