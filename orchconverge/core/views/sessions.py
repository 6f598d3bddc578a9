"""The sessions of a ledger: the long-lived pursuit of each goal, what it came from, and the engine contexts beneath it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from orchconverge.core import events as e
from orchconverge.core.views.text import clean, clock, counted

LINE: Final = 160
MOST_CONTEXTS: Final = 50
"""The newest that are told of a session."""


class ContextShown(Struct, kw_only=True):
    """An engine's own context. ``why`` it was a fresh one; ``attempts`` are the ordinals of those that began in it.

    ``state``: ``current``, ``replaced`` by a later one, or ``lost``, which the engine did not know any more.
    """

    engine: str
    id: str
    why: str
    at: datetime | None
    attempts: list[int]
    state: Literal["current", "replaced", "lost"] = "current"


class SessionShown(Struct, kw_only=True):
    """A session. ``reason`` why it is closed; ``opened`` how often it was opened, ``left_out`` how many contexts are not told.

    ``parents`` are the basins whose residue and open questions it starts from, ``forks`` those that start from its own.
    """

    id: str
    basin: str
    parents: list[str]
    forks: list[str]
    at: datetime | None
    tmux: str
    open: bool = True
    opened: int = 1
    reason: str | None = None
    closed: datetime | None = None
    attempts: int = 0
    contexts: list[ContextShown]
    left_out: int = 0


def sessions(facts: Iterable[e.AnyFact]) -> list[SessionShown]:
    """Every session of these facts, newest first."""
    found: dict[str, SessionShown] = {}
    declared: dict[str, tuple[str, ...]] = {}
    engines: dict[str, str] = {}
    for fact in facts:
        if isinstance(fact, e.BasinDeclared):
            declared[fact.basin] = fact.parents
            for one in found.values():
                if one.basin in fact.parents:
                    one.forks.append(fact.basin)
        elif isinstance(fact, e.SessionOpened):
            _opened(found, fact, declared.get(fact.basin, ()))
        elif isinstance(fact, e.SessionContext) and fact.session in found:
            _context(found[fact.session], fact)
        elif isinstance(fact, e.SessionClosed) and fact.session in found:
            one = found[fact.session]
            one.open, one.reason, one.closed = False, fact.reason, fact.at
        elif isinstance(fact, e.AttemptStarted):
            for one in _of(found, fact.basin):
                one.attempts += 1
        elif isinstance(fact, e.BranchSpawned):
            engines[fact.branch] = fact.engine
            _continues(found, fact)
        elif isinstance(fact, e.BranchEnded) and fact.context == "lost":
            for context in _current(found, fact.basin, engines.get(fact.branch, "")):
                context.state = "lost"
    return list(reversed(found.values()))


def _opened(found: dict[str, SessionShown], fact: e.SessionOpened, parents: tuple[str, ...]) -> None:
    one = found.get(fact.session)
    if one is not None:
        one.open, one.reason, one.closed, one.opened, one.tmux = True, None, None, one.opened + 1, fact.tmux
        return
    found[fact.session] = SessionShown(
        id=fact.session,
        basin=fact.basin,
        parents=list(parents) or [found[name].basin if name in found else name for name in fact.parents],
        forks=[],
        at=fact.at,
        tmux=fact.tmux,
        contexts=[],
    )


def _context(session: SessionShown, fact: e.SessionContext) -> None:
    for old in session.contexts:
        if old.engine == fact.engine and old.state == "current":
            old.state = "replaced"
    session.contexts.append(
        ContextShown(engine=fact.engine, id=fact.engineSession, why=clean(fact.why), at=fact.at, attempts=[])
    )
    if len(session.contexts) > MOST_CONTEXTS:
        del session.contexts[0]
        session.left_out += 1


def _continues(found: dict[str, SessionShown], fact: e.BranchSpawned) -> None:
    """A mind in place goes on in the context of its engine; in a worktree each starts from the brief."""
    if fact.place != "here":
        return
    for session in _of(found, fact.basin):
        for context in _current(found, fact.basin, fact.engine):
            if session.attempts not in context.attempts:
                context.attempts.append(session.attempts)


def _of(found: dict[str, SessionShown], basin: str) -> Sequence[SessionShown]:
    """The open session of a basin."""
    return [one for one in found.values() if one.basin == basin and one.open]


def _current(found: dict[str, SessionShown], basin: str, engine: str) -> Sequence[ContextShown]:
    """The context of a basin's open session that a mind of this engine works in."""
    return [
        context
        for session in _of(found, basin)
        for context in session.contexts
        if context.engine == engine and context.state == "current"
    ]


def text(them: Sequence[SessionShown], now: datetime) -> str:
    """A line a session, newest first: continuing or closed, forked from and into what; below it a line a context.

    A context is told with whether it goes on, and why it was a fresh one.
    """
    if not them:
        return "No session yet. A run opens one."
    lines = []
    for one in them:
        since = f" since {clock(one.at, now)}" if one.at is not None else ""
        state = f"continuing{since}" if one.open else f"closed: {one.reason}"
        again = f", opened {one.opened} times" if one.opened > 1 else ""
        parents = f", forked from {', '.join(map(clean, one.parents))}" if one.parents else ""
        forks = f", forked into {', '.join(map(clean, one.forks))}" if one.forks else ""
        lines.append(f"{one.basin}  {state}{again}  {counted(one.attempts, 'attempt')}{parents}{forks}")
        if one.left_out:
            lines.append(f"  {counted(one.left_out, 'older context')} not shown")
        lines += [f"  {_line(context)}" for context in one.contexts]
        if not one.contexts:
            lines.append("  every mind starts from the brief")
    return "\n".join(lines)


def _line(context: ContextShown) -> str:
    numbers = context.attempts
    first = f"attempt {numbers[0]}" if numbers else "no attempt yet"
    goes = f"attempts {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else first
    state = {"current": "continues", "replaced": "left", "lost": "lost"}[context.state]
    return f"{clean(context.engine)}  {state}  {goes}  fresh: {clean(context.why, LINE)}"
