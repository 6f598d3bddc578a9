"""A written target as text: what was understood of it, what an amendment changed, and the same as one JSON object."""

from __future__ import annotations

from typing import Any

import msgspec

from orchconverge.core.state import Basin
from orchconverge.core.target import Budget, Criterion, Stage
from orchconverge.core.views.text import cells, clean, counted, tokens

WIDE = 200
"""Cells of one line of a person's text: a longer goal or command is clipped, and whole in ``--json``."""

_LOCKS = {"auto": "auto, the gate admits", "person": "person, you admit what passed the gate"}
_DEADLINE = Criterion(name="any", kind="changed").deadline


def block(basin: Basin) -> str:
    """What was understood: one line a part, the criteria below one another with the command that answers each."""
    lines = [f"Target: {basin.id}"]
    if basin.title not in (basin.goal, basin.id):
        lines.append(f"Title: {clean(basin.title, WIDE)}")
    lines.append(f'Goal: "{clean(basin.goal, WIDE)}"')
    if basin.macrostate != basin.goal:
        lines.append(f"Done When: {clean(basin.macrostate, WIDE)}")
    lines += [
        f"Branch: {clean(basin.target, WIDE)}",
        "Criteria:",
        *criteria(basin.criteria),
        f"Ends: {basin.termination.sentence}",
        f"Budget: {budget(basin.budget)}",
        f"Lock: {_LOCKS[basin.lock]}",
        f"Approaches: {'; '.join(clean(a, WIDE) for a in basin.approaches) or 'the shipped ones, another each time'}",
        f"May Change: {', '.join(clean(g, WIDE) for g in basin.may_change) or 'no tests, CI or hooks unflagged'}",
    ]
    lines += [f"Stage: {stage(one)}" for one in basin.stages]
    lines += [f"Starts From: {', '.join(basin.parents)}"] if basin.parents else []
    return "\n".join(lines)


def criteria(them: tuple[Criterion, ...]) -> list[str]:
    """A line a criterion, indented: its name, what answers it, and what is not the default of it."""
    wide = max(cells(c.name) for c in them)
    return [line for c in them for line in (f"  {c.name.ljust(wide)}  {criterion(c)}", *clauses(c, wide + 4))]


def clauses(one: Criterion, indent: int) -> list[str]:
    """What is asked of a judge, a numbered line a clause."""
    return [f"{' ' * indent}{number}. {clean(clause, WIDE)}" for number, clause in enumerate(one.clauses, 1)]


def criterion(one: Criterion) -> str:
    """What answers a criterion: its command, or its kind; then where and whether it is required."""
    said = {
        "changed": "something is committed",
        "mergeable": "merges into the base without conflict",
        "docs": f"changes {', '.join(clean(path, WIDE) for path in one.paths)}",
        "pr": "there is a pull request",
        "ci": "CI is green",
        "review": "the review finds nothing critical",
        "judge": f"an engine judges, with quotes that are looked up: {clean(one.text, WIDE)}",
    }.get(one.kind, clean(one.command or one.text, WIDE))
    notes = [] if one.in_loop else ["in the final chain"]
    notes += ["a condition"] if one.condition else []
    notes += [] if one.required else ["optional"]
    notes += [f"deadline {one.deadline:g} s"] if one.deadline != _DEADLINE else []
    return f"{said}  ({', '.join(notes)})" if notes else said


def stage(one: Stage) -> str:
    """``plan reads docs/spec.md, writes docs/plan.md``."""
    reads = f" reads {', '.join(clean(path, WIDE) for path in one.inputs)}," if one.inputs else ""
    return clean(f"{clean(one.name, WIDE)}{reads} writes {clean(one.output, WIDE)}", WIDE)


def budget(spend: Budget) -> str:
    """``$12.00, 2.0M tokens, 8 minds``."""
    parts = [] if spend.usd is None else [f"${spend.usd:.2f}"]
    parts += [] if spend.tokens is None else [f"{tokens(spend.tokens)} tokens"]
    parts += [] if spend.minds is None else [counted(spend.minds, "mind")]
    return ", ".join(parts) or "no limit"


def difference(before: Basin, after: Basin) -> list[str]:
    """What an amendment changed, a line each: ``+`` and ``-`` before criteria, old and new of everything else."""
    old, new = ({c.name: c for c in basin.criteria} for basin in (before, after))
    lines = [f"- {name}: {criterion(c)}" for name, c in old.items() if new.get(name) != c]
    for name, c in new.items():
        if old.get(name) != c:
            lines += [f"+ {name}: {criterion(c)}", *clauses(c, 2)]
    if before.termination != after.termination:
        lines.append(f"Ends: {after.termination.sentence} (was: {before.termination.sentence})")
    if before.budget != after.budget:
        lines.append(f"Budget: {budget(after.budget)} (was: {budget(before.budget)})")
    if before.stages != after.stages:
        lines += [f"- stage {stage(one)}" for one in before.stages if one not in after.stages]
        lines += [f"+ stage {stage(one)}" for one in after.stages if one not in before.stages]
    return lines


def document(basin: Basin) -> dict[str, Any]:
    """The target with the keys of a target file, ``goal`` beside them, criteria with all that is not their default."""
    return {
        "id": basin.id,
        "title": basin.title,
        "goal": basin.goal,
        "macrostate": basin.macrostate,
        "target": basin.target,
        "criteria": msgspec.to_builtins(basin.criteria),
        "termination": {"sentence": basin.termination.sentence, **msgspec.to_builtins(basin.termination)},
        "budget": msgspec.to_builtins(basin.budget),
        "lock": basin.lock,
        "approaches": list(basin.approaches),
        "may_change": list(basin.may_change),
        "stages": [_staged(one) for one in basin.stages],
        "parents": list(basin.parents),
    }


def _staged(one: Stage) -> dict[str, Any]:
    return {"name": one.name, "inputs": list(one.inputs), "output": one.output, "aliases": dict(one.aliases)}
