"""What a report tells of people and money: who decided what and why, what was typed, and what was used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from orchconverge.core import events as e
from orchconverge.core.happened import amends
from orchconverge.core.report_record import CommandReported, DecisionReported, UsageReported
from orchconverge.core.reporting_chain import COMMANDS, Said
from orchconverge.core.state import Basin, Phase, State
from orchconverge.core.values import Usage, added
from orchconverge.core.views.text import counted

PATHS: Final = 10
"""How many paths of a part are named."""


# --- decisions -------------------------------------------------------------------------------------------------------


def decided(state: State, basin: Basin, facts: Sequence[e.AnyFact], said: Said) -> tuple[DecisionReported, ...]:
    """Who decided what, and why, as it was written, oldest first."""
    told = (_decision(fact, said) for fact in facts)
    return tuple(one for one in told if one is not None) if facts else _kept(state, basin, said)


def _decision(fact: e.AnyFact, said: Said) -> DecisionReported | None:
    def made(decision: str, branch: str = "", by: str = "", reason: str = "") -> DecisionReported:
        return DecisionReported(at=fact.at, decision=decision, branch=branch, decided_by=said(by), reason=said(reason))

    match fact:
        case e.BranchGrafted():
            return DecisionReported(
                at=fact.at,
                decision="graft",
                branch=fact.branch,
                decided_by=said(fact.decidedBy),
                reason="",
                commit=fact.mergeCommit,
            )
        case e.ResidueGrafted():
            return DecisionReported(
                at=fact.at,
                decision="part taken",
                branch=fact.branch,
                decided_by=said(fact.decidedBy),
                reason=said(fact.reason),
                commit=fact.mergeCommit,
                paths=tuple(map(said, fact.paths[:PATHS])),
            )
        case e.GraftRefused():
            told = [fact.why] if fact.why else []
            told += [f"conflict in {path}" for path in fact.conflicts] + [f"{name} lost" for name in fact.lost]
            return made("graft refused", fact.branch, "the gate", ", ".join(dict.fromkeys(told)))
        case e.BranchPruned():
            return made("prune", fact.branch, fact.decidedBy, fact.reason)
        case e.BranchReconciled():
            return made(f"reconciled to {said(fact.to)}", fact.branch, "recovery", fact.observed)
        case e.BasinAmended():
            return made("target amended" if amends(fact) else "taken as it is", "", "person", fact.why)
        case e.BasinKilled():
            return made("kill", reason=fact.reason)
        case e.RunStopRequested():
            return made("stop asked for")
        case _:
            return None


def _kept(state: State, basin: Basin, said: Said) -> tuple[DecisionReported, ...]:
    """What the fold kept of decisions: no time, no decider."""
    out = []
    for branch in state.branches_of(basin.id):
        decision, by, reason = "", "", ""
        if branch.phase is Phase.GRAFTED:
            decision = "graft"
        elif branch.phase is Phase.PRUNED:
            decision, reason = "prune", branch.failure
        elif branch.refusal:
            decision, by, reason = "graft refused", "the gate", branch.refusal
        if decision:
            commit = branch.merge_commit if decision == "graft" else None
            out.append(
                DecisionReported(
                    at=None, decision=decision, branch=branch.id, decided_by=by, reason=said(reason), commit=commit
                )
            )
    if basin.phase == "killed":
        out.append(DecisionReported(at=None, decision="kill", branch="", decided_by="", reason=said(basin.note)))
    return tuple(out)


# --- what a person typed ---------------------------------------------------------------------------------------------

_TYPED: Final[dict[type, tuple[str, Callable[[int], str]]]] = {
    e.BranchGrafted: ("graft", lambda n: f"{counted(n, 'candidate')} taken"),
    e.ResidueGrafted: ("graft", lambda n: f"{counted(n, 'part')} taken"),
    e.GraftRefused: ("graft", lambda n: f"{n} refused by the gate"),
    e.BranchPruned: ("prune", lambda n: f"{counted(n, 'candidate')} turned down"),
    e.FrontierAdded: ("frontier", lambda n: f"{counted(n, 'question')} asked"),
    e.BasinHarvested: ("harvest", lambda n: "residue and questions kept"),
    e.RunStopRequested: ("stop", lambda n: "the run was stopped"),
    e.BasinKilled: ("kill", lambda n: "the pursuit was given up"),
}
"""A fact that a person's command left -> that command, and what so many of them come to."""


def typed(basin: Basin, facts: Sequence[e.AnyFact]) -> tuple[CommandReported, ...]:
    """The commands that a person typed, by what each left on the ledger."""
    runs: dict[str, int] = {}
    said: dict[str, dict[type, int]] = {}
    for fact in facts:
        name = _TYPED[type(fact)][0] if type(fact) in _TYPED and fact.writer == "cli" else ""
        if isinstance(fact, e.BasinAmended):
            name = "amend" if amends(fact) else "resume --accept"
        if name:
            runs[name] = runs.get(name, 0) + 1
            kinds = said.setdefault(name, {})
            kinds[type(fact)] = kinds.get(type(fact), 0) + 1
    resumed = sum(isinstance(fact, e.RunStarted) for fact in facts) - 1
    out = [_command("resume", resumed, "the pursuit went on")] if resumed > 0 else []
    for name, kinds in said.items():
        told = [_TYPED[kind][1](count) for kind, count in kinds.items() if kind in _TYPED]
        out.append(_command(name, runs[name], ", ".join(told) or _AMENDED[name]))
    return tuple(out)


_AMENDED: Final = {"amend": "the target was changed", "resume --accept": "what was flagged was taken as it is"}


def _command(name: str, runs: int, effect: str) -> CommandReported:
    return CommandReported(command=f"orchconverge {name}", engine=None, runs=runs, seconds=None, effect=effect)


# --- usage -----------------------------------------------------------------------------------------------------------


def used(state: State, basin: Basin, facts: Sequence[e.AnyFact]) -> tuple[UsageReported, ...]:
    """Tokens and dollars by engine, then by step of the chain; without facts of the minds of attempts alone."""
    by: dict[str, Usage] = {}
    for name, usage in _usages(state, facts) if facts else ((past.engine, past.usage) for past in basin.history):
        by[name] = added(usage, by.get(name))
    return tuple(_usage(name, usage) for name, usage in by.items() if usage != Usage())


def _usages(state: State, facts: Sequence[e.AnyFact]) -> Iterator[tuple[str, Usage]]:
    for fact in facts:
        if isinstance(fact, e.BranchEnded) and fact.usage is not None:
            yield state.branches[fact.branch].engine, fact.usage
    for fact in facts:
        if isinstance(fact, e.StepEnded) and fact.usage is not None:
            yield COMMANDS.get(fact.step, fact.step), fact.usage


def _usage(name: str, usage: Usage) -> UsageReported:
    return UsageReported(
        of=name,
        input_tokens=usage.inputTokens,
        output_tokens=usage.outputTokens,
        cache_read_tokens=usage.cacheReadTokens,
        cache_write_tokens=usage.cacheWriteTokens,
        usd=usage.usd,
    )
