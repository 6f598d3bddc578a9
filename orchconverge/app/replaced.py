"""Runs a person's own command in place of a step of the chain: an argv, or a prompt for the engine, where the target is.

It runs under a supervisor of its own. Of a step that was lost it is started once more, never beside itself, so it has to
look before it acts, as ours do. What counts is the file that it writes; a mind that ends well and writes none is held
against what git and the forge show.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from orchconverge.app.closing import Closing, end_now
from orchconverge.app.environment import allowed, for_steps
from orchconverge.app.minds import MOST_LOG, granting
from orchconverge.app.trees import Trees
from orchconverge.app.world import OWN, World, marker, step_name
from orchconverge.core.replaced import MOST_WORD, against, prompt, word
from orchconverge.core.secrets import masked
from orchconverge.core.seen import Ended, Exit, Lost, Outcome, Running, Starting, StepResult, Unknown
from orchconverge.core.state import Basin, Run
from orchconverge.core.target import Sha
from orchconverge.core.values import Evidence, Met
from orchconverge.core.views.text import duration, tail
from orchconverge.errors import OrchConvergeError, Refused
from orchconverge.ports import Brief, Spec

RESULT = f"{OWN}/result.json"
ENGINE = "engine"
"""What we keep beside it: which engine it is."""
LATE_SECONDS = 60.0
FLOOR = 5.0
PUSHES = (
    *("git push", "git fetch"),
    *("gh pr view", "gh pr create", "gh pr edit", "gh pr diff", "gh pr checks", "gh pr comment", "gh pr review"),
)
"""What a mind in place of a step may run besides: never a merge."""


def replaced(closing: Closing, basin: Basin, run: Run, step: str) -> StepResult:
    """The step as a person's own command does it. Raises `Refused`, `Failed`."""
    head = closing.git.resolve(f"refs/heads/{basin.target}")
    if head is None:
        return StepResult(status="failed", detail=f"the branch {basin.target} is gone")
    with closing.world() as world:
        result = _Theirs(world, basin, run, step, head).result()
    spoke = bool(result.detail)
    if not spoke:
        result = _seen(closing, basin, run, step, result)
    if (now := closing.git.resolve(f"refs/heads/{basin.target}")) is not None and now != head:
        result = replace(result, detail=f"{result.detail}; it moved {basin.target} to {now:.8}: resume checks that")
    return replace(result, results=_reviewed(closing, basin, head, result, spoke=spoke) if step == "reviewdeep" else ())


