"""Starts the minds of a review and reads what they answer: each in a folder of its own, with a tree of its own to read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Generic, TypeVar

from msgspec import Struct

from orchconverge.app.closing import end_now
from orchconverge.app.judging import Judges
from orchconverge.app.trees import Trees
from orchconverge.app.world import World
from orchconverge.core.overlap import Difference
from orchconverge.core.review_questions import Subject
from orchconverge.core.seen import Ended, Exit, Lost, Running, Starting, Unknown
from orchconverge.core.state import Basin, Run
from orchconverge.core.target import Sha
from orchconverge.core.values import Usage, added
from orchconverge.errors import OrchConvergeError
from orchconverge.ports.forge import PullRequest

MIND_SECONDS = 1200.0
"""How long one review mind has. The tracks are read side by side, and then scored."""
LATE_SECONDS = 60.0
"""How much longer than its deadline a mind is waited for, whose supervisor sees to that."""
FLOOR = 5.0
VOID = "void"
"""Why an answer counts for nothing, kept beside it: it is asked for anew by the next step, and not by this one."""
T = TypeVar("T")


class Change(Struct, frozen=True, kw_only=True):
    """What is reviewed: ``base`` to ``head``, and the pull request if one was named. ``key`` is its name in markers."""

    key: str
    base: Sha
    head: Sha
    tree: Sha
    difference: Difference
    subject: Subject
    pull: PullRequest | None = None


class Answer(Struct, Generic[T], frozen=True, kw_only=True):
    """What a mind said, or ``why`` it said nothing that counts; its engine, and where it read the tree."""

    value: T | None = None
    why: str = ""
    engine: str = ""
    root: str = ""


class Places(Trees):
    """The tree that one mind reads."""

    def read(self, tree: Sha) -> Path:
        """A place of its own, so that who changes a tree spoils no other's."""
        named = hashlib.sha256(f"{tree}\0{self.part}".encode()).hexdigest()[:15]
        return self.world.trees / f"{self.own}t-{self.basin}.r{named}"

    def __init__(self, world: World, basin: str, part: str) -> None:
        super().__init__(world, basin)
        self.part = part


class Minds:
    """The minds of one review, by part: a track, or the scoring. What one answered about the same change is found again."""

    def __init__(self, world: World, basin: Basin, run: Run, change: Change, *, anew: bool) -> None:
        self.world, self.basin, self.run, self.change = world, basin, run, change
        once = world.host.random() if anew else ""
        told = "\0".join((change.base, change.subject.target, change.subject.patch, once))
        self.digest = hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()
        self.usage: Usage | None = None

    def author(self) -> tuple[str, str]:
        """The engine and the model that made what is reviewed, as far as it is known."""
        made = Judges(self.world, Trees(self.world, self.basin.id)).author(self.basin, self.change.head)
        name, _, model = self.run.settings.engines[0].partition(":")
        return (made.engine, made.model) if made is not None else (name, model)

    def ask(
        self,
        questions: Mapping[str, Callable[[str, str], str]],
        read: Callable[[bytes | None], T],
        wanted: Sequence[str],
    ) -> dict[str, Answer[T]]:
        """Ask all at once and await the answers. A question is made of where the tree is and which file is the answer."""
        found: dict[str, Answer[T]] = {}
        awaited: dict[str, tuple[str, Judges, bool]] = {}
        names: list[str] = []
        try:
            for part, question in questions.items():
                name = self._name(part, question("", ""))
                names.append(name)
                judges = Judges(self.world, Places(self.world, self.basin.id, name))
                before = isinstance(self.world.supervisors.probe(name), Ended)
                why = self._begin(name, part, question, judges, wanted)
                awaited |= {part: (name, judges, before)} if not why else {}
                found |= {part: Answer(why=why)} if why else {}
            self._await([name for name, _, _ in awaited.values()])
        except BaseException:  # nobody waits any more, so nobody may work any more
            end_now(self.world, names)
            for name in names:
                self._away(Places(self.world, self.basin.id, name).read(self.change.tree))
            raise
        return {**found, **{part: self._heard(*there, read) for part, there in awaited.items()}}

    def _name(self, part: str, asked: str) -> str:
        """The supervised name: that of a mind that was asked the same, and runs or whose answer counts, else a new one."""
        supervisors = self.world.supervisors
        digest = hashlib.sha256(f"{self.digest}\0{asked}".encode("utf-8", "surrogateescape")).hexdigest()[:16]
        for tries in count(1):
            name = f"steps/{self.basin.id}.review.{digest}.{part}.{tries}"
            if not isinstance(supervisors.probe(name), Ended) or supervisors.get(name, VOID) is None:
                return name
        raise AssertionError

    def _begin(
        self, name: str, part: str, question: Callable[[str, str], str], judges: Judges, wanted: Sequence[str]
    ) -> str:
        supervisors, change = self.world.supervisors, self.change
        if not wanted:
            return "a program reviews only where a criterion of kind review asks for it"
        probe = supervisors.probe(name)
        if isinstance(probe, Ended | Running | Starting | Unknown):
            return ""
        if isinstance(probe, Lost):
            supervisors.kill(name)
        tree = judges.trees.to_read(change.tree, change.head)
        why = judges.begin(
            self.basin,
            self.run,
            name=name,
            text=question(str(tree), str(judges.answer_of(name))),
            tree=tree,
            what=f"review-{part}",
            deadline_seconds=MIND_SECONDS,
            wanted=wanted,
            author=self.author()[0],
        )
        if why:
            self._away(tree)
        return why

    def _away(self, tree: Path) -> None:
        try:
            self.world.git.remove_worktree(tree)
        except OrchConvergeError as error:
            self.world.journal.say(f"kept {tree.name}: {error.message}")

    def _await(self, names: Sequence[str]) -> None:
        world = self.world
        ends = world.clock.monotonic() + MIND_SECONDS + LATE_SECONDS
        while running := [n for n in names if isinstance(world.supervisors.probe(n), Running | Starting | Unknown)]:
            now = world.clock.monotonic()
            if now >= ends:
                for name in running:
                    world.supervisors.kill(name)
                return
            world.wakeups.wait(running, until=now + FLOOR)

    def _heard(self, name: str, judges: Judges, before: bool, read: Callable[[bytes | None], T]) -> Answer[T]:
        probe = self.world.supervisors.probe(name)
        end = probe.exit if isinstance(probe, Ended) else Exit(reason="killed")
        heard = judges.heard(self.change.tree, name, end)
        if not before:
            self.usage = added(self.usage or Usage(), heard.outcome.usage)
        why, value = heard.why, None
        if not why:
            try:
                value = read(heard.answer)
            except ValueError as error:
                said = heard.outcome.error or heard.outcome.summary
                why = f"{error}" + (f": {said[:300]}" if said else "")
        if why:
            self.world.supervisors.put(name, VOID, why.encode("utf-8", "replace"))
        root = str(judges.trees.read(self.change.tree))
        return Answer(value=value, why=why, engine=heard.who.judge.partition(":")[0], root=root)
