"""The step `reviewdeep`: minds that only read review the change against its target, another one scores, and it is said once.

A review mind is started as a judge is: outside of the tree, which it reads, with nothing to push with. Nothing of its word
counts before git has shown its place and a mind that did not find it has scored it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from orchconverge.app.closing import REPORTS, Closing, moved
from orchconverge.app.reviewers import Answer, Change, Minds
from orchconverge.core import judging, reviewing
from orchconverge.core import review_questions as questions
from orchconverge.core.events import AnyFact
from orchconverge.core.overlap import Difference
from orchconverge.core.review_questions import Subject
from orchconverge.core.reviewing import Finding, Placed, Score, Sifted
from orchconverge.core.seen import StepResult
from orchconverge.core.state import Basin, Run
from orchconverge.core.target import Sha
from orchconverge.core.values import Evidence, Met, StepStatus, Usage
from orchconverge.core.views import pull_request
from orchconverge.core.views import review as words
from orchconverge.errors import Refused
from orchconverge.ports.forge import Forge, ForgeError, PullRequest, Remark

SCORE = "score"
PROGRAM = "command"
"""The engine that is any program: it reviews only where a criterion or a person asks for a review, as it may be no agent."""


class Asked(Struct, frozen=True, kw_only=True):
    """What a person asks for besides. ``pull`` is another pull request than the target's; ``anew``: what was found is not used."""

    tracks: tuple[str, ...] = questions.FOCUSED
    pull: int | None = None
    anew: bool = False


IN_CHAIN = Asked()


def reviewdeep(
    closing: Closing, basin: Basin, run: Run, facts: Sequence[AnyFact], *, asked: Asked = IN_CHAIN
) -> StepResult:
    """Review what was judged, or a pull request, and say on its pull request what is found."""
    change = _asked_about(closing, basin, run, asked)
    if isinstance(change, StepResult):
        return change
    with closing.world() as world:
        world.ledger.catch_up()
        minds = Minds(dataclasses.replace(world, allowed=run.settings.env), basin, run, change, anew=asked.anew)
        wished = asked.anew or any(criterion.kind == "review" for criterion in basin.criteria)
        engines = [each for each in run.settings.engines if wished or each.partition(":")[0] != PROGRAM]
        review = _reviewed(closing, minds, change, asked.tracks, engines)
    return _result(closing, basin, run, change, review, minds.usage)


# --- what is reviewed ------------------------------------------------------------------------------------------------


def _asked_about(closing: Closing, basin: Basin, run: Run, asked: Asked) -> Change | StepResult:
    git = closing.git
    pull = closing.forge(basin, run).numbered(asked.pull) if asked.pull is not None else None
    if pull is not None and (pull.fork or pull.branch != basin.target):
        return _of_pull(closing, run, pull)
    head = git.resolve(f"refs/heads/{basin.target}")
    if head is None:
        return StepResult(status="failed", detail=f"the branch {basin.target} is gone")
    if why := moved(git, basin, head):
        return StepResult(status="failed", detail=why, commit=head)
    checked = [f"- {c.name}: {c.command or c.text or ', '.join(c.paths) or c.kind}" for c in basin.criteria]
    target = "\n".join([basin.goal, "", f"Done means: {basin.macrostate}", "", "Criteria:", *checked])
    return _changed(closing, basin.id, Sha(run.settings.base), head, target, pull)


def _of_pull(closing: Closing, run: Run, pull: PullRequest) -> Change | StepResult:
    """A pull request that is not of this basin: its title and description are what it was to be.

    What it and its base stand at is fetched, whosever branch it is, into refs of ours that nobody checks out.
    """
    git, remote, number = closing.git, run.settings.remote, pull.number
    there = git.fetch(remote, f"refs/pull/{number}/head", str(number))
    onto = git.fetch(remote, f"refs/heads/{pull.base}", f"{number}-onto")
    head = git.resolve(pull.head) if pull.head is not None else None
    if head is None:
        raise Refused(
            f"pull request {number} stands at {pull.head or 'nothing'}, and {remote} has it at {there}",
            hint=f"it moved just now: the same command once more; else {remote} is not the remote of {pull.url}",
        )
    base = git.compare.fork(onto, head)
    if base is None:
        raise Refused(f"pull request {number} and {pull.base} have no history in common")
    return _changed(closing, f"pr-{pull.number}", base, head, f"{pull.title}\n\n{pull.body}", pull)


