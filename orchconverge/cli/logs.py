"""`logs`: what converged, what minds printed, what controllers did and what it cost; also while it goes on."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import click
import msgspec

from orchconverge import bootstrap
from orchconverge.adapters.journal_tail import Tail
from orchconverge.adapters.supervisors import Supervisors
from orchconverge.adapters.supervisors_tail import Output
from orchconverge.app.world import mind_name
from orchconverge.cli.look import chosen_of, told_by
from orchconverge.cli.when import When
from orchconverge.core.upcast import encode
from orchconverge.core.views import logs as view
from orchconverge.errors import Refused
from orchconverge.ports import Running, Starting, Unknown

if TYPE_CHECKING:
    from orchconverge.core.events import AnyFact
    from orchconverge.core.state import Branch

KINDS: Final = ("convergence", "agent", "system", "performance")
POLL_SECONDS: Final = 0.25
LOST_AFTER_SECONDS: Final = 5.0
"""How long a run may be open with nobody holding its lease before it is not followed any more."""
LONGEST_BYTES: Final = 1 << 16
"""Of a line that is awaited to its end; what is longer is shown in pieces."""


class About(NamedTuple):
    """What is asked for. Without a basin: everything."""

    basin: str | None = None
    branch: Branch | None = None


class Source(Protocol):
    """One kind of log."""

    def more(self, facts: Iterable[AnyFact], *, last: bool) -> Iterator[tuple[bytes, view.Entry]]:
        """The lines that came since, as they are and as they are told; with ``last`` also one that has no end."""


@click.command()
@click.argument("name", required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on until the run, or the mind, is over.")
@click.option("--kind", type=click.Choice(KINDS), help="Which log. Default: agent for a branch, else system.")
@click.option("--since", type=When(), metavar="WHEN", help="Only what is newer: 10m, 2h, 14:30, 2026-11-29.")
@click.option("--raw", is_flag=True, help="The bytes as they are: escape sequences reach your terminal.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def logs(name: str | None, follow: bool, kind: str | None, since: datetime | None, raw: bool, as_json: bool) -> int:
    """Print a log: of one goal (`auth`), of one branch (`auth.3`), or of all.

    \b
    convergence  attempts, decisions and criteria, from the ledger
    agent        what minds printed; without a name those of the goal that status shows
    system       what controllers did
    performance  seconds, memory and disk, at the end of attempts and checks
    """  # noqa: D301 - a backspace, which tells click to leave the lines as they are
    if raw and as_json:
        raise Refused("--raw and --json were both given", hint="give one of them")
    reader = bootstrap.reader(bootstrap.here())
    reader.ledger.catch_up()
    about = _meant(reader, name)
    kind = kind or ("agent" if about.branch is not None else "system")
    if kind == "agent" and about.basin is None and (shown := chosen_of(reader.ledger.state, None)) is not None:
        about = About(basin=shown.id)
    source = _source(reader, about, kind, since)
    over = _Over(reader, about, mind=kind == "agent")
    facts: Iterable[AnyFact] = told_by(reader.ledger) if kind == "convergence" else ()
    while True:
        last = not follow or over()  # asked first: what was written until then is read below
        for line, entry in source.more(facts, last=last):
            if since is not None and entry.at is not None and entry.at < since:
                continue
            _print(line, entry, raw=raw, as_json=as_json)
        if last:
            break
        sys.stdout.flush()
        time.sleep(POLL_SECONDS)
        facts = reader.ledger.catch_up()
    return 0


def _meant(reader: bootstrap.Reader, name: str | None) -> About:
    """The goal or branch of this name. Raises `Refused`."""
    state = reader.ledger.state
    if name is None or name in state.basins:
        return About(basin=name)
    if name in state.branches:
        return About(basin=state.branches[name].basin, branch=state.branches[name])
    raise Refused(f"no branch or destination is called {name}", hint="orchconverge status --verbose lists them")


def _source(reader: bootstrap.Reader, about: About, kind: str, since: datetime | None) -> Source:
    if kind == "convergence":
        return _Facts(about)
    if kind == "agent":
        return _Minds(reader, about, since)
    return _Journal(Tail(reader.places.state / "logs" / f"{kind}.log"), about, kind)


def _print(line: bytes, entry: view.Entry, *, raw: bool, as_json: bool) -> None:
    if raw or as_json:
        sys.stdout.buffer.write(line if raw else msgspec.json.encode(entry.record) + b"\n")
    else:
        print(entry.text)


class _Over:
    """Whether nothing more will come. Without a goal that is never so."""

    def __init__(self, reader: bootstrap.Reader, about: About, *, mind: bool) -> None:
        self._reader = reader
        self._about = about
        self._mind = mind and about.branch is not None
        self._held_at = time.monotonic()

    def __call__(self) -> bool:
        if self._about.basin is None:
            return False
        basin = self._reader.ledger.state.basins[self._about.basin]
        held = self._reader.locks.held(f"lease/{basin.id}")
        if held is not False:
            self._held_at = time.monotonic()
        if self._mind and self._mind_is_over(held=held):
            return True
        if basin.running is None:
            return held is not True
        if time.monotonic() - self._held_at < LOST_AFTER_SECONDS:
            return False
        print(f"The controller of {basin.id} is gone. orchconverge resume {basin.id}", file=sys.stderr)
        return True

    def _mind_is_over(self, *, held: bool | None) -> bool:
        assert self._about.branch is not None
        name = self._about.branch.id
        probe = Supervisors(self._reader.places.minds).probe(mind_name(name))
        if isinstance(probe, Running | Starting | Unknown):
            return False
        return not (held and self._reader.ledger.state.branches[name].may_run)  # it may be about to be started


# --- the kinds --------------------------------------------------------------------------------------------------------


class _Facts:
    """The ledger's facts. Of a branch also those of the attempt that made it."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._seq = 0
        self._zone = datetime.now().astimezone().tzinfo

    def more(self, facts: Iterable[AnyFact], *, last: bool) -> Iterator[tuple[bytes, view.Entry]]:
        for fact in facts:
            if fact.seq > self._seq and self._wanted(fact):
                yield encode(fact), view.convergence(fact, self._zone)
            self._seq = max(self._seq, fact.seq)

    def _wanted(self, fact: AnyFact) -> bool:
        basin, branch = self._about
        if basin is not None and getattr(fact, "basin", None) != basin:
            return False
        if branch is None:
            return True
        return branch.id == getattr(fact, "branch", None) or branch.attempt == getattr(fact, "attempt", None)


