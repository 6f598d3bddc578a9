"""The mind of a step that puts something right, in a tree of its own with nothing to push with, and the gate it passes.

What it made and what it answered lie in a folder whose name says what it was asked, so that after a kill it is found again.
"""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from orchconverge.app.closing import end_now
from orchconverge.app.environment import allowed, in_worktree
from orchconverge.app.judging import NOTHING_TO_PUSH_WITH
from orchconverge.app.lock import Lock
from orchconverge.app.minds import MOST_LOG, granting
from orchconverge.app.trees import Trees
from orchconverge.app.world import OWN, World, marker
from orchconverge.core import fixing, judge
from orchconverge.core.actions import Action
from orchconverge.core.comments import Item, Scope, Verdict
from orchconverge.core.events import BasinChecked
from orchconverge.core.fixing import MOST_ANSWER, Done, Told, answers
from orchconverge.core.seen import Ended, Exit, Lost, Outcome, Running, Seen, Starting, Unknown
from orchconverge.core.state import Basin, Run, State, Tip
from orchconverge.core.target import Sha
from orchconverge.core.values import Evidence, Usage
from orchconverge.core.views import comments as words
from orchconverge.errors import OrchConvergeError, Refused
from orchconverge.ports import Brief, Spec

MIND_SECONDS = 900.0
"""How long the mind of a round has, at most: a step of the chain has an hour for all of them and their checks."""
LATE_SECONDS = 60.0
FLOOR = 5.0
MOST_COMMITS = 100
"""Commits of one mind that are told apart."""
ANSWER = f"{OWN}/answer.json"
VOID, PLAN, WHO, STANDS = "void", "plan.json", "who", "stands"
"""What we keep beside an answer: why it counts for nothing, what came of it, whose it is, and which commit goes with it."""


class Plan(Struct, frozen=True, kw_only=True):
    """What came of a round, by comment, written before the target is moved to ``commit``; ``None``: it is not moved.

    ``commits`` are all that are put on it, ``checks`` those of the round's items that were failed checks, ``said`` the words
    of the others as the mind had them.
    """

    commit: Sha | None
    verdicts: Mapping[str, Verdict]
    commits: tuple[Sha, ...] = ()
    checks: tuple[Item, ...] = ()
    said: Mapping[str, str] = {}

    def edited(self, items: Sequence[Item]) -> frozenset[str]:
        """The comments that say something else by now: no outcome of what they said is one of theirs."""
        return frozenset(item.key for item in items if self.said.get(item.key, item.words) != item.words)


class Made(Struct, frozen=True, kw_only=True):
    """What a mind left: what it says, and the commit it stands at, which descends from where it began.

    ``why`` what it left counts for nothing; ``root`` is the tree as it knew it. ``unusable`` names its engine, if that is at a
    limit or not signed in.
    """

    name: str
    told: tuple[Told, ...] = ()
    head: Sha | None = None
    usage: Usage | None = None
    why: str = ""
    root: str = ""
    unusable: str = ""


class Ours(Struct, frozen=True, kw_only=True):
    """A fix as a commit of ours, on the one before; ``keys`` are the comments that it puts right."""

    commit: Sha
    tree: Sha
    keys: tuple[str, ...]


class Passed(Struct, frozen=True, kw_only=True):
    """How many of some fixes may be taken, with what holds on the last of them, and why the next one is ``refused``.

    ``grown`` are its paths that led out of scope, if that is why.
    """

    number: int = 0
    evidence: tuple[Evidence, ...] = ()
    refused: Verdict | None = None
    grown: tuple[str, ...] = ()


class Desk(Trees):
    """Where the mind of one round works."""

    def __init__(self, world: World, basin: str, name: str) -> None:
        super().__init__(world, basin, own="c")
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        self.path = world.trees / f"{self.own}t-{basin}.{digest}"
        self.kept = f"{basin}.copilot-{digest}"

    def made_at(self, head: Sha, *, setup: str) -> str:
        """Make the tree anew. Returns the name of the setup that still runs, or an empty string. Raises `SetupFailed`."""
        if self.path not in self.ready:
            self.away()
        return self._make(self.path, branch=None, at=head, setup=setup)

    def away(self) -> None:
        """Remove the tree, once what is in it is on keep-refs."""
        git = self.world.git
        if (self.path / ".git").exists():
            head = git.checkout(self.path).head
            if head is not None:
                git.keep(self.kept, head)
            git.snapshot(self.path, f"{self.kept}-leftovers")
        self._remove(self.path)