def _changed(
    closing: Closing, key: str, base: Sha, head: Sha, target: str, pull: PullRequest | None
) -> Change | StepResult:
    whole = closing.git.compare.difference(base, head, patch=True) if base != head else Difference(changes=())
    changes = tuple(each for each in whole.changes if not each.path.startswith(f"{REPORTS}/"))
    if not changes:
        return StepResult(status="skipped", detail="nothing differs from where it began", commit=head)
    found = Difference(changes=changes, patch=judging.shown(whole.patch, without=REPORTS))
    paths = tuple(each.path for each in changes)
    return Change(
        key=key,
        base=base,
        head=head,
        tree=closing.git.tree_of(head),
        difference=found,
        subject=Subject(target=target, changed=paths, patch=found.patch),
        pull=pull,
    )


# --- the review ------------------------------------------------------------------------------------------------------


class _Review(Struct, frozen=True, kw_only=True):
    """What came of it. ``failed``: part -> why it said nothing; ``asked`` are all that were asked; ``none``: nobody could be."""

    found: Sifted
    asked: tuple[str, ...]
    failed: Mapping[str, str]
    none: bool = False

    @property
    def whole(self) -> bool:
        """Whether all that was asked was answered."""
        return not self.failed

    @property
    def any(self) -> bool:
        """Whether there is anything to say."""
        return SCORE not in self.failed and len(self.failed) < len(self.asked)


def _reviewed(closing: Closing, minds: Minds, change: Change, tracks: Sequence[str], engines: Sequence[str]) -> _Review:
    author, model = minds.author()

    def asks(track: str) -> Callable[[str, str], str]:
        return lambda tree, answer: questions.question(track, change.subject, tree=tree, answer=answer)

    order = judging.order(engines, author=author, model=model)
    heard = minds.ask({track: asks(track) for track in tracks}, reviewing.findings, order)
    failed = {track: one.why for track, one in heard.items() if one.why}
    found: dict[str, tuple[Finding, ...]] = {}
    unread = 0
    for track, one in heard.items():
        if one.value is not None:
            found[track], more = one.value
            unread += more
    roots = {track: one.root for track, one in heard.items()}
    sifted = _placed(closing, change, found, roots, unread)
    none = len(failed) == len(tracks) and not any(one.engine for one in heard.values())
    if not sifted.kept:
        return _Review(found=sifted, asked=tuple(tracks), failed=failed, none=none)
    used = {one.engine for one in heard.values()}
    scorers = sorted(engines, key=lambda each: (each.partition(":")[0] in used, each.partition(":")[0] == author))

    def scoring(tree: str, answer: str) -> str:
        return questions.scoring(sifted.kept, change.subject, tree=tree, answer=answer)

    told: Answer[Mapping[int, Score]] = minds.ask({SCORE: scoring}, reviewing.scores, scorers)[SCORE]
    if told.value is None:
        return _Review(found=Sifted(dropped=sifted.dropped), asked=tuple(tracks), failed={**failed, SCORE: told.why})
    return _Review(found=reviewing.scored(sifted, told.value), asked=tuple(tracks), failed=failed)


def _placed(
    closing: Closing,
    change: Change,
    found: Mapping[str, Sequence[Finding]],
    roots: Mapping[str, str],
    unread: int,
) -> Sifted:
    """What of the findings has its place, as git has the files and the change."""
    paths = {judging.inside(one.path, root=roots[track]) for track, listed in found.items() for one in listed}
    held = closing.git.compare.files(change.tree, sorted(path for path in paths if path))
    sifted = reviewing.sifted(
        found,
        files={path: data.decode("utf-8", "replace") for path, data in held.items()},
        touched=reviewing.ground(change.difference.changes, change.difference.patch),
        roots=roots,
    )
    dropped = Counter(sifted.dropped)
    dropped.update({reviewing.UNREAD: unread} if unread else {})
    return Sifted(kept=sifted.kept, dropped=dict(dropped))


