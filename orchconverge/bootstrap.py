"""The one place where adapters are built. Cleans the environment once, before anything else looks at it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from orchconverge import whereabouts
from orchconverge.adapters.clock import SystemClock
from orchconverge.adapters.ledger import FileLedger
from orchconverge.adapters.locks import FileLocks
from orchconverge.errors import Refused
from orchconverge.files import own_folder, write_own

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from orchconverge.adapters.telemetry import Telemetry
    from orchconverge.app.closing import Closing
    from orchconverge.app.world import World
    from orchconverge.config import Loaded
    from orchconverge.core.events import AnyFact
    from orchconverge.core.spans import Spans
    from orchconverge.core.state import Basin, Run
    from orchconverge.core.values import Settings
    from orchconverge.ports.forge import Forge
    from orchconverge.ports.remains import Refs, Remains

OURSELVES = (sys.executable, "-P", "-m", "orchconverge")
"""How we start ourselves: without ``-P`` a checkout's own `click.py`, which a mind may have written, would be imported."""
KEPT_GIT = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_SSH", "GIT_ASKPASS")


class Reader(NamedTuple):
    """What reading needs, and no more: it is all that `status` loads."""

    repository: whereabouts.Repository
    places: whereabouts.Places
    ledger: FileLedger
    locks: FileLocks
    clock: SystemClock


def clean_environment() -> None:
    """Take out what would point git or tmux somewhere else: GitPython's ``env=`` can only add, never unset."""
    for name in list(os.environ):
        if (name.startswith("TMUX") and name != "TMUX_TMPDIR") or (
            name.startswith("GIT_") and not name.startswith(KEPT_GIT)
        ):
            del os.environ[name]


def here() -> Path:
    """The current directory. Raises `Refused` when it was removed."""
    try:
        return Path.cwd()
    except OSError as error:
        raise Refused("the current directory is gone", hint="cd to one that exists") from error


def reader(cwd: Path) -> Reader:
    """Open the ledger of the repository around ``cwd`` for reading. Raises `Refused` where there is no repository."""
    repository = whereabouts.required(cwd)
    places = whereabouts.places(repository)
    clock = SystemClock()
    return Reader(repository, places, FileLedger(places.state, clock), FileLocks(places.state), clock)


def load(cwd: Path, flags: Mapping[str, Any]) -> Loaded:
    """The settings for the repository around ``cwd``. Raises `Refused`."""
    from orchconverge import config

    repository = whereabouts.required(cwd)
    loaded = config.load(repository, flags=flags)
    return config.load(repository, flags=flags) if _identify(loaded.places.state) else loaded


def _identify(state: Path) -> bool:
    """Give a state directory without a ledger an identity, if it has none. True if one was given.

    It is part of the names of our other folders: what was left by a repository that was at the same place before, with
    goals of the same names, is not taken for this one's.
    """
    if os.path.lexists(state / "ledger.jsonl") or whereabouts.identity(state):
        return False
    draft = state / f".{whereabouts.IDENTITY}.{os.getpid()}"
    try:
        own_folder(state)
        write_own(draft, os.urandom(4).hex().encode())
        with suppress(FileExistsError):
            os.link(draft, state / whereabouts.IDENTITY)  # whole or not at all, and the first one stays
        draft.unlink()
    except (OSError, Refused):
        return False  # what comes next needs the same folder, and says what is wrong with it
    return True


