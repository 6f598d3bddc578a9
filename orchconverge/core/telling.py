"""What a person is notified of: each need once, in the sentence that every surface says, and no secret."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final

from msgspec import Struct

from orchconverge.core import events as e
from orchconverge.core.needs import Need
from orchconverge.core.secrets import masked

NEWS: Final = (e.RunStarted, e.RunWaiting, e.RunStopped, e.BranchCandidate, e.AttemptEnded, e.FrontierAdded)
"""The facts after which something else may need a person."""


class Notice(Struct, frozen=True, kw_only=True):
    """What is sent: to services as a title and two lines, to a person's own command as JSON on its standard input."""

    repository: str
    kind: str
    basin: str | None
    branch: str | None
    since: datetime | None
    sentence: str
    command: str

    @property
    def title(self) -> str:
        """The repository by its folder's name."""
        return f"orchconverge: {self.repository} needs you"

    @property
    def body(self) -> str:
        """The sentence, and what to type."""
        return f"{self.sentence}\n{self.command}"


def key(need: Need) -> str:
    """What tells a need from every other one: the same when it is said in other numbers, another when it comes again."""
    said = need.sentence if need.kind == "question" else ""
    parts = (need.kind, need.basin, need.branch, need.since and need.since.timestamp(), said)
    return sha256(repr(parts).encode()).hexdigest()[:16]


def untold(found: Sequence[Need], told: Collection[str] | None) -> tuple[Need, ...]:
    """Those that were not told yet. ``None``: nobody was told of anything before, and what is old is no news."""
    return () if told is None else tuple(need for need in found if key(need) not in told)


def notice(need: Need, repository: str) -> Notice:
    """A need as it is sent."""
    return Notice(
        repository=masked(repository),
        kind=need.kind,
        basin=need.basin,
        branch=need.branch,
        since=need.since,
        sentence=masked(need.sentence),
        command=masked(need.command),
    )
