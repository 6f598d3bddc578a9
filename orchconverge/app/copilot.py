"""The step `copilot`: what is said of the pull request is verified, put right under the criteria, and answered once.

A mind gets comments as data and makes a commit that no ref has; what moves the target is our commit of exactly that tree,
after the criteria lost nothing on it. What came of a round is written down before the target moves, so that after a kill
between any two calls the rest is done and nothing twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from orchconverge.app.closing import REPORTS, Closing, moved
from orchconverge.app.fixers import Fixers, Gate, Made, Plan
from orchconverge.app.hearing import MARK, News, news
from orchconverge.app.world import World
from orchconverge.core import comments, fixing, judge
from orchconverge.core.comments import BOTS, Heard, Item, Scope, Verdict
from orchconverge.core.events import AnyFact, StepEnded
from orchconverge.core.seen import StepResult
from orchconverge.core.state import Basin, Run, Tip
from orchconverge.core.target import Sha
from orchconverge.core.values import Evidence, StepStatus, Usage, added
from orchconverge.core.views import comments as words
from orchconverge.core.views import pull_request
from orchconverge.errors import OrchConvergeError, Refused
from orchconverge.ports.forge import Forge, PullRequest

MOST_ROUNDS = 3
DECIDED = "auto: copilot, nothing lost"


class Asked(Struct, frozen=True, kw_only=True):
    """What a person asks for. ``pull`` is a pull request whoever opened it; ``anew``: rounds of earlier steps do not count."""

    pull: int | None = None
    most_rounds: int = MOST_ROUNDS
    bots: tuple[str, ...] = BOTS
    anew: bool = False


IN_CHAIN = Asked()


def copilot(
    closing: Closing, basin: Basin, run: Run, facts: Sequence[AnyFact], *, asked: Asked = IN_CHAIN
) -> StepResult:
    """Work through what is said on the pull request of a basin, until the brake stops it. Never merges."""
    forge = closing.forge(basin, run)
    if forge.kind == "local":
        detail = f"no forge is known for {run.settings.remote}: nothing is said there that could be heard"
        return StepResult(status="skipped", detail=detail)
    pull = forge.find(basin.target) if asked.pull is None else forge.numbered(asked.pull)
    if pull is None or pull.state != "open":
        what = (
            f"{basin.target} has no open pull request"
            if pull is None
            else f"pull request {pull.number} is {pull.state}"
        )
        return StepResult(status="skipped", detail=f"{what}: `orchconverge pushl` opens one")
    if pull.branch != basin.target:
        raise Refused(
            f"pull request {pull.number} is of {pull.branch}, and {basin.id} is about {basin.target}",
            hint=f'its criteria say nothing there: orchconverge "…" --into {pull.branch}',
        )
    if asked.pull is None and not _ours(forge, pull, facts):
        detail = (
            f"pull request {pull.number} was not opened by this run: `orchconverge copilot {pull.number}` works on it"
        )
        return StepResult(status="skipped", detail=detail, url=pull.url or None)
    if basin.target == closing.git.default_branch(run.settings.remote):
        detail = f"{basin.target} is the default branch, which is never pushed unasked"
        return StepResult(status="skipped", detail=detail, url=pull.url or None)
    with closing.world() as world:
        world.ledger.catch_up()
        return _Copilot(
            dataclasses.replace(world, allowed=run.settings.env), basin.id, run, forge, pull, asked
        ).result()


def _ours(forge: Forge, pull: PullRequest, facts: Sequence[AnyFact]) -> bool:
    """Whether a step of this ledger opened it, or, as one alone leaves no record, this account with our description."""
    if any(isinstance(fact, StepEnded) and fact.step == "pushl" and fact.url == pull.url for fact in facts):
        return True
    return pull_request.BEGIN in pull.body and pull.author == forge.me()


class _Over(Exception):
    """The step ends before the brake stops it."""

    def __init__(self, status: StepStatus, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class _Copilot:
    """One step on one pull request. ``verdicts`` is what became of each comment so far."""

    def __init__(self, world: World, basin: str, run: Run, forge: Forge, pull: PullRequest, asked: Asked) -> None:
        self.world, self.name, self.run, self.forge, self.pull, self.asked = world, basin, run, forge, pull, asked
        self.verdicts: dict[str, Verdict] = {}
        self.heard = Heard(items=(), strangers=())
        self.news = News(said=(), comments={}, threads={}, answers={}, notes=())
        self.answered: set[str] = set()
        self.tried: set[tuple[str, ...]] = set()
        self.known: set[str] = set()
        self.rounds = 0
        self.usage: Usage | None = None
        self.notes: list[str] = []

    @property
    def basin(self) -> Basin:
        """The basin as the ledger has it now."""
        return self.world.ledger.state.basins[self.name]

    @property
    def fixers(self) -> Fixers:
        """The minds of this step and of those before."""
        return Fixers(self.world, self.basin, self.run)

    def head(self) -> Sha:
        """Where the target stands."""
        head = self.world.git.resolve(f"refs/heads/{self.basin.target}")
        if head is None:
            raise _Over("failed", f"the branch {self.basin.target} is gone")
        return head

    def result(self) -> StepResult:
        """Rounds until one is the last, then the tracking table."""
        status: StepStatus = "done"
        try:
            try:
                stopped = self._rounds()
            except _Over as over:
                status, stopped = over.status, over.why
            self._track()
        except OrchConvergeError as error:
            status, stopped = "failed", error.message + (f" ({error.hint})" if error.hint else "")
        told = words.outcome(self.heard, self.verdicts, rounds=self.rounds, stopped=stopped)
        detail = "; ".join((f"pull request {self.pull.number}: {told}", *dict.fromkeys(self.notes)))
        return StepResult(
            status=status,
            detail=detail[:2000],
            url=self.pull.url or None,
            commit=self.world.git.resolve(f"refs/heads/{self.basin.target}"),
            findings=words.recorded(self.heard, self.verdicts),
            usage=self.usage,
        )

    def _rounds(self) -> str:
        self._recover()
        landed = self._landed()
        before = 0 if self.asked.anew else len(landed)
        while True:
            self._push()
            repeats = self._heard_out()
            todo = comments.once(item for item in self.heard.items if item.key not in self.verdicts)
            why = comments.brake(
                todo, rounds=self.rounds + before, most=self.asked.most_rounds, tried=self.tried, repeats=repeats
            )
            if why:
                return why if self.rounds or todo or repeats else "nothing actionable was said"
            grown = self._round(todo[: comments.MOST_ITEMS])
            if grown:
                self._answer_all()
                return f"the scope grows past the target: {', '.join(grown[:3])}"

    # --- the target --------------------------------------------------------------------------------------------------

    def _landed(self) -> dict[Sha, Plan]:
        """The rounds whose commit is on the target, by that commit."""
        base, head = Sha(self.run.settings.base), self.head()
        there = {c.sha for c in self.world.git.work(base, head).commits} if base != head else set()
        return {plan.commit: plan for plan in self.fixers.plans() if plan.commit in there and plan.commit is not None}

    def _recover(self) -> None:
        """Put a commit of ours on record that a killed step landed; what else moved the target is not ours to take over."""
        git, basin, head = self.world.git, self.basin, self.head()
        why = moved(git, basin, head)
        if not why:
            return
        ours = self._landed()
        work = git.work(basin.tip.head, head) if basin.tip is not None else None
        if work is None or not work.descends or not all(commit.sha in ours for commit in work.commits):
            raise _Over("failed", why)
        with Gate.taken(self.world, self.name, decided_by=DECIDED) as gate:
            gate.stand()

    def _push(self) -> None:
        """Bring what is judged onto the pull request's branch, if it is not there."""
        head, remote = self.head(), self.run.settings.remote
        if self.pull.head == head:
            return
        if why := moved(self.world.git, self.basin, head):
            raise _Over("failed", why)
        went, said = self.world.git.push(remote, head, self.basin.target)
        if not went:
            ahead = "fast-forward" in said or "fetch first" in said
            what = f": `git fetch {remote}` and merge what is there, then resume" if ahead else ""
            raise _Over("failed", f"{head:.8} is not on the pull request, push to {remote} failed: {said}{what}")
        self.pull = replace(self.pull, head=head)

    # --- what is said ------------------------------------------------------------------------------------------------

    def _heard_out(self) -> bool:
        """Listen and answer, and once more to what is said meanwhile: a bot that answers each answer is not waited for."""
        self._listen()
        before, repeats = len(self.answered), self._answer_all()
        if len(self.answered) == before:
            return repeats
        self._listen()
        return self._answer_all() or repeats

    def _listen(self) -> None:
        """Read what is said, and what became of it before."""
        self.news = news(self.forge, self.pull.number, self.head())
        self.notes += self.news.notes
        there = {said.key for said in self.news.said}
        failed = [item for item in self.heard.items if item.said.kind == "check" and item.key not in there]
        heard = comments.heard(self.news.said, bots=self.asked.bots, answered=self.news.answers)
        self.heard = replace(heard, items=(*failed, *heard.items))
        self.answered = set(self.news.answers)
        landed = self._landed()
        plans = [plan for plan in self.fixers.plans() if plan.commit is None or plan.commit in landed]
        for known in (self.news.answers, *(plan.verdicts for plan in plans)):
            for key, verdict in known.items():
                if verdict is not None:
                    self.verdicts.setdefault(key, verdict)

    def _scope(self) -> Scope:
        basin, base, head = self.basin, Sha(self.run.settings.base), self.head()
        changed = self.world.git.work(base, head).changed if base != head else ()
        told = [basin.goal, basin.macrostate, *(f"{c.text} {' '.join(c.paths)}" for c in basin.criteria)]
        return Scope(
            changed=frozenset(path for path in changed if not path.startswith(f"{REPORTS}/")),
            target="\n".join([*told, *(stage.output for stage in basin.stages)]),
            criteria=basin.criteria,
            may_change=basin.may_change,
        )

    def _answer_all(self) -> bool:
        """Settle what needs no mind and answer all that is settled. Whether something new was said that was said before."""
        head, scope = self.head(), self._scope()
        open_ = [item for item in self.heard.items if item.key not in self.verdicts]
        paths = sorted({path for item in open_ for path in item.paths})
        held = self.world.git.compare.files(self.world.git.tree_of(head), paths) if paths else {}
        files = {path: data.decode("utf-8", "replace") for path, data in held.items()}
        repeats = False
        for item in open_:
            verdict = comments.settled(item, scope, files, head=head)
            if verdict is not None:
                self.verdicts[item.key] = verdict
        for item in open_:
            known = [(other, self.verdicts.get(other.key)) for other in self.heard.items]
            again = comments.repeated(item, known) if item.key not in self.verdicts else None
            if again is not None:
                self.verdicts[item.key] = again
                repeats = repeats or item.key not in self.known
        self.known |= {item.key for item in self.heard.items}
        for item in self.heard.items:
            self._answer(item)
        return repeats

    def _answer(self, item: Item) -> None:
        """Say what became of a comment, once, and resolve its thread if it was put right."""
        verdict, comment = self.verdicts.get(item.key), self.news.comments.get(item.key)
        if verdict is None or comment is None:
            return
        if item.key not in self.answered:
            self.forge.answer(self.pull.number, comment, words.answer(verdict), marker=MARK.format(item.key))
            self.answered.add(item.key)
        thread = self.news.threads.get(item.said.root)
        if verdict.outcome == "fixed" and thread is not None and not thread.resolved:
            self.forge.resolve(thread)

    # --- putting it right --------------------------------------------------------------------------------------------

    def _round(self, items: Sequence[Item]) -> tuple[str, ...]:
        """Have a mind put comments right, and take what passes the gate. The paths that led out of scope, if any did."""
        with Gate.taken(self.world, self.name, decided_by=DECIDED) as gate:
            tip, fixers, scope = gate.stand(), self.fixers, self._scope()
            given = [tip.head, *(f"{item.key}\0{item.said.body}" for item in sorted(items, key=lambda item: item.key))]

            def question(answer: Path) -> str:
                return words.question(items, self.basin, changed=sorted(scope.changed), answer_path=str(answer))

            made = fixers.ask("\0".join(given), question, head=tip.head, number=self.rounds + 1)
            self.rounds += 1
            self.tried |= {item.signature for item in items}
            self.usage = added(self.usage or Usage(), made.usage) if made.usage is not None else self.usage
            if made.why:
                raise _Over("failed", made.why)
            return self._taken(gate, tip, made, items, scope)

    def _taken(self, gate: Gate, tip: Tip, made: Made, items: Sequence[Item], scope: Scope) -> tuple[str, ...]:
        git, told = self.world.git, made.told
        fixed = [item for item in items if item.key in fixing.claimed(told)]
        commit: Sha | None = None
        evidence: tuple[Evidence, ...] = ()
        refused: Verdict | None = None
        grown: tuple[str, ...] = ()
        tree = git.tree_of(made.head or tip.head)
        if made.head is not None and fixed and tree != tip.tree:
            commit = git.commit_tree(tree, parent=tip.head, message=words.message(self.basin, fixed))
            refused, grown = fixing.objection(git.work(tip.head, commit), scope)
            if refused is None:
                evidence = gate.weigh(tip, commit, tree)
                lost = judge.lost(tip.results, {x.criterion: x for x in evidence})
                if lost:
                    reason = f"what was tried loses {', '.join(lost)}, and was not taken"
                    refused = Verdict(outcome="not_done", reason=reason)
            commit = commit if refused is None else None
        cited = git.compare.files(tree if commit is not None else tip.tree, fixing.quoted(told, root=made.root))
        files = {path: data.decode("utf-8", "replace") for path, data in cited.items()}
        verdicts = fixing.counts(items, told, commit=commit, refused=refused, files=files, root=made.root)
        self.fixers.planned(made, Plan(commit=commit, verdicts=verdicts))
        if commit is not None:
            gate.land(tip, commit, tree, evidence)
        self.verdicts |= verdicts
        return grown

    # --- the table ---------------------------------------------------------------------------------------------------

    def _track(self) -> None:
        """Write the tracking table into the description, in place of the one that is there."""
        if not self.heard.items:
            return
        there = self.forge.numbered(self.pull.number).body
        table = words.tracking(self.heard.items, self.verdicts)
        self.forge.update(self.pull.number, body=words.tracked(there, table))