def closing(cwd: Path) -> Closing:
    """What a step of the final chain needs: no tmux, no scheduler, no settings but those that the run recorded.

    Where its pull request is, and with whose credentials, is a person's setting of now: it is read when it is asked for.
    """
    from orchconverge.adapters.forge import found as forge_of
    from orchconverge.adapters.forge_local import Local
    from orchconverge.adapters.git import Repository
    from orchconverge.app.closing import Closing

    found = reader(cwd)
    git = Repository.open(cwd, trees=found.places.trees)

    def record(basin: Basin, run: Run) -> Forge:
        return Local(
            found.places.state / "pr" / f"{basin.id}.json",
            basin=basin.id,
            base=run.settings.onto or git.default_branch(run.settings.remote) or "",
            resolve=lambda branch: git.resolve(f"refs/heads/{branch}"),
            person=git.author().get("GIT_AUTHOR_NAME", ""),
        )

    def there(basin: Basin, run: Run) -> Forge:
        setting = load(cwd, {}).config.forge
        url = git.remotes().get(run.settings.remote, "")
        return forge_of(url, setting=setting, env=os.environ) or record(basin, run)

    def everything() -> AbstractContextManager[World]:
        return world(cwd, load(cwd, {}), drives=False)

    return Closing(ledger=found.ledger, git=git, state=found.places.state, forge=there, record=record, world=everything)


@contextmanager
def world(cwd: Path, loaded: Loaded, *, drives: bool) -> Iterator[World]:
    """Everything, built. Raises `Refused` for what cannot be worked in.

    ``drives``: a controller runs in it, which talks on this terminal and to which signals are wishes to stop.
    """
    from orchconverge.adapters.engines import ENGINES
    from orchconverge.adapters.engines.shell import acted
    from orchconverge.adapters.export import Export
    from orchconverge.adapters.gate import SocketGate
    from orchconverge.adapters.git import Repository
    from orchconverge.adapters.host import SystemHost
    from orchconverge.adapters.journal import LoggedJournal
    from orchconverge.adapters.mind_report import read_report
    from orchconverge.adapters.scheduler import SystemWakeups
    from orchconverge.adapters.shelf import FileShelf
    from orchconverge.adapters.supervisors import Supervisors
    from orchconverge.adapters.tmux import Tmux
    from orchconverge.app.world import World

    places, settings = loaded.places, loaded.config
    journal = LoggedJournal(places.state / "logs", screen=drives)
    clock = SystemClock()
    supervisors = Supervisors(places.minds)
    ledger = FileLedger(places.state, clock, waiting=journal.say)
    try:
        told = journal.say if drives else None
        with (
            _listening(cwd, loaded, ledger, journal.say) if drives else nullcontext(None) as heard,
            SystemWakeups(ledger=ledger.path, handle=supervisors.pidfd, told=told) as wakeups,
        ):
            yield World(
                ledger=ledger,
                git=Repository.open(cwd, trees=places.trees),
                panes=Tmux(settings.tmux.socket),
                supervisors=supervisors,
                leases=FileLocks(places.state, waiting=journal.say),
                clock=clock,
                wakeups=wakeups,
                host=SystemHost((places.state, places.trees, places.minds)),
                engines={name: build(os.environ) for name, build in ENGINES.items()},
                shelf=FileShelf(places.state / "evidence"),
                exports=Export(places.state),
                journal=journal,
                trees=places.trees,
                state=places.state,
                read_report=read_report,
                step_argv=step_argv,
                gate=lambda basin: SocketGate(_named(places.state, basin), acted),
                hook=(sys.executable, "-I", "-S", str(Path(__file__).with_name("hook.py"))),
                allowed=settings.env,
                memory_floor=settings.memory_floor_bytes,
                disk_floor=settings.disk_floor_bytes,
                heard=heard or (lambda fact: None),
            )
    finally:
        ledger.close()
        journal.close()


@contextmanager
def _listening(
    cwd: Path, loaded: Loaded, ledger: FileLedger, say: Callable[[str], None]
) -> Iterator[Callable[[AnyFact], None]]:
    """Who is told of each fact that a controller appends: those that the settings ask for."""
    from orchconverge.adapters.probes import missing

    asked = loaded.config
    listeners: list[Callable[[AnyFact], None]] = []
    for name, wanted in (("notify", asked.notify.urls), ("otel", asked.otel)):
        if wanted and (lacking := missing(name)):
            say(f"{name} is set, and {lacking} is not installed: pip install 'orchconverge[{name}]'")
    if asked.notify.urls or asked.notify.command:
        listeners.append(_notifying(cwd, loaded, ledger, say))
    with ExitStack() as opened:
        if asked.otel and not missing("otel"):
            tracing = _Tracing(ledger, say)
            opened.callback(tracing.close)
            listeners.append(tracing)

        def heard(fact: AnyFact) -> None:
            for each in listeners:
                each(fact)

        yield heard