class _Theirs:
    """One command of one round."""

    def __init__(self, world: World, basin: Basin, run: Run, step: str, head: Sha) -> None:
        self.world, self.basin, self.run, self.step, self.head = world, basin, run, step, head
        self.words = run.settings.replaced[step]
        self.name = f"{step_name(basin.id, run.epoch, basin.chain.round, step)}.own"
        self.trees = Trees(world, basin.id, own="s")
        digest = hashlib.sha256(self.name.encode()).hexdigest()[:16]
        self.tree = world.trees / f"{self.trees.own}t-{basin.id}.{digest}"

    def result(self) -> StepResult:
        """Start it, or find it, and await its end. A result without a detail is one of a mind that wrote none."""
        supervisors, name = self.world.supervisors, self.name
        try:
            probe = supervisors.probe(name)
            if isinstance(probe, Lost):
                supervisors.kill(name)
            if not isinstance(probe, Ended | Running | Starting | Unknown):
                self._start(self._place())
            self._await()
            return self._read()
        except BaseException:
            end_now(self.world, [name])
            raise
        finally:
            if not isinstance(supervisors.probe(name), Running | Starting):
                self._away()

    # --- where it runs -----------------------------------------------------------------------------------------------

    def _place(self) -> Path:
        """The working tree that has the target checked out: a person's, or one that is made for this."""
        self._away()
        held = self.world.git.checked_out_at(self.basin.target)
        if held is not None:
            return held
        self.world.git.add_worktree(self.tree, branch=self.basin.target, at=self.head)
        return self.tree

    def _away(self) -> None:
        """Take our trees away, also one of a step that was killed, once what is uncommitted there is on a keep-ref."""
        git = self.world.git
        for path in self.trees.checked():
            if (path / ".git").exists():
                git.snapshot(path, f"{self.basin.id}.{self.step}-leftovers")
            git.remove_worktree(path)

    # --- what runs ---------------------------------------------------------------------------------------------------

    def _start(self, place: Path) -> None:
        supervisors = self.world.supervisors
        result = supervisors.subfolder(self.name, OWN) / Path(RESULT).name
        asked = {
            "ORCHCONVERGE_STEP_RESULT": str(result),
            "ORCHCONVERGE_BASIN": self.basin.id,
            "ORCHCONVERGE_TARGET": self.basin.target,
            "ORCHCONVERGE_HEAD": self.head,
        }
        text = prompt(self.words)
        if text:
            self._ask(text, place, result, asked)
            return
        env = {**for_steps(self.world.host.environment()), **asked}
        self._begin(Spec(name=self.name, cwd=place, argv=self.words, env=env))

    def _begin(self, spec: Spec, files: Mapping[str, str] = {}) -> None:
        supervisors = self.world.supervisors
        argv = supervisors.prepare(replace(spec, deadline_seconds=self.run.settings.stepSeconds))
        supervisors.subfolder(self.name, OWN)
        for file, content in files.items():
            supervisors.put(self.name, file, content.encode("utf-8", "replace"))
        supervisors.launch(argv)
        self.world.journal.say(f"{self.step} of round {self.basin.chain.round} is a person's own command")

    def _ask(self, text: str, place: Path, result: Path, asked: Mapping[str, str]) -> None:
        """Start the first engine of the run that can be, with exactly that prompt. Raises `Refused`."""
        supervisors, run, limit = self.world.supervisors, self.run, self.run.limits.usd
        folder = supervisors.folder(self.name)
        brief = Brief(
            text=text,
            text_path=folder / "prompt.md",
            report_path=result,
            folder=folder,
            cwd=place,
            branch="",
            attempt=self.basin.attempts,
            approach=self.step,
            usd=None if limit is None else max(0.01, limit - (self.basin.usage.usd or 0.0)),
        )
        grants = granting(run, self.basin)
        grants = replace(grants, allow=(*grants.allow, *PUSHES))
        refused: list[str] = []
        for chosen in run.settings.engines:
            name, _, model = chosen.partition(":")
            engine = self.world.engines.get(name)
            if engine is None or engine.find() is None:
                refused.append(f"{name} is not installed")
                continue
            try:
                launch = engine.launch(replace(brief, model=model), grants)
            except Refused as refusal:
                refused.append(refusal.message)
                continue
            env = {
                **(self.world.git.author() if launch.identity else {}),
                **allowed(self.world.host.environment(), also=(*engine.variables, *run.settings.env)),
                **launch.env,
                **asked,
                "ORCHCONVERGE_INSIDE": "1",
                "ORCHCONVERGE_BRIEF": str(brief.text_path),
                "ORCHCONVERGE_REPORT": str(result),
                "GIT_REFLOG_ACTION": marker(self.name),
                "GIT_TERMINAL_PROMPT": "0",
                "TMUX_TMPDIR": str(result.parent),
            }
            stdin = brief.text_path if launch.brief_on_stdin else None
            spec = Spec(
                name=self.name,
                cwd=place,
                argv=launch.argv,
                env=env,
                stdin=stdin,
                linger_seconds=launch.linger_seconds,
            )
            self._begin(spec, {**launch.files, brief.text_path.name: text, ENGINE: name})
            return
        raise Refused(f"no engine of the run can be started: {'; '.join(refused)}", hint="orchconverge doctor")

    def _await(self) -> None:
        world = self.world
        ends = world.clock.monotonic() + self.run.settings.stepSeconds + LATE_SECONDS
        while isinstance(world.supervisors.probe(self.name), Running | Starting | Unknown):
            now = world.clock.monotonic()
            if now >= ends:
                world.supervisors.kill(self.name)
                return
            world.wakeups.wait([self.name], until=now + FLOOR)

    # --- what came of it ---------------------------------------------------------------------------------------------

    def _read(self) -> StepResult:
        supervisors, name = self.world.supervisors, self.name
        probe = supervisors.probe(name)
        end = probe.exit if isinstance(probe, Ended) else Exit(reason="killed")
        engine = self.world.engines.get((supervisors.get(name, ENGINE) or b"").decode("utf-8", "replace"))
        outcome = engine.read(supervisors.log(name, most_bytes=MOST_LOG)) if engine is not None else Outcome()
        result = self._told(end, outcome, mind=engine is not None)
        return replace(result, usage=outcome.usage)

    def _told(self, end: Exit, outcome: Outcome, *, mind: bool) -> StepResult:
        if end.reason == "deadline":
            return _failed(f"it did not end within {duration(self.run.settings.stepSeconds)}")
        if end.reason != "exited":
            return _failed(f"it could not be run: {end.error}" if end.error else f"it was {end.reason}")
        data = self.world.supervisors.get(self.name, RESULT, most_bytes=MOST_WORD + 1)
        ended = f"exit {end.code}" if end.signal is None else f"signal {end.signal}"
        output = end.error or ((outcome.error or outcome.summary) if mind else self._output())
        said = f": {tail(masked(output), 300)}" if output.strip() else ""
        if mind and (outcome.limit is not None or outcome.auth_failed):
            return _failed(f"its mind could not work{said}")
        if data is None and mind and end.code == 0:
            return StepResult(status="done", detail="")
        if data is None:
            return _failed(f"{ended}, and nothing was written to ORCHCONVERGE_STEP_RESULT{said}")
        try:
            result = word(data)
        except ValueError as error:
            return _failed(f"{ended}, and what it wrote to ORCHCONVERGE_STEP_RESULT cannot be read: {error}")
        if result.status == "done" and end.code != 0:
            return _failed(f"it says that it is done, and ended with {ended}{said}")
        if result.commit is not None and self.world.git.resolve(result.commit) is None:
            return _failed(f"it names the commit {result.commit:.8}, which is not here")
        return result

    def _output(self) -> str:
        return self.world.supervisors.log(self.name, most_bytes=4096).decode("utf-8", "replace")