class _Journal:
    """The controllers' logs: one file holds those of every goal."""

    def __init__(self, tail: Tail, about: About, kind: str) -> None:
        self._tail = tail
        self._about = about
        self._kind = kind
        self._lines = _Lines()
        self._zone = datetime.now().astimezone().tzinfo

    def more(self, facts: Iterable[AnyFact], *, last: bool) -> Iterator[tuple[bytes, view.Entry]]:
        for line in self._lines.of(self._tail.more(), last=last):
            text = line.decode("utf-8", "replace").rstrip("\n")
            told = view.system(text, self._zone) if self._kind == "system" else view.performance(text, self._zone)
            if told is not None and self._wanted(told):
                yield line, told

    def _wanted(self, entry: view.Entry) -> bool:
        basin, branch = self._about
        if basin is not None and entry.record.get("basin") != basin:
            return False
        if branch is None:
            return True
        if self._kind == "performance":
            return entry.record.get("attempt") == branch.attempt
        return branch.id in entry.text.split()


class _Minds:
    """What minds printed, one after the other in the order in which they were spawned. Its lines have no time of their own."""

    def __init__(self, reader: bootstrap.Reader, about: About, since: datetime | None) -> None:
        self._reader = reader
        self._about = about
        self._since = since
        self._read: dict[str, tuple[Output, _Lines]] = {}

    def more(self, facts: Iterable[AnyFact], *, last: bool) -> Iterator[tuple[bytes, view.Entry]]:
        for branch in self._branches():
            if branch.id not in self._read:
                self._read[branch.id] = Output(self._reader.places.minds / mind_name(branch.id)), _Lines()
            output, lines = self._read[branch.id]
            while data := output.more():
                yield from self._told(branch.id, lines.of(data))
            if last:
                yield from self._told(branch.id, lines.of(b"", last=True))

    def _told(self, branch: str, lines: Iterable[bytes]) -> Iterator[tuple[bytes, view.Entry]]:
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            yield line, view.agent(branch, text, several=self._about.branch is None)

    def _branches(self) -> Iterable[Branch]:
        if self._about.branch is not None:
            return [self._about.branch]
        state = self._reader.ledger.state
        every = state.branches_of(self._about.basin) if self._about.basin is not None else ()
        return [one for one in every if self._since is None or one.may_run or _ended(one) >= self._since.timestamp()]


def _ended(branch: Branch) -> float:
    """When its mind ended, in seconds of the epoch; for ever, where the ledger does not say when it began."""
    return branch.spawned_at.timestamp() + branch.seconds if branch.spawned_at is not None else float("inf")


class _Lines:
    """Cuts what is read into lines, their newlines included."""

    def __init__(self) -> None:
        self._rest = b""

    def of(self, data: bytes, *, last: bool = False) -> list[bytes]:
        """The whole lines, and one that is longer than `LONGEST_BYTES`; with ``last`` what is left, too."""
        lines = (self._rest + data).splitlines(keepends=True) if data else [self._rest]
        whole = last or lines[-1].endswith(b"\n") or len(lines[-1]) > LONGEST_BYTES
        self._rest = b"" if whole else lines.pop()
        return [line for line in lines if line]
