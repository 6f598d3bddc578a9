"""Judges trees by evidence: which answers are still missing, what was lost, what was gained, and what that is worth."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchconverge.core.actions import Action, Check
from orchconverge.core.chain import MENDED, Said
from orchconverge.core.seen import Key, Seen
from orchconverge.core.state import Basin, Branch, Past, Run, State
from orchconverge.core.target import Criterion, Sha
from orchconverge.core.values import Evidence, Place


class Answers(Struct, frozen=True, kw_only=True):
    """Evidence for each criterion in order, or the checks that have to run first."""

    evidence: tuple[Evidence, ...] = ()
    missing: tuple[Action, ...] = ()


def answers(
    state: State,
    seen: Seen,
    *,
    criteria: Iterable[Criterion],
    tree: Sha,
    commit: Sha,
    place: Place,
    before: Mapping[str, Evidence] | None = None,
) -> Answers:
    """Evidence of ``criteria`` on ``tree``; one check at a time, since two in one tree could disturb each other.

    A criterion that held in ``before`` and is red now is asked once more: two answers on one tree are `unstable`. Test
    ids that passed in ``before`` and are gone now make their criterion unmet, whatever the command's exit was.
    """
    known = state.results.get(seen.basin, {})
    found: list[Evidence] = []
    for criterion in criteria:
        held = before.get(criterion.name) if before is not None else None
        answer = known.get((criterion.name, tree, place)) or seen.answers.get(key := _key(criterion, tree, place, 1))
        if answer is None:
            return Answers(missing=(Check(key=key, commit=commit),))
        turned = held is not None and held.met == "yes" and answer.met == "no"
        if held is not None and answer.tries == 1 and answer.met != "error" and (turned or _gone(held, answer)):
            again = seen.answers.get(key := _key(criterion, tree, place, 2))
            if again is None:
                return Answers(missing=(Check(key=key, commit=commit),))
            answer = replace(again, met="unstable") if turned and again.met == "yes" else again
        found.append(_without_lost(held, answer))
    return Answers(evidence=tuple(found))


def _key(criterion: Criterion, tree: Sha, place: Place, tries: int) -> Key:
    return Key(criterion=criterion.name, tree=tree, place=place, tries=tries)


def _without_lost(held: Evidence | None, answer: Evidence) -> Evidence:
    if held is None or answer.met != "yes" or not held.passed:
        return answer
    gone = sorted(set(held.passed) - set(answer.passed))
    if not gone:
        return answer
    named = ", ".join(gone[:5]) + (f" and {len(gone) - 5} more" if len(gone) > 5 else "")
    return replace(answer, met="no", excerpt=f"lost: {named} held before and do not run or pass now\n{answer.excerpt}")


def met(results: Mapping[str, Evidence] | None, name: str) -> bool:
    """Whether a criterion holds by these results."""
    found = results.get(name) if results else None
    return found is not None and found.met == "yes"


def holds(basin: Basin, results: Mapping[str, Evidence] | None, *, moved: bool = False) -> bool:
    """Whether all required criteria of the loop hold, and the chain objects to nothing, or the target ``moved`` since."""
    return (moved or not objections(basin)) and all(met(results, c.name) for c in basin.required)


def objections(basin: Basin) -> tuple[Said, ...]:
    """What the final chain holds against the target as it stands: required criteria of it that another attempt can mend."""
    chain = basin.chain
    if chain.moved or not chain.said:
        return ()
    kinds = {c.name: c.kind for c in basin.criteria if c.required and not c.in_loop}
    return tuple(one for one in chain.said if one.met == "no" and kinds.get(one.criterion) in MENDED)


def objected(basin: Basin) -> frozenset[str] | None:
    """The paths of which one has to change to answer an objection, none: any; ``None`` if there is no objection."""
    against = objections(basin)
    return frozenset(path for one in against for path in one.paths) if against else None


def unsettled(basin: Basin) -> tuple[Said, ...]:
    """Required criteria of the chain that were asked, do not hold, and that no attempt can mend: a person is to look."""
    kinds = {c.name: c.kind for c in basin.criteria if c.required and not c.in_loop}
    said = [one for one in basin.chain.said if one.criterion in kinds]
    return tuple(x for x in said if x.met == "unknown" or (x.met == "no" and kinds[x.criterion] not in MENDED))


def only_conditions_missing(basin: Basin, results: Mapping[str, Evidence]) -> bool:
    """Whether nothing is left to gain: every required criterion that is not a condition holds."""
    return all(met(results, c.name) for c in basin.counted)


def percent(basin: Basin, results: Mapping[str, Evidence] | None) -> int:
    """How much of the required criteria holds, conditions left out, 0 to 100, rounded down."""
    counted = basin.counted
    return 100 * sum(met(results, c.name) for c in counted) // len(counted) if counted else 0


def answered(basin: Basin, head: Sha | None) -> bool:
    """Whether every criterion of the loop was asked on the target as it stands at ``head``."""
    tip = basin.tip
    return tip is not None and tip.head == head and all(c.name in tip.results for c in basin.criteria if c.in_loop)


def lost(before: Mapping[str, Evidence], after: Mapping[str, Evidence]) -> tuple[str, ...]:
    """Criteria that held before and do not hold after, and those of which a test passed that does not any more."""
    return tuple(
        name for name, x in before.items() if (x.met == "yes" and not met(after, name)) or _gone(x, after.get(name))
    )


def _gone(before: Evidence, after: Evidence | None) -> frozenset[str]:
    """The test ids that passed before and do not run or pass now."""
    return frozenset(before.passed) - frozenset(after.passed if after is not None else ())


def both(one: Evidence | None, other: Evidence) -> Evidence:
    """What is expected where two trees meet one criterion: the tests of both."""
    if one is None or not one.passed:
        return other
    return replace(other, passed=tuple(sorted({*one.passed, *other.passed})))


def covered(basin: Basin, branch: Branch) -> str:
    """Why a candidate has nothing that the target's recorded tip does not: a reason to prune it; empty if it has."""
    if basin.tip is None:
        return ""
    names = {c.name for c in basin.criteria if c.in_loop and not c.condition}
    held, own = basin.tip.results, [x for x in branch.evidence if x.criterion in names]
    its = [x for x in own if x.met == "yes"]
    known = {x.criterion: set(x.passed) for x in held.values()}
    if not all(met(held, x.criterion) for x in its) or any(set(x.passed) - known.get(x.criterion, set()) for x in own):
        return ""
    if not its:
        return "covered: it meets no criterion"
    holds = "holds" if len(its) == 1 else "hold"
    return f"covered: {', '.join(x.criterion for x in its)} {holds} on {basin.target} at {basin.tip.head:.8} already"