def _failed(detail: str) -> StepResult:
    return StepResult(status="failed", detail=detail)


def _seen(closing: Closing, basin: Basin, run: Run, step: str, result: StepResult) -> StepResult:
    """What git and the forge show where a mind ended well and said nothing: a push that nobody sees was none."""
    git, remote, target = closing.git, run.settings.remote, basin.target
    head = git.resolve(f"refs/heads/{target}")
    there = git.resolve(f"refs/remotes/{remote}/{target}")
    url = None
    with suppress(OrchConvergeError):
        pull = closing.forge(basin, run).find(target)
        if pull is not None and pull.state == "open":
            url, there = pull.url or None, pull.head or there
    said = f"{prompt(run.settings.replaced[step])} ended well and wrote no result"
    stands = f"{remote} has {target} at {there:.8}" if there is not None else f"{remote} is not seen to have {target}"
    missed = step == "pushl" and there != head
    return replace(
        result,
        status="failed" if missed else "done",
        detail=f"{said}; {stands}",
        url=url,
        commit=head if not missed else None,
    )


def _reviewed(closing: Closing, basin: Basin, head: Sha, result: StepResult, *, spoke: bool) -> tuple[Evidence, ...]:
    """What a review by a command of a person's own says of criteria of kind review: silence is no consent."""
    critical, tree = against(result.findings), closing.git.tree_of(head)
    met: Met = "error" if result.status != "done" or not spoke else "no" if critical else "yes"
    return tuple(
        Evidence(criterion=c.name, met=met, tree=tree, excerpt=(critical or result.detail)[:2048])
        for c in basin.criteria
        if c.kind == "review"
    )
