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
from orchconverge.app.forge_criteria import APPEAR_SECONDS, POLL_SECONDS
from orchconverge.app.hearing import MARK, NOTHING_NEW, news, states, unresolved
from orchconverge.app.world import World
from orchconverge.core import comments, fixing
from orchconverge.core.comments import BOTS, Heard, Item, Scope, Verdict
from orchconverge.core.events import AnyFact, StepEnded
from orchconverge.core.seen import StepResult
from orchconverge.core.state import Basin, Run, Tip
from orchconverge.core.target import Sha
from orchconverge.core.values import StepStatus, Usage, added
from orchconverge.core.views import comments as words
from orchconverge.core.views import pull_request
from orchconverge.errors import OrchConvergeError, Refused
from orchconverge.ports.forge import Forge, ForgeError, PullRequest

MOST_ROUNDS = 3
DECIDED = "auto: copilot, nothing lost"


class Asked(Struct, frozen=True, kw_only=True):
    """What a person asks for. ``pull`` is a pull request whoever opened it; ``anew``: rounds of earlier steps do not count.

    ``wait_seconds`` is how long checks that still run are waited for, in all.
    """

    pull: int | None = None
    most_rounds: int = MOST_ROUNDS
    bots: tuple[str, ...] = BOTS
    wait_seconds: float = 600.0
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
    if pull.fork:
        raise Refused(
            f"pull request {pull.number} is of {pull.fork}, and nothing of ours is pushed there",
            hint=f"`orchconverge reviewdeep --pr {pull.number}` reviews it; to put it right is its author's",
        )
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
        lease = world.leases.take(f"copilot/{basin.target}")
        if lease is None:
            raise Refused(
                f"another copilot works on pull request {pull.number}, and would answer the same",
                hint="orchconverge status; then again",
            )
        try:
            world = dataclasses.replace(world, allowed=run.settings.env)
            return _Copilot(world, basin.id, run, forge, pull, asked).result()
        finally:
            lease.release()


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
        self.news = NOTHING_NEW
        self.answered: set[str] = set()
        self.tried: set[tuple[str, ...]] = set()
        self.known: set[str] = set()
        self.rounds = 0
        self.left_seconds = asked.wait_seconds
        self.checked = False
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
        running = self.news.running
        pending = (f"checks of {self.pull.head or '':.8} pending: {len(running)}",) if running else ()
        detail = "; ".join((f"pull request {self.pull.number}: {told}", *dict.fromkeys(self.notes), *pending))
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
            if not todo and not repeats and self._checks_end():
                continue
            why = comments.brake(
                todo, rounds=self.rounds + before, most=self.asked.most_rounds, tried=self.tried, repeats=repeats
            )
            if why:
                return why if self.rounds or todo or repeats else "nothing actionable was said"
            grown = self._round(todo[: comments.MOST_ITEMS])
            if grown:
                self._push()
                self._answer_all()
                return f"the scope grows past the target: {', '.join(grown[:3])}"

    # --- the target --------------------------------------------------------------------------------------------------

    def _landed(self) -> dict[Sha, Plan]:
        """The rounds whose commits are on the target, by the last of them."""
        base, head = Sha(self.run.settings.base), self.head()
        there = {c.sha for c in self.world.git.work(base, head).commits} if base != head else set()
        return {plan.commit: plan for plan in self.fixers.plans() if plan.commit in there and plan.commit is not None}

    def _recover(self) -> None:
        """Put a commit of ours on record that a killed step landed; what else moved the target is not ours to take over."""
        git, basin, head = self.world.git, self.basin, self.head()
        why = moved(git, basin, head)
        if not why:
            return
        ours = {sha for last, plan in self._landed().items() for sha in (last, *plan.commits)}
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
        now = self.forge.numbered(self.pull.number).state
        if now != "open":  # a push would make the branch anew where it was deleted
            raise _Over("failed", f"it is {now} by now: {head:.8} is on {self.basin.target} here, and was not pushed")
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
        landed, before = self._landed(), self.news
        self.news = news(self.forge, self.pull.number, self.head(), before=before)
        self.checked = self.checked or bool(self.news.checks)
        self.notes += self.news.notes
        checks = [item for plan in landed.values() for item in plan.checks]
        outcomes = [key for key, verdict in self.news.answers.items() if verdict is not None]
        self.heard = comments.heard(self.news.said, bots=self.asked.bots, answered=outcomes, checks=checks)
        self.answered = set(self.news.answers)
        plans = [plan for plan in self.fixers.plans() if plan.commit is None or plan.commit in landed]
        known = list(self.news.answers.items())
        for plan in plans:
            edited = plan.edited(self.heard.items) - self.answered
            known += [(key, verdict) for key, verdict in plan.verdicts.items() if key not in edited]
            self.verdicts = {key: verdict for key, verdict in self.verdicts.items() if key not in edited}
        self.verdicts |= {key: verdict for key, verdict in known if verdict is not None and key not in self.verdicts}

    def _checks_end(self) -> bool:
        """Wait, as long as is left for that, until one of the checks that run has ended. Whether one has.

        After a push they need a moment to begin.
        """
        clock, tries, most = self.world.clock.monotonic, 0, self.left_seconds
        if not self.news.running:
            begins = self.checked and not self.news.checks
            most = min(most, APPEAR_SECONDS) if begins else 0.0
        begun = clock()
        try:
            while (left := begun + most - clock()) > 0:
                ends = clock() + min(left, POLL_SECONDS, 0.25 * 2**tries)
                while clock() < ends:
                    self.world.wakeups.wait((), until=ends)
                tries += 1
                if states(self.forge.checks(self.head())) != states(self.news.checks):
                    return True
            return False
        finally:
            self.left_seconds -= clock() - begun

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
        same: dict[tuple[str, ...], list[Item]] = {}
        for item in self.heard.items:
            same.setdefault(item.signature, []).append(item)
        for item in (item for item in open_ if item.key not in self.verdicts):
            known = ((other, self.verdicts.get(other.key)) for other in same[item.signature])
            again = comments.repeated(item, known)
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
            try:
                self.forge.resolve(thread)
            except ForgeError as error:
                self.notes.append(unresolved(self.forge, error))

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
            self.usage = added(self.usage or Usage(), made.usage) if made.usage is not None else self.usage
            if made.why:
                raise _Over("failed", made.why)
            return self._taken(gate, tip, made, items, scope)

    def _taken(self, gate: Gate, tip: Tip, made: Made, items: Sequence[Item], scope: Scope) -> tuple[str, ...]:
        """Land the fixes that pass. What stood on one that does not has no outcome: it is asked about again without that."""
        git, told, ours = self.world.git, made.told, gate.ours(tip, made, items)
        passed = gate.passing(tip, ours, scope)
        landing, rest = ours[: passed.number], ours[passed.number :]
        refused = dict.fromkeys(rest[0].keys, passed.refused) if rest and passed.refused is not None else {}
        last = landing[-1] if landing else None
        cited = git.compare.files(last.tree if last else tip.tree, fixing.quoted(told, root=made.root))
        verdicts = fixing.counts(
            items,
            told,
            taken={key: fix.commit for fix in landing for key in fix.keys},
            refused=refused,
            waiting={key for fix in rest[1:] for key in fix.keys},
            files={path: data.decode("utf-8", "replace") for path, data in cited.items()},
            root=made.root,
        )
        plan = Plan(
            commit=last.commit if last else None,
            commits=tuple(fix.commit for fix in landing),
            verdicts=verdicts,
            checks=tuple(item for item in items if item.said.kind == "check" and item.key in verdicts),
            said={item.key: item.words for item in items if item.said.kind != "check"},
        )
        self.fixers.planned(made, plan)
        if last is not None:
            gate.land(tip, last.commit, last.tree, passed.evidence)
        self.verdicts |= verdicts
        self.tried |= {item.signature for item in items if item.key in verdicts}
        return passed.grown

    # --- the table ---------------------------------------------------------------------------------------------------

    def _track(self) -> None:
        """Write the tracking table into the description, in place of the one that is there."""
        if not self.heard.items:
            return
        there = self.forge.numbered(self.pull.number).body
        table = words.tracking(self.heard.items, self.verdicts)
        self.forge.update(self.pull.number, body=words.tracked(there, table))