def _notifying(cwd: Path, loaded: Loaded, ledger: FileLedger, say: Callable[[str], None]) -> Callable[[AnyFact], None]:
    from orchconverge.adapters import notify
    from orchconverge.core.needs import Damage, needs
    from orchconverge.core.telling import NEWS

    name, argv = whereabouts.required(cwd).main_root.name, (*OURSELVES, "_notify")
    notifier = notify.Notifier(loaded.places.state, repository=name, argv=argv, say=say)

    def heard(fact: AnyFact) -> None:
        if isinstance(fact, NEWS):
            damage = Damage(bad=ledger.health.bad, lines=ledger.health.lines, illegal=ledger.health.illegal)
            notifier.look(needs(ledger.state, now=SystemClock().now(), leases={}, silent={}, ledger=damage))

    return heard


class _Tracing:
    """Sends spans of what ends. What is under way when the first fact comes is read from the ledger, once."""

    def __init__(self, ledger: FileLedger, say: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._say = say
        self._spans: Spans | None = None
        self._telemetry: Telemetry | None = None

    def __call__(self, fact: AnyFact) -> None:
        if self._spans is None:
            self._spans = self._begun(before=fact.seq)
            self._telemetry = self._opened()
        found = self._spans.take(fact)
        if self._telemetry is not None:
            self._telemetry.send(found)

    def close(self) -> None:
        """Send the last ones."""
        if self._telemetry is not None:
            self._telemetry.close()

    def _begun(self, *, before: int) -> Spans:
        from orchconverge.core.spans import Spans
        from orchconverge.core.upcast import Damaged, Newer, decode

        spans = Spans()
        for line in self._ledger.show():
            fact = decode(line)
            if not isinstance(fact, Damaged | Newer) and fact.seq < before:
                spans.take(fact)
        return spans

    def _opened(self) -> Telemetry | None:
        try:
            from orchconverge.adapters.telemetry import Telemetry

            return Telemetry(self._say)
        except (
            ImportError,
            ValueError,
        ) as error:  # of packages that do not fit, or of a variable of the exporter's own
            self._say(f"otel: {error}: nothing is sent")
            return None


def _named(state: Path, basin: str) -> str:
    """What tells a basin of this state from every other one of this user, in twelve hexadecimal digits."""
    from hashlib import sha256

    return sha256(f"{whereabouts.identity(state)}/{state}/{basin}".encode()).hexdigest()[:12]


def remains(world: World, places: whereabouts.Places) -> tuple[Remains, Refs]:
    """What runs left behind: their folders and outputs, and their refs."""
    from orchconverge.adapters.git import Repository
    from orchconverge.adapters.git_refs import LeftRefs
    from orchconverge.adapters.remains import FileRemains

    assert isinstance(world.git, Repository)
    return FileRemains(runs=places.minds, evidence=places.state / "evidence"), LeftRefs(world.git.run)


def driving(world: World, basin: str, settings: Settings) -> World:
    """The world of one run: its lines carry its name, and its minds get the variables that it recorded, whatever a file says."""
    import dataclasses

    from orchconverge.adapters.journal import About

    return dataclasses.replace(world, journal=About(world.journal, basin), allowed=settings.env)


def step_argv(basin: str, step: str) -> tuple[str, ...]:
    """The command of a step of the final chain: our own, run by the interpreter that runs us."""
    return (*OURSELVES, "_step", step, basin)


def controller_argv(state: Path, basin: str) -> tuple[str, ...]:
    """The command that drives a basin in its tmux session."""
    return (*OURSELVES, "_drive", str(state), basin)