def _result(
    closing: Closing, basin: Basin, run: Run, change: Change, review: _Review, usage: Usage | None
) -> StepResult:
    kept, dropped = review.found.kept, review.found.dropped
    verdict = reviewing.verdict(kept)
    if not review.any:
        why = "; ".join(f"{part}: {why}" for part, why in review.failed.items())
        detail = f"no engine of the run can review: {why}" if review.none else f"no review: {why}"
        results = _evidence(basin, change, "error", detail)
        status: StepStatus = "skipped" if review.none else "failed"
        return StepResult(
            status=status, detail=detail[:2000], commit=change.head, results=results, usage=usage, dropped=dropped
        )
    detail = words.outcome(verdict, kept, dropped, review.failed)
    try:
        said, url = _posted(closing, basin, run, change, review)
        posted = True
    except ForgeError as error:
        said, url, posted = f"not posted: {error.message}" + (f" ({error.hint})" if error.hint else ""), None, False
    critical = [one for one in kept if one.finding.severity == "critical"]
    met: Met = "no" if critical else "yes" if review.whole else "error"
    return StepResult(
        status="done" if posted else "failed",
        detail=f"{detail}; {said}",
        url=url,
        commit=change.head,
        results=_evidence(basin, change, met, words.against(critical) or detail),
        findings=tuple(reviewing.recorded(one) for one in kept),
        usage=usage,
        verdict=verdict,
        dropped=dropped,
    )


def _evidence(basin: Basin, change: Change, met: Met, text: str) -> tuple[Evidence, ...]:
    if change.key != basin.id:
        return ()
    return tuple(
        Evidence(criterion=c.name, met=met, tree=change.tree, excerpt=text[:2048])
        for c in basin.criteria
        if c.kind == "review"
    )


# --- saying it -------------------------------------------------------------------------------------------------------


def _posted(closing: Closing, basin: Basin, run: Run, change: Change, review: _Review) -> tuple[str, str | None]:
    """Say it on the pull request, once: what there is of an earlier review is brought up to date."""
    forge = closing.forge(basin, run)
    pull = change.pull or forge.find(basin.target)
    if pull is None and forge.kind == "local":
        base = run.settings.onto or forge.home().default_branch
        pull = forge.open(basin.target, base=base, title=pull_request.title(basin), body="", draft=True)
    if pull is None or pull.state != "open":
        return f"not posted, {basin.target} has no open pull request: `orchconverge pushl` opens one", None
    if pull.head != change.head:
        there = pull.head[:8] if pull.head is not None else "nothing"
        return f"not posted, pull request {pull.number} stands at {there}: `orchconverge pushl` first", pull.url or None
    unplaced = _say(forge, pull, change, review)
    where = f"pull request {pull.number}" if forge.kind != "local" else forge.where
    on_lines = len(review.found.kept) - unplaced
    return f"said on {where}, {on_lines} on their lines", pull.url or None


def _say(forge: Forge, pull: PullRequest, change: Change, review: _Review) -> int:
    """Post the review. Returns how many findings the forge would not take on their lines: they are in the summary."""
    kept = review.found.kept
    marked = words.markers(change.key, kept)
    remarks = [
        Remark(path=one.finding.path, line=one.last, text=words.remark(one), marker=marker)
        for marker, one in marked.items()
    ]

    def body(unplaced: Sequence[Placed]) -> str:
        return words.summary(
            reviewing.verdict(kept),
            kept,
            head=change.head,
            dropped=review.found.dropped,
            failed=review.failed,
            unplaced=unplaced,
        )

    marker = f"review.{change.key}"
    left = forge.review(pull.number, body(()), head=change.head, remarks=remarks, marker=marker).unplaced
    refused = [marked[each.marker] for each in left]
    if refused:
        names = {each.marker for each in left}
        on_lines = [each for each in remarks if each.marker not in names]
        forge.review(pull.number, body(refused), head=change.head, remarks=on_lines, marker=marker)
    return len(refused)