class Fixers:
    """The minds of one basin's copilot, one a round."""

    def __init__(self, world: World, basin: Basin, run: Run) -> None:
        self.world, self.basin, self.run = world, basin, run
        self.prefix = f"steps/{basin.id}.copilot."
        self.unusable: frozenset[str] = frozenset()

    def plans(self) -> list[Plan]:
        """What came of all rounds so far, in no order."""
        found = []
        for name in self.world.supervisors.found(self.prefix):
            data = self.world.supervisors.get(name, PLAN)
            with suppress(msgspec.MsgspecError):  # as after a version of ours that wrote it in another way
                found += [msgspec.json.decode(data, type=Plan)] if data is not None else []
        return found

    def planned(self, made: Made, plan: Plan) -> None:
        """Write down what comes of a round."""
        self.world.supervisors.put(made.name, PLAN, msgspec.json.encode(plan))

    def name(self, asked: str) -> str:
        """The supervised name: that of a mind that was asked the same, and runs or whose answer counts, else a new one."""
        supervisors = self.world.supervisors
        digest = hashlib.sha256(asked.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        for tries in count(1):
            name = f"{self.prefix}{digest}.{tries}"
            if supervisors.get(name, VOID) is None:
                return name
        raise AssertionError

    def ask(self, asked: str, question: Callable[[Path], str], *, head: Sha, number: int) -> Made:
        """Have the mind of a round work on ``head``, or find what it did, and await its end. Raises `Refused`, `Failed`.

        ``asked`` is what tells its task from others; the ``question`` is made of the file that it answers in.
        """
        supervisors, names = self.world.supervisors, [each.partition(":")[0] for each in self.run.settings.engines]
        while True:
            name = self.name(asked)
            self._end_all_but(name)
            before = isinstance(supervisors.probe(name), Ended)
            made = self._made(name, question, head, number)
            if not made.why:
                return replace(made, usage=None) if before else made
            supervisors.put(name, VOID, made.why.encode("utf-8", "replace"))
            self.unusable |= {made.unusable} if made.unusable else frozenset()
            if not before and (not made.unusable or self.unusable.issuperset(names)):
                return made

    def _end_all_but(self, name: str) -> None:
        """End the minds of a step that was killed and asked something else, and remove their trees."""
        probe = self.world.supervisors.probe
        others = [other for other in self.world.supervisors.found(self.prefix) if other != name]
        end_now(self.world, [other for other in others if isinstance(probe(other), Running | Starting)])
        for desk in (Desk(self.world, self.basin.id, other) for other in others):
            if desk.path.exists():
                desk.away()

    def _made(self, name: str, question: Callable[[Path], str], head: Sha, number: int) -> Made:
        supervisors, desk = self.world.supervisors, Desk(self.world, self.basin.id, name)
        probe = supervisors.probe(name)
        if isinstance(probe, Lost):
            supervisors.kill(name)
        setups: list[str] = []
        try:
            if not isinstance(probe, Ended | Running | Starting | Unknown):
                while awaited := desk.made_at(head, setup=self.run.settings.setup):
                    setups = [awaited]
                    self.world.wakeups.wait(setups, until=self.world.clock.monotonic() + FLOOR)
                self._start(name, question(supervisors.folder(name) / ANSWER), desk, number=number)
            self._await(name)
        except BaseException:  # nobody waits any more, so nobody may work any more
            end_now(self.world, [*setups, name])
            desk.away()
            raise
        made = self._read(name, desk, head)
        desk.away()
        return made

    def _start(self, name: str, text: str, desk: Desk, *, number: int) -> None:
        supervisors, settings = self.world.supervisors, self.run.settings
        report = supervisors.subfolder(name, OWN) / "answer.json"
        limit, spent = self.run.limits.usd, self.basin.usage.usd or 0.0
        brief = Brief(
            text=text,
            text_path=supervisors.folder(name) / "brief.md",
            report_path=report,
            folder=supervisors.folder(name),
            cwd=desk.path,
            branch="",
            attempt=number,
            approach="copilot",
            usd=None if limit is None else max(0.01, limit - spent),
        )
        refused: list[str] = []
        for chosen in settings.engines:
            engine_name, _, model = chosen.partition(":")
            engine = self.world.engines.get(engine_name)
            if engine_name in self.unusable:
                refused.append(f"{engine_name} is at a limit or not signed in")
                continue
            if engine is None or engine.find() is None:
                refused.append(f"{engine_name} is not installed")
                continue
            try:
                launch = engine.launch(replace(brief, model=model), granting(self.run, self.basin))
            except Refused as refusal:
                refused.append(refusal.message)
                continue
            given = allowed(self.world.host.environment(), also=(*engine.variables, *settings.env))
            kept = {n: v for n, v in given.items() if not any(fnmatch.fnmatchcase(n, p) for p in NOTHING_TO_PUSH_WITH)}
            env = {
                **(self.world.git.author() if launch.identity else {}),
                **kept,
                **launch.env,
                "ORCHCONVERGE_INSIDE": "1",
                "ORCHCONVERGE_BRIEF": str(brief.text_path),
                "ORCHCONVERGE_REPORT": str(report),
                **in_worktree(f"{self.basin.id}.{self.basin.branches + 1}", where=str(self.world.git.common_dir)),
                "GIT_REFLOG_ACTION": marker(name),
                "GIT_ALLOW_PROTOCOL": "none",  # git reaches no other repository, not even beside it
                "GIT_TERMINAL_PROMPT": "0",
                "TMUX_TMPDIR": str(report.parent),
            }
            spec = Spec(
                name=name,
                cwd=desk.path,
                argv=launch.argv,
                env=env,
                stdin=brief.text_path if launch.brief_on_stdin else None,
                deadline_seconds=min(MIND_SECONDS, settings.attemptSeconds),
                linger_seconds=launch.linger_seconds,
            )
            argv = supervisors.prepare(spec)
            supervisors.subfolder(name, OWN)
            supervisors.put(name, brief.text_path.name, text.encode("utf-8", "replace"))
            supervisors.put(name, WHO, chosen.encode("utf-8", "replace"))
            for file, content in launch.files.items():
                supervisors.put(name, file, content.encode("utf-8", "replace"))
            supervisors.launch(argv)
            self.world.journal.say(f"{chosen} puts right what is said of {self.basin.target}, round {number}")
            return
        desk.away()
        raise Refused(f"no engine of the run can be started: {'; '.join(refused)}", hint="orchconverge doctor")

    def _await(self, name: str) -> None:
        world = self.world
        ends = world.clock.monotonic() + MIND_SECONDS + LATE_SECONDS
        while isinstance(world.supervisors.probe(name), Running | Starting | Unknown):
            now = world.clock.monotonic()
            if now >= ends:
                world.supervisors.kill(name)
                return
            world.wakeups.wait([name], until=now + FLOOR)

    def _read(self, name: str, desk: Desk, head: Sha) -> Made:
        supervisors, git = self.world.supervisors, self.world.git
        probe = supervisors.probe(name)
        end = probe.exit if isinstance(probe, Ended) else Exit(reason="killed")
        chosen = (supervisors.get(name, WHO) or b"").decode("utf-8", "replace").partition(":")[0]
        engine = self.world.engines.get(chosen)
        outcome = engine.read(supervisors.log(name, most_bytes=MOST_LOG)) if engine is not None else Outcome()
        made = Made(name=name, usage=outcome.usage, root=str(desk.path))
        if end.reason != "exited":
            return replace(
                made, why=f"its mind did not end by itself: {end.reason} after {end.seconds:.0f} s {end.error}".rstrip()
            )
        if outcome.limit is not None or outcome.auth_failed:
            why = f"its mind could not work: {outcome.error[:300] or f'{chosen} is at a limit'}"
            return replace(made, why=why, unusable=chosen)
        answer = supervisors.get(name, ANSWER, most_bytes=MOST_ANSWER + 1)
        if answer is None:
            said = outcome.error or outcome.summary
            return replace(made, why=f"its mind left no answer, exit {end.code}" + (f": {said[:300]}" if said else ""))
        try:
            told = answers(answer)
            stands = self._stands(name, desk, commit=engine is not None and not engine.commits)
        except ValueError as error:
            return replace(made, why=f"its mind's word counts for nothing: {error}")
        except OrchConvergeError as error:
            return replace(made, why=f"what its mind left cannot be read: {error.message}")
        if stands != head and not git.work(head, stands).descends:
            return replace(made, why="its mind left commits that do not descend from what it was given")
        return replace(made, told=told, head=stands if stands != head else None)

    def _stands(self, name: str, desk: Desk, *, commit: bool) -> Sha:
        """The commit that a mind left, looked at once and kept. ``commit``: what it left is committed for it."""
        supervisors, git = self.world.supervisors, self.world.git
        known = supervisors.get(name, STANDS)
        if known is not None:
            return Sha(known.decode())
        if commit:
            git.commit_all(desk.path, "what was left uncommitted\n", marker=marker(name))
        stands = git.checkout(desk.path).head
        if stands is None:
            raise Refused(f"{desk.path.name} has no HEAD")
        git.keep(desk.kept, stands)
        supervisors.put(name, STANDS, stands.encode())
        return stands


class Gate(Lock):
    """The target's lock, for a commit that no branch of the ledger has."""

    def ours(self, tip: Tip, made: Made, items: Sequence[Item]) -> list[Ours]:
        """What a mind made, one commit of ours on the other, each with the comments that it puts right."""
        git, found = self.world.git, list[Ours]()
        if made.head is None or git.tree_of(made.head) == tip.tree:
            return found
        parent, tree = tip.head, tip.tree
        for fix in fixing.fixes(items, made.told, self._done(tip.head, made.head)):
            before, tree = tree, git.tree_of(fix.commit)
            if tree != before:
                message = words.message(self.basin, [item for item in items if item.key in fix.keys])
                parent = git.commit_tree(tree, parent=parent, message=message)
                found.append(Ours(commit=parent, tree=tree, keys=fix.keys))
        return found

    def _done(self, base: Sha, head: Sha) -> tuple[Done, ...]:
        """The commits from ``base`` to ``head``, oldest first; one for all where they are no line, or too many."""
        git = self.world.git
        line = [base, *(commit.sha for commit in reversed(git.work(base, head).commits))]
        works = [git.work(*two) for two in pairwise(line)] if len(line) <= MOST_COMMITS else []
        if works and all(work.descends and len(work.commits) == 1 for work in works):
            return tuple(Done(commit=work.head, changed=work.changed) for work in works)
        return (Done(commit=head, changed=git.changed(base, head)),)

    def passing(self, tip: Tip, fixes: Sequence[Ours], scope: Scope) -> Passed:
        """How many of the fixes, from the first on, may be taken: nothing is lost by them, and nothing speaks against one."""
        passed, number = Passed(), 0
        for fix in fixes:
            refused, grown = fixing.objection(self.world.git.work(tip.head, fix.commit), scope)
            if refused is not None:
                passed = Passed(refused=refused, grown=grown)
                break
            number += 1
        while number:
            last = fixes[number - 1]
            evidence = self.weigh(tip, last.commit, last.tree)
            lost = judge.lost(tip.results, {x.criterion: x for x in evidence})
            if not lost:
                return replace(passed, number=number, evidence=evidence)
            reason = f"what was tried loses {', '.join(lost)}, and was not taken"
            passed, number = Passed(refused=Verdict(outcome="not_done", reason=reason)), number - 1
        return passed

    def weigh(self, tip: Tip, commit: Sha, tree: Sha) -> tuple[Evidence, ...]:
        """The criteria of the loop on exactly this tree."""
        criteria = [c for c in self.basin.criteria if c.in_loop]
        found = judge.Answers()

        def step(state: State, seen: Seen, basin: Basin) -> list[Action]:
            nonlocal found
            found = judge.answers(
                state, seen, criteria=criteria, tree=tree, commit=commit, place="fresh", before=tip.results
            )
            return list(found.missing)

        self._until_nothing_is_missing(step)
        return found.evidence

    def land(self, tip: Tip, commit: Sha, tree: Sha, evidence: tuple[Evidence, ...]) -> None:
        """Move the target there and record what holds. Raises `Refused` if something stands in the way."""
        if not self.world.git.advance(self.basin.target, new=commit, old=tip.head):
            raise Refused(f"{self.basin.target} moved meanwhile: nothing was taken", hint="the same command once more")
        self.write(BasinChecked(basin=self.name, head=commit, tree=tree, results=evidence))