def gained(
    criteria: Iterable[Criterion], before: Mapping[str, Evidence], after: Mapping[str, Evidence]
) -> tuple[str, ...]:
    """Criteria, conditions left out, that hold after and did not before; and ``tests`` whose count of passed ids rose."""
    out = []
    for criterion in criteria:
        if criterion.condition or not criterion.in_loop:
            continue
        one, other = before.get(criterion.name), after.get(criterion.name)
        newly = met(after, criterion.name) and not met(before, criterion.name)
        rose = one is not None and other is not None and _rose(one, other)
        if newly or rose:
            out.append(criterion.name)
    return tuple(out)


def _rose(one: Evidence, other: Evidence) -> bool:
    return len(other.passed) > len(one.passed) and set(one.passed) <= set(other.passed)


def relevant(paths: Sequence[str], words: str) -> bool:
    """Whether a changed path, its file name or its stem is named in ``words``."""
    named = set(re.findall(r"[\w./-]+", words))
    stems = {n.rsplit("/", 1)[-1].split(".", 1)[0] for n in named} | named
    for path in paths:
        name = path.rsplit("/", 1)[-1]
        stem = name.split(".", 1)[0]
        bare = re.sub(r"^test_|_test$", "", stem)
        if (
            path in named
            or name in named
            or stem in stems
            or (len(bare) > 2 and (bare in stems or f"test_{bare}" in stems))
        ):
            return True
    return False


def since(history: Sequence[Past], run: Run) -> tuple[Past, ...]:
    """The attempts of this run, those before a crash of its controller included: a person who resumes starts the count anew."""
    return tuple(past for past in history if past.number >= run.first)


def fruitless(history: Sequence[Past]) -> tuple[Past, ...]:
    """The charged attempts since the last one that got anywhere, oldest first."""
    found: list[Past] = []
    for past in reversed(history):
        if past.result in ("success", "partial_success"):
            break
        if past.charged:
            found.append(past)
    return tuple(reversed(found))


def flat(history: Sequence[Past]) -> int:
    """How many attempts were made since the last one that got anywhere."""
    return len(fruitless(history))


def given_back(history: Sequence[Past]) -> int:
    """Uncharged attempts in a row, up to the newest."""
    count = 0
    for past in reversed(history):
        if past.charged:
            break
        count += 1
    return count
